"""Keys that a configuration lacks: mistyped ones, and those of components."""

import pytest

from flows.settings.composition import compose_config, list_keys
from flows.settings.door import compose
from flows.settings.overrides import complete_overrides
from winnow.errors import ConfigError


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("retreiver=dense", "Did you mean 'retriever'"),
        ("strategy=concatentaion", "Did you mean 'concatenation'"),
        ("strategy=IRCoT", "Did you mean 'ircot'"),
        ("K=5", "Did you mean 'k'"),
        (
            "reader=gpt-4o",
            r"The choices are fid, folder, .*reader.base, as in reader=openai reader.base=gpt-4o",
        ),
        (
            "metric=mauve",
            r"metric=mauve: there is no conf/metric/mauve.yaml. The choices are accuracy, ",
        ),
        ("training.settings.learnig_rate=1", "Did you mean 'training.settings.learning_rate'"),
        ("k", "write key=value"),
        ("retriever=dense,bm52", "Did you mean 'bm25'"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(word: str, message: str) -> None:
    """Before anything runs."""
    with pytest.raises(ConfigError, match=message):
        complete_overrides(word.split())


def test_a_mistyped_name_is_refused_before_anything_is_composed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another name may be the end of a longer one, which only the composed settings know."""
    monkeypatch.setattr(
        "flows.settings.unknown_keys.compose_config", lambda _: pytest.fail("composed")
    )
    with pytest.raises(ConfigError, match="Did you mean 'strategy'"):
        complete_overrides(["stratgy=cite"])
    for words, meant in (
        ("sweep.limt=3", "sweep.limit"),
        ("retriver.engine.kind=x", "retriever"),
        ("report.ot=x", "report.out"),
    ):
        with pytest.raises(ConfigError, match=f"Did you mean '{meant}'"):
            complete_overrides([words])
    for words in (
        "temperature=1",
        "decoding.sampels=2",
        "reader.base=x",
        "reader.engine.budget.money=1",
        "rewriter.bse=x",
    ):
        with pytest.raises(pytest.fail.Exception, match="composed"):
            complete_overrides([words])


def test_a_mistyped_end_of_a_name_is_recognized() -> None:
    """With or without what stands before it."""
    for words in ("sampels=3", "samples=3", "decoding.sampels=3"):
        with pytest.raises(ConfigError, match=r"Did you mean 'decoding\.samples'"):
            complete_overrides([words])


def test_known_keys_pass() -> None:
    """Groups, values, sweeps, and keys of a chosen option; in a grid, those of groups that are no
    axis.
    """
    complete_overrides(
        ["experiment=post_fusion/table1", "placement.rule.seed=1", "grid.strategy=[post_fusion]"]
    )
    complete_overrides(
        [
            "retriever=dense",
            "retriever.engine.index_factory=HNSW32",
            "k=1,5",
            "+new=1",
            "hydra.verbose=true",
        ]
    )
    complete_overrides(
        [
            "reader=openai",
            "reader.base=x",
            "reader.engine.budget.money=2",
            "reader@joint.teacher.reader=folder",
        ]
    )
    complete_overrides(["experiment=null", "k=3"])
    assert "corpus.parser.path" in list_keys(compose_config([]))


def test_settings_at_their_defaults_need_no_plus() -> None:
    """Settings of a component that its YAML does not name, and new axes of a grid, are set as any
    other.
    """
    words = complete_overrides(
        ["dataset=jsonl", "dataset.split.shuffle=true", "+reader.engine.cache_gb=2", "k=3"]
    )
    assert words == [
        "dataset=jsonl",
        "++dataset.split.shuffle=true",
        "+reader.engine.cache_gb=2",
        "k=3",
    ]
    assert compose(words).dataset.split == {
        "_target_": "winnow.datasets.split.Split",
        "all": "test",
        "shuffle": True,
    }
    assert (
        complete_overrides(["dataset=jsonl", "dataset.split.seed=1,2"])[1]
        == "++dataset.split.seed=1,2"
    )
    assert (
        complete_overrides(["dataset=jsonl", "++dataset.split.seed=1"])[1]
        == "++dataset.split.seed=1"
    )
    words = complete_overrides(["reader.engine.template_options.enable_thinking=false"])
    assert compose(words).reader.engine["template_options"] == {"enable_thinking": False}
    with pytest.raises(ConfigError, match=r"no setting 'reader.engine.cache_gb.more'"):
        complete_overrides(["reader.engine.cache_gb.more=1"])
    words = complete_overrides(
        ["experiment=re_rag/table6", "grid.prompt=[plain,post_fusion]", "grid.decoding.seed=[1,2]"]
    )
    assert words == [
        "experiment=re_rag/table6",
        "++grid.prompt=[plain,post_fusion]",
        "++grid.decoding.seed=[1,2]",
    ]
    cells = compose(words).cells
    assert len(cells) == 4 * len(compose(words[:1]).cells)
    shuffled = complete_overrides(["grid={dataset:{split:{shuffle:[true,false]}}}"])
    assert [cell.dataset.split["shuffle"] for cell in compose(shuffled).cells] == [True, False]
    words = complete_overrides(["encoder=minilm,bge", "encoder.model.query_prefix=x"])
    assert words[1] == "++encoder.model.query_prefix=x", "bge has the setting, minilm has not"
    for option in ("minilm", "bge"):
        assert compose([f"encoder={option}", words[1]]).encoder.model["query_prefix"] == "x"
    for axis in ("seeds", "dry_run", "report.seed", "paths.data", "grid", "sweep.name"):
        with pytest.raises(ConfigError, match=f"The grid has no axis '{axis}'"):
            complete_overrides([f"grid.{axis}=[1,2]"])
    assert complete_overrides(["grid.method=[ppo]"]) == ["++grid.method=[ppo]"], (
        "a group that the settings may lack"
    )
    assert complete_overrides(["grid.sweep.limit=[1,2]"]) == ["++grid.sweep.limit=[1,2]"]
    with pytest.raises(ConfigError, match=r"There is no setting 'encoder\.model\.truncated'"):
        complete_overrides(["encoder.model.truncated=5"])
