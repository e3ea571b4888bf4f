"""Runs of cells in MLflow: updated whenever a value changed, whatever changed it."""

import math
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flows.stages import tracking
from flows.stages.tracking import _compute_metrics, log_cell, log_cells
from winnow.artifacts.provenance import write_manifest
from winnow.metrics.base import MeanMetric, Sample
from winnow.testing import make_cell_result


@dataclass
class FakeRun:
    """Keeps what is logged."""

    tags: dict[str, str] = field(default_factory=dict)
    metrics: list[dict[str, float]] = field(default_factory=list)
    tables: int = 0
    config: str = ""
    run_id: str = "run"

    def get_tag(self, name: str) -> str | None:
        """Return a tag."""
        return self.tags.get(name)

    def set_tag(self, name: str, value: str) -> None:
        """Keep a tag."""
        self.tags[name] = value

    def log_metrics(self, values: dict[str, float]) -> None:
        """Keep the values."""
        self.metrics.append(dict(values))

    def log_file(self, path: Path) -> None:
        """Keep nothing."""

    def log_text(self, text: str, name: str) -> None:
        """Keep the settings."""
        assert name == "config.yaml"
        self.config = text

    def log_table(self, *_: Any) -> None:
        """Count the tables."""
        self.tables += 1

    def end(self, ended: float | None = None) -> None:
        """Keep nothing."""


@dataclass(frozen=True)
class Scaled(MeanMetric):
    """A metric whose helper is changed between two reports, without a change of its settings."""

    def score(self, sample: Sample) -> float | None:
        """Return the helper's number for every second question."""
        return HELPER["value"] if sample.question.question_id in ("q0", "q2") else None


HELPER: dict[str, float | None] = {"value": 1.0}


def test_a_run_is_updated_when_a_value_changed(tmp_path: Path) -> None:
    """Not when nothing did; a metric over a part of the questions has its n."""
    write_manifest(tmp_path, key="k", settings={}, rows=4)
    spec = SimpleNamespace(
        key="k",
        folder=tmp_path,
        predictions=tmp_path / "p",
        config={"sweep": {"name": "s"}, "dataset": {"name": "d"}},
    )
    run = FakeRun()
    former = SimpleNamespace(data=SimpleNamespace(metrics={"former": 1.0, "m": 1.0}))
    client = SimpleNamespace(get_run=lambda _: former)
    runs = cast("Any", SimpleNamespace(find_run=lambda **_: run, client=client))

    def log() -> None:
        result = replace(make_cell_result("a", 1, "g", [1.0] * 4), metrics=(Scaled("m", "m"),))
        cell = cast(
            "Any", SimpleNamespace(spec=replace_labels(spec, result.labels), num_short_rankings=0)
        )
        log_cell(runs, cell, result, _compute_metrics(cell, result))

    for value in (1.0, 1.0, 0.0, None):
        HELPER["value"] = value
        log()
    assert [logged["m"] for logged in run.metrics[:2]] == [1.0, 0.0]
    assert math.isnan(run.metrics[2]["m"])
    assert run.metrics[2]["m_n"] == 0
    assert math.isnan(run.metrics[0]["former"]), "of other predictions than the present ones"
    assert "former" not in run.metrics[1]
    assert "prices" not in run.config
    spec.config["prices"] = {"table": {"m": 2.0}}
    log()
    assert "prices:" in run.config
    assert len(run.metrics) == 4
    run.metrics.pop()
    run.tables -= 1
    assert run.tables == 3
    assert run.metrics[0]["m_n"] == 2.0
    assert run.metrics[0]["questions"] == 4.0


def test_mlflow_is_not_opened_for_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed value, another sweep, a run that somebody deleted and another store each open it
    again.
    """
    opened: list[str] = []

    def open_trackers(specs: Any) -> dict[tuple[str, str], SimpleNamespace]:
        opened.append("opened")
        return {tracking.get_place(spec): SimpleNamespace() for spec in specs}

    monkeypatch.setattr(tracking, "open_trackers", open_trackers)
    monkeypatch.setattr(tracking, "save_view", lambda *_: None)
    monkeypatch.setattr(tracking, "log_cell", lambda *_: None)
    store = tmp_path / "mlflow.db"
    store.write_text("runs")

    def log(name: str = "s", values: float = 1.0, file: Path = store) -> int:
        """Log a cell and return how often the store was opened for it."""
        result = make_cell_result("a", 1, "g", [values] * 4)
        config = {
            "sweep": {"name": name},
            "tracking": {"uri": f"sqlite:///{file}", "experiment": "e"},
        }
        spec = SimpleNamespace(key="k", folder=tmp_path, config=config)
        before = len(opened)
        log_cells([cast("Any", SimpleNamespace(spec=spec, num_short_rankings=0))], [result])
        return len(opened) - before

    write_manifest(tmp_path, key="k", settings={}, rows=4)
    assert [log(), log()] == [1, 0]
    assert [log(values=0.0), log(values=0.0), log(name="t"), log(name="t")] == [1, 0, 1, 0]
    for text in ("run", "nur"):  # of another size, and of the same
        store.write_text(text)
        assert [log(name="t"), log(name="t")] == [1, 0]
    shutil.copy(store, tmp_path / "other.db")
    assert log(name="t", file=tmp_path / "other.db") == 1
    store.unlink()
    with pytest.raises(FileNotFoundError):
        log(name="t")  # nothing created the store again, as MLflow would


def replace_labels(spec: SimpleNamespace, labels: object) -> SimpleNamespace:
    """A specification with these labels."""
    return SimpleNamespace(**vars(spec), labels=labels)


def test_stores_of_one_experiment_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell goes to the store of its own settings."""
    monkeypatch.setattr(tracking, "open_tracker", lambda one: one["uri"])
    places = [("sqlite:////a.db", "e"), ("sqlite:////b.db", "e"), ("sqlite:////a.db", "e")]
    specs = [
        SimpleNamespace(config={"tracking": {"uri": uri, "experiment": name}})
        for uri, name in places
    ]
    assert tracking.open_trackers(cast("Any", specs)) == {place: place[0] for place in places}
