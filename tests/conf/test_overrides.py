"""Overrides: unknown and mistyped keys, axes of grids, values."""

from pathlib import Path

import pytest

from flows.compose import compose_params
from flows.settings.door import compose, open_settings
from flows.settings.overrides import complete_overrides, load_params
from winnow.errors import ConfigError


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["strategy=iter_retgen", "strategy.plan.rounds=2", "grid={strategy.plan.rounds:[1,2]}"],
            r"the grid is over strategy.plan.rounds \(1, 2\)",
        ),
        (["sweep.limit=10", "grid={sweep.limit:[3,5]}"], r"over sweep.limit \(3, 5\)"),
        (["grid={k:[]}"], "grid.k has no value"),
        (["grid={k:[1,3],strategy:[]}"], "grid.strategy has no value"),
        (["metric=[]"], r"metric: a table needs at least one metric, such as 'metric=\[em\]'"),
    ],
)
def test_axes_without_effect_or_value_are_named(words: list[str], message: str) -> None:
    """A dotted axis that an override hides, an axis without a value, no metric at all."""
    with pytest.raises(ConfigError, match=message):
        list(compose(complete_overrides(words)).cells)
