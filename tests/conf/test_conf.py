"""Every YAML of conf/ composes, and what it describes can be built."""

import copy
from functools import cache
from pathlib import Path

import pytest

from flows.compose import compose_params, load_overrides
from flows.settings.components import Component
from flows.settings.composition import CONF, list_groups, list_options
from flows.settings.door import compose
from flows.settings.overrides import complete_overrides
from flows.settings.typed import Settings
from tests.conf.building import build_components
from winnow.errors import ConfigError

EVERY = [(group, name) for group in list_groups() for name in list_options(group)]
LAUNCHERS = {
    "submitit": "hydra_plugins.hydra_submitit_launcher",
    "joblib": "hydra_plugins.hydra_joblib_launcher",
}


@pytest.mark.parametrize(
    ("group", "name"),
    [choice for choice in EVERY if choice[0] != "experiment"],  # see test_experiments.py
)
def test_every_choice_composes_and_builds(group: str, name: str) -> None:
    """Each `_target_` of the choice is found and takes its settings."""
    if name in LAUNCHERS:
        pytest.importorskip(LAUNCHERS[name], reason="the extra `cluster` is not installed")
    if group in ("runner", "breakdown"):  # no cell reads them
        settings = compose([f"{group}={name}"])
    elif group in ("metric", "evaluator"):
        settings = _compose_all(group)
        assert name in settings.plain[group]
    else:
        (settings,) = compose([f"grid={{{group}:[{name}]}}"]).cells  # the option alone is composed
    build_components(settings, group)


@cache
def _compose_all(group: str) -> Settings:
    return compose([f"{group}=[{','.join(list_options(group))}]"])


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
