"""What an experiment, an override or a seed gives to an option holds in every cell with that
option, and only there.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from flows.compose import compose_params
from flows.settings.door import compose, open_settings
from flows.settings.multirun import split_multirun
from flows.settings.overrides import complete_overrides, load_params
from flows.settings.typed import Settings
from tests.conf.experiment_table import list_plain_cells
from winnow.errors import ConfigError


def expand(words: Sequence[str]) -> list[Settings]:
    """Return the cells of a command line."""
    return compose(complete_overrides(words)).cells


@pytest.mark.parametrize(
    ("name", "training", "examples", "teacher"),
    [
        ("published_sft", "cite_synthetic", 3201, "gpt-3.5-turbo"),
        ("published_ppo", "cite_rewarded", 10347, None),
        ("published_sft_ppo", "cite_sft_rewarded", 10347, None),
    ],
)
def test_settings_of_an_experiment_reach_its_cells(
    name: str, training: str, examples: int, teacher: str | None
) -> None:
    """RAGE's trainings at full size have the mixtures, splits and teacher that the experiments
    name.
    """
    cells = {cell.training.name: cell for cell in expand([f"experiment=rage/{name}"])}
    assert set(cells) == {"none", training}
    assert not cells["none"].training.mix
    trained = cells[training].training
    assert (trained.mix["examples"], trained.mix["max_words"]) == (examples, None)
    assert (trained.evaluation.split, trained.evaluation.limit) == ("test", None)
    assert (trained.teacher.reader.base if trained.teacher else None) == teacher
    assert (trained.settings.get("quantize") or cells[training].method["quantize"]) == "4bit"


def test_overrides_of_one_option_hold_in_its_cells() -> None:
    """Such as a smaller training; the other option has no such setting."""
    cells = expand(
        ["experiment=rage/published_sft", "training.settings.epochs=1", "training.mix.examples=20"]
    )
    assert {
        cell.training.settings["epochs"] for cell in cells if cell.training.name == "cite_synthetic"
    } == {1}
    assert {
        cell.training.mix["examples"] for cell in cells if cell.training.name == "cite_synthetic"
    } == {20}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grid={training:[sft,cite]}", "training.seed=3"], "would hold for sft alone"),
        (["grid={strategy:[cite]}", "strategy.name=x"], "would hold for none of them"),
    ],
)
def test_overrides_that_hold_for_some_options_are_refused(
    words: Sequence[str], message: str
) -> None:
    """An override on the command line is meant for all cells."""
    with pytest.raises(ConfigError, match=message):
        expand(words)


def test_settings_of_an_option_outside_the_grid_are_refused() -> None:
    """They could hold in no cell. Without changes, the chosen option may be another."""
    assert [cell.retriever.name for cell in expand(["grid={retriever:[dense]}"])] == ["dense"]
    words = ["experiment=rage/published_sft", "grid.training=[none,cite]"]
    with pytest.raises(
        ConfigError,
        match=(
            r"grid.training=\['none', 'cite'\]: settings of training=cite_synthetic were changed"
        ),
    ):
        expand(words)
    with pytest.raises(
        ConfigError, match=r"write these settings into a copy of conf/training/none\.yaml"
    ):
        compose(words)


def test_values_of_an_experiment_s_axis_are_replaced_whatever_its_form() -> None:
    """The experiment names the axis by one key with dots; another axis is added beside it."""
    axis = "reader.engine.extra.chat_template_kwargs.enable_thinking"
    words = [
        "experiment=questions/thinking",
        "grid.strategy=[concatenation]",
        "grid.k=[5]",
        f"grid.{axis}=[true]",
    ]
    words.append("grid.reader.engine.extra.thinking_token_budget=[128,512]")
    engines = [cell.reader.plain["engine"]["extra"] for cell in expand(complete_overrides(words))]
    expected = {"chat_template_kwargs": {"enable_thinking": True}}
    assert engines == [expected | {"thinking_token_budget": budget} for budget in (128, 512)]
    with pytest.raises(ConfigError, match="has no axis"):
        complete_overrides([*words, "grid.reader.engin.extra=[1]"])


def test_seeds_reach_the_options_of_a_grid() -> None:
    """Every option that is trained, by every seed."""
    cfg = compose(["grid={training:[none,sft,cite]}", "seeds=[1,2]"])
    seeds = [
        (cell.training.name, cell.training.seed, cell.training.settings.get("seed"))
        for cell in cfg.cells
    ]
    expected = [(name, seed, seed) for seed in (1, 2) for name in ("sft", "cite")]
    assert [entry for entry in seeds if entry[0] != "none"] == expected


@pytest.mark.parametrize(
    "words",
    [
        ["grid={retriever:[bm25,dense],encoder:[minilm,bge]}", "answerable=retriever"],
        ["grid={reader:[openai],reader.base:[a,b]}"],
        ["grid={dataset:[trivia,flashrag]}"],
        [
            "grid={k:[1,2],estimator:[t5,t5_regression]}",
            "strategy=crag",
            "evaluate_estimator.k=${k}",
        ],
    ],
    ids=lambda words: words[0],
)
def test_the_cells_of_a_composed_file_are_those_of_the_command(
    words: list[str], tmp_path: Path
) -> None:
    """Whatever refers to what the grid changes: an encoder, an estimator's scale, k. Experiments
    have a test of their own.
    """
    path = tmp_path / "params.yaml"
    path.write_text(compose_params(words))
    assert list_plain_cells(compose(complete_overrides(words))) == list_plain_cells(
        open_settings(load_params(path, []))
    )


def test_what_others_refer_to_cannot_be_changed_in_a_composed_file(tmp_path: Path) -> None:
    """They would keep the former value."""
    path = tmp_path / "params.yaml"
    path.write_text(compose_params(["retriever=dense"]))
    with pytest.raises(
        ConfigError,
        match=(
            r"encoder.model.path=x: other settings refer to encoder.model.path, and .*params.yaml"
        ),
    ):
        load_params(path, ["encoder.model.path=x"])
    assert load_params(path, ["k=3"]).k == 3
    path.write_text(
        compose_params(["retriever=bm25", "estimator=cross_encoder", "evaluate_estimator.k=${k}"])
    )
    with pytest.raises(ConfigError, match="other settings refer to k,"):
        load_params(path, ["k=3"])


def test_a_composed_file_keeps_the_settings_of_its_grid(tmp_path: Path) -> None:
    """Its options have the settings of their experiment; others are unknown to it."""
    path = tmp_path / "params.yaml"
    path.write_text(compose_params(["experiment=rage/published_sft"]))
    (cell,) = open_settings(
        load_params(path, ["grid={training:[cite_synthetic],strategy:[cite]}"])
    ).cells
    assert cell.training.teacher is not None
    assert cell.training.teacher.reader.base == "gpt-3.5-turbo"
    with pytest.raises(
        ConfigError,
        match=(
            r"grid.training=\['sft'\]: .* has the settings of \['none', 'cite_synthetic'\] alone"
        ),
    ):
        load_params(path, ["grid.training=[sft]"])


def test_an_option_of_a_grid_may_refer_to_what_only_its_cells_have() -> None:
    """FlashRAG's address names a split that other data sets lack."""
    first, second = expand(["grid={dataset:[trivia,flashrag]}"])
    assert "all" not in first.dataset.split
    assert second.dataset.parser["path"].endswith(f"/{second.dataset.split['all']}.jsonl")


def test_jobs_of_a_multirun_are_hydras() -> None:
    """All combinations, in its order; of a key that is given twice, the last word counts."""
    assert split_multirun(["k=1,5", "strategy=a,b"]) == [
        [f"k={k}", f"strategy={name}"] for k in (1, 5) for name in "ab"
    ]
    assert split_multirun(["k=1,5", "depth=9", "k=7,9"]) == [
        ["k=7", "depth=9"],
        ["k=9", "depth=9"],
    ]
    assert split_multirun(["k=range(1,4)", "metric=[em],[f1]"])[1] == ["k=1", "metric=[f1]"]
    with pytest.raises(ConfigError, match=r"k=interval\(1,5\): the values cannot be listed"):
        split_multirun(["k=interval(1,5)"])
