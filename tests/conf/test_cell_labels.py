"""Labels by which the cells of one report differ."""

from dataclasses import replace

import pytest

from flows.project.artifacts import Project
from flows.project.labels import build_labels, describe_settings, name_prompts
from flows.project.models import resolve_trained_reader
from flows.settings.door import compose
from tests.sweeps.test_spec import spec as make_spec
from winnow.errors import ConfigError
from winnow.sweeps.spec import CellSpec, list_varying_settings


def spec(*overrides: str) -> CellSpec:
    """A cell of which only labels, settings and configuration matter."""
    return replace(make_spec({"reader": "x"}), config=compose([*overrides]).plain)


def test_a_grid_of_prompts_has_short_labels() -> None:
    """Where no prompt differs, none is named."""
    cells = [spec(f"prompt={name}") for name in ("re_rag", "post_fusion", "rage")]
    assert list_varying_settings(name_prompts(cells)) == [
        [("prompt", "re_rag")], [("prompt", "post_fusion")], [("prompt", "rage")]
    ]  # fmt: skip
    assert name_prompts(cells[:1]) == cells[:1]
    trained = [
        spec("prompt=rage", *words)
        for words in ([], ["prompt@reader.trained_on=re_rag"], ["prompt@reader.trained_on=plain"])
    ]
    assert list_varying_settings(name_prompts(trained)) == [
        [("trained on", "rage")], [("trained on", "re_rag")], [("trained on", "plain")]
    ]  # fmt: skip
    assert name_prompts([cells[0], replace(cells[0], key="other")])[0].settings == {"reader": "x"}


def test_a_changed_prompt_is_described_by_what_differs() -> None:
    """Two of them have the same name, and differ in a template."""
    cells = [
        spec("prompt=rage"),
        spec("prompt=rage", "prompt.system=Be brief."),
        spec("prompt=rage", "prompt.system=Be kind."),
    ]
    assert list_varying_settings(name_prompts(cells)) == [
        [("prompt", "rage")],
        [("prompt", "own"), ("prompt.system", "Be brief.")],
        [("prompt", "own"), ("prompt.system", "Be kind.")],
    ]


def test_cells_of_other_questions_have_other_labels() -> None:
    """By limit and by filter, in the settings that tables show and in the selection that
    comparisons need to be equal.
    """
    words = [[], ["sweep.limit=7"], ["sweep.limit=null"], ["sweep.closed_book_filter=false"]]
    configs = [compose([*overrides]) for overrides in words]
    settings = [describe_settings(cfg) for cfg in configs]
    assert [one["limit"] for one in settings] == ["60", "7", "none", "60"]
    assert [one["filter"] for one in settings] == [
        "closed book",
        "closed book",
        "closed book",
        "none",
    ]
    selections = [build_labels(cfg, Project(cfg)).questions for cfg in configs]
    assert len(set(selections)) == 4
    assert {selection.rpartition("/test/")[2] for selection in selections} == {
        "60/closed book", "7/closed book", "none/closed book", "60/none"
    }  # fmt: skip


def test_a_cell_says_whether_its_prompts_rest_on_gold_labels() -> None:
    """By its placement, its distractors, and what it places inside a loop; without passages it does
    not.
    """

    def describe(*words: str) -> tuple[bool, str]:
        cfg = compose([*words])
        labels = build_labels(cfg, Project(cfg))
        return labels.uses_gold, labels.words

    base = ("strategy=concatenation", "k=5")
    assert describe(*base) == (False, "concatenation on five passages as retrieved")
    assert describe(*base, "placement=gold_first") == (
        True,
        "concatenation on five passages with the gold passage first",
    )
    assert describe(*base, "distractors=hard") == (
        True,
        "concatenation on five passages as retrieved, distractors hard",
    )
    assert describe(*base, "retriever=mixture")[0]
    assert describe("strategy=react", "k=3", "search=damaged")[0]
    assert describe("strategy=closed_book", "k=0", "placement=gold_first") == (
        False,
        "closed_book without passages",
    )
    agent = ("strategy=react", "k=0", "search=local", "placement=gold_first")
    assert [describe(*agent, f"search.rules.placed={value}")[0] for value in ("false", "true")] == [
        False,
        True,
    ]
    assert describe(*agent)[1] == "react on passages of its own searches"


def test_samples_and_temperature_are_two_settings() -> None:
    """The number of samples is an axis of a plot, the temperature is not."""
    settings = describe_settings(compose(["decoding=self_consistency", "decoding.samples=5"]))
    assert (settings["decoding"], settings["samples"]) == ("T=0.7", "5")
    greedy = describe_settings(compose([]))
    assert (greedy["decoding"], greedy["samples"]) == ("greedy", "1")


def test_trainings_know_no_options_of_a_chat_template() -> None:
    """The reader would be trained on other prompts than it answers."""
    cfg = compose(["reader=smollm2_tuned", "+reader.engine.template_options.enable_thinking=false"])
    with pytest.raises(
        ConfigError, match=r"trainings do not know reader\.engine\.template_options"
    ):
        resolve_trained_reader(Project(cfg), cfg.reader, cfg.prompt)
