"""What an experiment, an override or a seed gives to an option holds in every cell with that option, and only there."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from omegaconf import DictConfig

from flows._conf import compose
from flows._grid import expand_grid
from flows._overrides import complete_overrides, load_params
from flows._seeds import expand_seeds
from flows.compose import compose_params
from winnow.errors import ConfigError


def expand(words: Sequence[str]) -> list[DictConfig]:
    """Return the cells of a command line."""
    return list(expand_grid([compose(complete_overrides(words))]))


@pytest.mark.parametrize(
    ("name", "training", "examples", "teacher"),
    [
        ("published_sft", "cite_synthetic", 3201, "gpt-3.5-turbo"),
        ("published_ppo", "cite_rewarded", 10347, None),
        ("published_sft_ppo", "cite_sft_rewarded", 10347, None),
    ],
)
def test_settings_of_an_experiment_reach_its_cells(name: str, training: str, examples: int, teacher: str | None) -> None:
    """RAGE's trainings at full size have the mixtures, splits and teacher that the experiments name."""
    cells = {cell.training.name: cell for cell in expand([f"experiment=rage/{name}"])}
    assert set(cells) == {"none", training}
    assert cells["none"].training.mix is None
    trained = cells[training].training
    assert (trained.mix.examples, trained.mix.max_words) == (examples, None)
    assert (trained.evaluation.split, trained.evaluation.limit) == ("test", None)
    assert (trained.teacher.reader.base if trained.teacher else None) == teacher
    assert (trained.settings.get("quantize") or cells[training].method.quantize) == "4bit"


def test_overrides_of_one_option_hold_in_its_cells() -> None:
    """Such as a smaller training; the other option has no such setting."""
    cells = expand(["experiment=rage/published_sft", "training.settings.epochs=1", "training.mix.examples=20"])
    assert {cell.training.settings.epochs for cell in cells if cell.training.name == "cite_synthetic"} == {1}
    assert {cell.training.mix.examples for cell in cells if cell.training.name == "cite_synthetic"} == {20}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grid={training:[sft,cite]}", "training.seed=3"], "would hold for sft alone"),
        (["grid={strategy:[cite]}", "strategy.name=x"], "would hold for none of them"),
    ],
)
def test_overrides_that_hold_for_some_options_are_refused(words: Sequence[str], message: str) -> None:
    """An override on the command line is meant for all cells."""
    with pytest.raises(ConfigError, match=message):
        expand(words)


def test_settings_of_an_option_outside_the_grid_are_refused() -> None:
    """They could hold in no cell. Without changes, the chosen option may be another."""
    assert [cell.retriever.name for cell in expand(["grid={retriever:[dense]}"])] == ["dense"]
    words = ["experiment=rage/published_sft", "grid.training=[none,cite]"]
    with pytest.raises(
        ConfigError, match=r"grid.training=\['none', 'cite'\]: settings of training=cite_synthetic were changed"
    ):
        expand(words)
    with pytest.raises(ConfigError, match=r"write these settings into a copy of conf/training/none\.yaml"):
        compose(words)


def test_seeds_reach_the_options_of_a_grid() -> None:
    """Every option that is trained, by every seed."""
    cfg = compose(["grid={training:[none,sft,cite]}", "seeds=[1,2]"])
    cells = list(expand_grid(expand_seeds([cfg])))
    seeds = [(c.training.name, c.training.get("seed"), (c.training.get("settings") or {}).get("seed")) for c in cells]
    expected = [(name, seed, seed) for seed in (1, 2) for name in ("sft", "cite")]
    assert [entry for entry in seeds if entry[0] != "none"] == expected


def test_a_composed_file_keeps_the_settings_of_its_grid(tmp_path: Path) -> None:
    """Its options have the settings of their experiment; others are unknown to it."""
    path = tmp_path / "params.yaml"
    path.write_text(compose_params(["experiment=rage/published_sft"]))
    (cell,) = expand_grid([load_params(path, ["grid={training:[cite_synthetic],strategy:[cite]}"])])
    assert cell.training.teacher.reader.base == "gpt-3.5-turbo"
    with pytest.raises(
        ConfigError, match=r"grid.training=\['sft'\]: .* has the settings of \['none', 'cite_synthetic'\] alone"
    ):
        load_params(path, ["grid.training=[sft]"])
