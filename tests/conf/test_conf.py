"""Every YAML of conf/ composes, and what it describes can be built."""

import copy
import inspect
from functools import cache
from pathlib import Path

import pytest

from flows.compose import compose_params, load_overrides
from flows.settings.components import Component, import_component_class
from flows.settings.composition import CONF, compose_config, list_groups, list_keys, list_options
from flows.settings.door import compose, open_settings
from flows.settings.overrides import complete_overrides, load_params
from flows.settings.typed import Settings
from winnow.errors import ConfigError

EVERY = [(group, name) for group in list_groups() for name in list_options(group)]
LAUNCHERS = {
    "submitit": "hydra_plugins.hydra_submitit_launcher",
    "joblib": "hydra_plugins.hydra_joblib_launcher",
}


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_every_choice_composes_and_builds(group: str, name: str) -> None:
    """Each `_target_` of the choice is found and takes its settings."""
    if name in LAUNCHERS:
        pytest.importorskip(LAUNCHERS[name], reason="the extra `cluster` is not installed")
    if group in (
        "experiment",
        "runner",
        "breakdown",
    ):  # they change settings of all groups, or what no cell reads
        settings = compose([f"{group}={name}"])
    elif group in ("metric", "evaluator"):
        settings = _compose_all(group)
        assert name in settings.plain[group]
    else:
        (settings,) = compose([f"grid={{{group}:[{name}]}}"]).cells  # the option alone is composed
    built: list[Component] = []
    for cell in settings.cells:
        for component in _list_components(cell.plain.get(group, cell.plain)):
            if component not in built:
                built.append(component)
                assert component.build(**_objects(cell, component.target)) is not None


@cache
def _compose_all(group: str) -> Settings:
    return compose([f"{group}=[{','.join(list_options(group))}]"])


def _objects(settings: Settings, target: str) -> dict[str, object]:
    """What the flows hand to a class beside its settings."""
    name = target.rpartition(".")[2]
    if (
        ".strategies." in target
        and "prompt" in inspect.signature(import_component_class(target)).parameters
    ):
        return {"prompt": settings.prompt.build(), "decoding": settings.decoding.build()}
    if (
        ".readers." in target
        and {"path", "name"} <= inspect.signature(import_component_class(target)).parameters.keys()
    ):
        return {"path": "somewhere", "name": "x"}
    if ".estimators." in target:
        return {"path": "somewhere"} if settings.estimator.base is not None else {}
    if name == "LocalSearch":
        return {"searcher": None, "passages": None, "identity": "x"}
    if name == "WebSearch":
        return {"identity": "x"}
    learners = {
        "ReRag": {"estimator": None},
        "RelevanceRegression": {"estimator": None},
        "Rag": {"generator": None},
        **{name: {"base": "somewhere", "task": None} for name in ("Ppo", "Grpo", "Rloo")},
        "Fid": {"generator": None},
    }
    return learners.get(name, {})


def _list_components(node: object) -> list[Component]:
    """The outermost mappings with a `_target_`."""
    if not isinstance(node, dict):
        return []
    if "_target_" in node:
        return [Component(node)]
    return [component for inner in node.values() for component in _list_components(inner)]


def test_there_are_enough_choices_and_each_says_how_it_is_used() -> None:
    """No folder is silently skipped; the first comment is a command."""
    assert len(EVERY) > 40
    for group, name in EVERY:
        text = (CONF / group / f"{name}.yaml").read_text()
        says_how = group == "prompt" or "# python -m flows." in text or "# make " in text
        assert says_how, (
            f"conf/{group}/{name}.yaml: write the command that uses it in its first comment."
        )


def test_params_yaml_is_current() -> None:
    """It is what conf/ and overrides.yaml compose to; nobody edited it."""
    root = CONF.parent
    assert (root / "params.yaml").read_text() == compose_params(
        load_overrides(root / "overrides.yaml")
    )


def test_params_yaml_holds_no_interpolation_and_no_machine() -> None:
    """Everything is resolved; nothing is missing; no absolute path."""
    text = (CONF.parent / "params.yaml").read_text()
    assert "${" not in text
    assert "???" not in text
    assert ": /" not in text


def test_the_quick_start_is_25_cells() -> None:
    """Four strategies by two k by three placements, and closed book once."""
    cells = compose(["experiment=quick_start"]).cells
    assert len(cells) == 25
    assert [(c.k, c.placement.name) for c in cells if c.strategy.name == "closed_book"] == [
        (0, "none")
    ]


def test_settings_within_groups_are_axes_too() -> None:
    """Figure 5 is three strategies by five numbers of samples; the list can be changed on the
    command line.
    """
    cells = compose(["experiment=post_fusion/figure5"]).cells
    assert len(cells) == 15
    assert [c.decoding["samples"] for c in cells[:5]] == [1, 5, 10, 30, 50]
    complete_overrides(
        words := [
            "experiment=post_fusion/figure5",
            "grid.decoding.samples=[1,3]",
            "decoding.temperature=0.5",
        ]
    )
    assert {(c.decoding["samples"], c.decoding["temperature"]) for c in compose(words).cells} == {
        (1, 0.5),
        (3, 0.5),
    }
    orders = [
        c.placement.rule["order"] for c in compose(["experiment=post_fusion/positions"]).cells
    ]
    assert orders == ["shuffled", *range(1, 11)] * 2


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
        "flows.settings.overrides.compose_config", lambda _: pytest.fail("composed")
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "experiment=post_fusion/table1 +strategy.plan.vote.ties=random",
            r"over strategy \(concatenation, .*would hold for concatenation alone",
        ),
        ("experiment=re_rag/table6 k=1", r"^k: the grid is over k \(5, 10\).*'grid.k=\[...\]'"),
        ("k=1 experiment=re_rag/table6 grid.k=[7]", r"over k \(7\)"),
        ("experiment=re_rag/figure2 weighting.by=none", r"over weighting.by \(estimator\)"),
        ("experiment=re_rag/figure2 weighting={by:none,scale:2}", r"over weighting.by"),
        (
            "experiment=quick_start strategy=post_fusion",
            r"over strategy \(closed_book, concatenation",
        ),
        (
            "experiment=re_rag/table1,re_rag/table6 strategy=post_fusion",
            r"over strategy \(post_fusion, marginal_generated\)",
        ),
        ("+grid.k=[1],[2] k=3", r"over k \(1\)"),
        ("+grid={k:[1]},{rank_by:[estimator]} rank_by=retriever", r"over rank_by \(estimator\)"),
        (
            "grid={weighting:[{by:none,scale:1.0}]} weighting.by=none",
            "^weighting.by: the grid is over weighting",
        ),
        (
            "experiment=re_rag/table6 grid.k=7",
            r"grid.k=7: an axis needs a list of values; write 'grid.k=\[7\]'",
        ),
        (
            "experiment=re_rag/table6 grid.strategy=post_fusion",
            r"write 'grid.strategy=\[post_fusion\]'",
        ),
        ("experiment=re_rag/table6 grid.kk=[7]", "no axis 'kk', and there is no such setting"),
        ("~dataset.split.shuffle", "There is no setting 'dataset.split.shuffle'"),
        (
            "dataset.split.shufle=true",
            "There is no setting 'dataset.split.shufle'. Did you mean 'dataset.split.shuffle'",
        ),
        (
            "experiment=re_rag/table6 grid.placement.rule.seed=[1,2] placement.rule.seed=3",
            "over placement.rule.seed",
        ),
        ("grid=5", "grid=5: it must map each axis to a list"),
    ],
)
def test_what_a_grid_hides_is_refused(words: str, message: str) -> None:
    """Whatever the order of the words, for each experiment and grid of a multirun."""
    with pytest.raises(ConfigError, match=message):
        complete_overrides(words.split())


def test_an_unknown_axis_is_refused_with_the_nearest_setting() -> None:
    """Not with the name that was typed."""
    for axis, nearest in (
        ("strategies", "strategy"),
        ("temperature", "decoding.temperature"),
        ("placment", "placement"),
    ):
        with pytest.raises(
            ConfigError, match=f"there is no setting '{axis}'. Did you mean '{nearest}'"
        ):
            list(compose([f"grid={{{axis}:[1,2]}}"]).cells)


def test_values_that_cannot_be_set_are_refused() -> None:
    """A name in place of a number in a list, and a new key that is there; Hydra's own words are
    left to it.
    """
    for words, message in (
        (["++rank.splits.x=dev"], "invalid literal"),
        (["+k=3"], r"\+k=3: there is a setting k already\. Remove the \+"),
    ):
        with pytest.raises(ConfigError, match=message):
            compose(words)
    assert compose(["hydra/job_logging=default"]).k == compose([]).k


def test_what_reaches_a_cell_passes() -> None:
    """An axis that was taken away, a group whose setting is an axis, and every word where no grid
    is run.
    """
    complete_overrides(["experiment=re_rag/table6", "~grid.k", "k=1"])
    complete_overrides(["experiment=re_rag/table6", "grid=null", "k=1", "strategy=post_fusion"])
    complete_overrides(["experiment=re_rag/table6", "~grid", "k=1"])
    assert [cell.k for cell in compose(["experiment=re_rag/table6", "~grid", "k=1"]).cells] == [1]
    emptied = ["experiment=post_fusion/positions", "~grid.placement.rule"]
    assert len(compose(emptied).cells) == 2
    complete_overrides(["experiment=re_rag/table6", "grid.k=[1],[2]"])
    complete_overrides(["experiment=post_fusion/positions", "placement=gold_first"])
    complete_overrides(["+grid.reader=[smollm2]", "reader@joint.teacher.reader=folder"])
    complete_overrides(["+grid.retriever=[bm25,dense]", "retriever=dense"], grid=False)


def test_words_after_a_params_file(tmp_path: Path) -> None:
    """They change keys that it has, the choices of its grid too, unless the grid hides them."""
    path = tmp_path / "params.yaml"
    path.write_text(compose_params(["experiment=quick_start"]))
    assert load_params(path, ["depth=30"]).depth == 30
    assert load_params(path, ["k=3"], grid=False).k == 3
    assert [cell.k for cell in open_settings(load_params(path, ["k=3", "grid=null"])).cells] == [3]
    cells = open_settings(load_params(path, ["grid.strategy=[post_fusion]", "grid.k=[7]"])).cells
    assert {(cell.strategy.name, cell.k) for cell in cells} == {("post_fusion", 7)}
    with pytest.raises(ConfigError, match=r"over k \(1, 5\)"):
        load_params(path, ["k=3"])
    with pytest.raises(ConfigError, match="the grid is over strategy"):
        load_params(path, ["strategy.name=x"])
    with pytest.raises(ConfigError, match="Did you mean 'depth'"):
        load_params(path, ["dept=3"])
    with pytest.raises(
        ConfigError, match=r"reader=openai: .*params.yaml is composed already.* in overrides.yaml"
    ):
        load_params(path, ["reader=openai"])


def test_overrides_file(tmp_path: Path) -> None:
    """Groups, single settings of every type, and a strange key."""
    path = tmp_path / "o.yaml"
    path.write_text(
        "groups: {retriever: dense}\nset: {k: 7, closed_book.limit: null, grid.k: [1, 2], a: "
        "'IVF8,PQ4 (x=1)'}\n"
    )
    assert load_overrides(path) == [
        "retriever=dense",
        "k=7",
        "closed_book.limit=null",
        "grid.k=[1,2]",
        "a='IVF8,PQ4 (x=1)'",
    ]
    factory = "retriever.engine.index_factory"
    path.write_text(f"groups: {{retriever: dense}}\nset: {{{factory}: 'IVF8,PQ4'}}\n")
    assert "index_factory: IVF8,PQ4" in compose_params(load_overrides(path))
    path.write_text("sets: {}\n")
    with pytest.raises(ConfigError, match="sets"):
        load_overrides(path)


def test_bad_values_are_config_errors() -> None:
    """A dataclass's refusal reaches the user as it is; an unknown setting too."""
    with pytest.raises(ConfigError, match="0 <= b <= 1"):
        Component({"_target_": "winnow.retrievers.bm25.BM25", "b": 3}).build()
    with pytest.raises(ConfigError, match="bee"):
        Component({"_target_": "winnow.retrievers.bm25.BM25", "bee": 3}).build()
    nested = {
        "_target_": "winnow.retrievers.dense.Dense",
        "encoder": {
            "_target_": "winnow.modeling.sentence_encoder.SentenceEncoder",
            "path": "x",
            "pooling": "max",
        },
    }
    with pytest.raises(ConfigError, match="mean, cls or last"):
        Component(nested).build()
    with pytest.raises(ConfigError, match=r"grid\.strategy: there is no conf/strategy/nope"):
        list(compose(["+grid={strategy:[nope]}"]).cells)


def test_roles_and_metrics_are_chosen_by_their_group() -> None:
    """A reader for the role of a judge, with settings of its own; a list of metrics; an unknown one
    is refused.
    """
    words = [
        "reader@judge=openai",
        "judge.base=gpt-4o-mini",
        "metric=[em,judged]",
        "breakdown=gold_rank",
    ]
    complete_overrides(words)
    cfg = compose(words)
    assert cfg.judge is not None
    assert (cfg.judge.name, cfg.reader.name) == ("gpt-4o-mini", "smollm2_tuned")
    assert list(cfg.metric) == ["em", "judged"]
    with pytest.raises(
        ConfigError,
        match=r"metric=unknwn: there is no conf/metric/unknwn.yaml. Did you mean 'unk'",
    ):
        complete_overrides(["metric=[em,unknwn]"])


def test_a_component_that_lacks_a_key_is_named() -> None:
    """A reader without `tuned`; a metric without its package line, which leaves its keys where
    metrics belong.
    """
    plain = copy.deepcopy(compose([]).plain)
    del plain["reader"]["tuned"]
    with pytest.raises(ConfigError, match=r"conf/reader/ \(.*\): the YAML lacks tuned\. Add it"):
        Settings.load(plain)
    plain = copy.deepcopy(compose([]).plain)
    plain["metric"]["title"] = "EM"
    with pytest.raises(
        ConfigError, match=r"'title' is not a metric\. .*`# @package metric.<name>`"
    ):
        Settings.load(plain)


def test_a_setting_that_is_given_twice_has_one_sign() -> None:
    """Once as Hydra wants a new key, and once as users write it."""
    words = ["dataset=nq_open", "+dataset.split.test=3", "dataset.split.test=1_000"]
    assert complete_overrides(words, grid=False) == [
        words[0],
        "++dataset.split.test=3",
        "++dataset.split.test=1_000",
    ]
