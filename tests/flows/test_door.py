"""The door: what Hydra composes comes out typed, once for each job, seed and cell."""

import itertools
import json
from pathlib import Path

import pytest

from flows.settings.composition import compose_config
from flows.settings.door import compose, list_cells, open_seeds, reopen
from winnow.errors import ConfigError


def test_settings_are_typed_and_keep_what_was_composed() -> None:
    """An attribute for each name, defaults where the YAML says nothing, and the plain values from
    which keys are computed.
    """
    settings = compose(["strategy=closed_book", "k=3"])
    assert (settings.k, settings.strategy.uses_passages, settings.strategy.engines) == (
        3,
        False,
        ["reader"],
    )
    assert settings.strategy.plain == {
        "name": "closed_book",
        "uses_passages": False,
        "plan": {"_target_": "winnow.strategies.closed_book.ClosedBook"},
    }
    assert settings.words == ("strategy=closed_book", "k=3")
    assert settings.judge is None
    assert not settings.breakdown


def test_cells_are_distinct_over_all_jobs() -> None:
    """Closed book once, whatever k; a job without a grid is its own cell."""
    job = compose(["grid={strategy:[closed_book,concatenation],k:[1,5]}"])
    assert [(cell.strategy.name, cell.k) for cell in job.cells] == [
        ("closed_book", 0),
        ("concatenation", 1),
        ("concatenation", 5),
    ]
    other = compose(["k=5"])
    assert len(list_cells([job, other, job])) == 3
    (cell,) = other.cells
    assert (cell.k, cell.grid, cell.cells) == (5, None, [cell])


def test_seeds_are_jobs_and_their_cells_those_of_all_seeds() -> None:
    """Opened one by one, or expanded with the grid."""
    composed = compose_config(["seeds=[1,2]", "grid={k:[1,5]}"])
    jobs = open_seeds(composed)
    assert [(job.seeds, job.training.seed) for job in jobs] == [([1], 1), ([2], 2)]
    assert [(cell.k, cell.training.seed) for cell in list_cells(jobs)] == [
        (1, 1),
        (5, 1),
        (1, 2),
        (5, 2),
    ]
    whole = compose(["seeds=[1,2]", "grid={k:[1,5]}"])
    assert [(cell.k, cell.training.seed) for cell in whole.cells] == [
        (1, 1),
        (5, 1),
        (1, 2),
        (5, 2),
    ]


def test_commits_recorded_since_come_with_a_job_that_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its cells too, also for the options of a grid."""
    monkeypatch.chdir(tmp_path)
    job = compose(["reader=folder", "reader.base=owner/lm", "grid={encoder:[e5]}"])
    assert job.reader.base == "owner/lm"
    name = str(job.cells[0].encoder.model["path"])
    (tmp_path / "hub.lock.json").write_text(json.dumps({"owner/lm": "a" * 40, name: "b" * 40}))
    again = reopen(job)
    assert again.reader.base == f"owner/lm@{'a' * 40}"
    assert [(cell.reader.base, cell.encoder.model["path"]) for cell in again.cells] == [
        (f"owner/lm@{'a' * 40}", f"{name}@{'b' * 40}")
    ]


def test_other_sections_are_checked_as_the_first_ones() -> None:
    """And the words of the command go along."""
    settings = compose(["k=3"])
    assert (
        settings.replace(k=5, retriever=compose(["retriever=dense"]).retriever).retriever.name
        == "dense"
    )
    assert settings.replace(k=5).words == ("k=3",)
    with pytest.raises(ConfigError, match=r"k=-1: expected greater than or equal to 0"):
        settings.replace(k=-1)


def test_a_setting_that_refers_to_none_is_named() -> None:
    """Before anything reads it."""
    with pytest.raises(
        ConfigError, match=r"tracking.uri: .*nowhere.*Set a value, or correct the reference"
    ):
        compose(["tracking.uri=${nowhere}"])


def test_a_text_with_a_dollar_is_a_text_behind_the_door() -> None:
    """Once references are resolved, nothing takes "${" for one again."""
    settings = compose([r"prompt.system='It costs \${price}'"])
    assert settings.prompt.build().system == "It costs ${price}"


def test_the_jobs_of_a_multirun_are_those_of_single_runs() -> None:
    """What one job changes, an option or a value, does not reach another."""
    from flows.stages.words import compose_jobs

    axes = [
        ["reader=openai", "reader=folder"],
        ["reader@judge=openai", "reader@judge=vllm"],
        ["encoder=e5", "encoder=minilm"],
    ]
    axes += [["k=1", "k=5"], ["sweep.limit=3", "sweep.limit=null"]]
    words = [
        f"{axis[0].partition('=')[0]}={','.join(word.partition('=')[2] for word in axis)}"
        for axis in axes
    ]
    jobs = compose_jobs(["-m", *words, "retriever=dense"])
    assert jobs == [
        compose_config([*choice, "retriever=dense"]) for choice in itertools.product(*axes)
    ]
