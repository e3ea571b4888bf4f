"""Artifacts and calls that nothing uses any more."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import Run, overrides

from flows import gc as module
from flows.project.artifacts import Project
from flows.project.engines import identify_engine_specs, resolve_engine_spec
from flows.settings.door import compose
from flows.tools.summary import Summary
from winnow.ledger.sqlite import SqliteStore
from winnow.requests import Pages, Search
from winnow.testing import make_tiny_encoder


def count_calls(folder: Path) -> int:
    """Return the number of calls in the ledger."""
    with SqliteStore(folder / "data/ledger.sqlite") as ledger:
        return len(ledger)


@pytest.mark.slow
def test_only_what_nothing_uses_is_listed_and_removed(
    prepared: Run, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of the command, a report and an artifact made from another one keep them; a dry
    run removes nothing.
    """
    prepared("sweep", "-m", "k=1,2,3")
    prepared("report", "k=2")
    cells = {
        json.loads((path / "manifest.json").read_text())["settings"]["inputs"][
            "k"
        ]: path.relative_to(tmp_path)
        for path in (tmp_path / "data/predictions").iterdir()
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "list_options", lambda _: ["quick_start", "post_fusion/nq_table1"])
    abandoned = Path("data/predictions/concatenation-0123456789ab")
    abandoned.mkdir()
    others = set(Path("data").glob("*/*-*")) - {cells[3], abandoned}
    calls = count_calls(tmp_path)

    def gc(*settings: str, **options: object) -> Summary:
        return module.gc(
            compose([*overrides(world), "k=1", *settings]), **{"hours": 0.0, **options}
        )  # type: ignore[arg-type]

    assert gc(hours=24.0).title == "Everything is used, or younger than the given age."
    listed = gc()
    assert {row["unused"] for row in listed.rows} == {str(cells[3]), str(abandoned)}
    assert "Nothing was removed." in listed.note
    assert "experiment=post_fusion/nq_table1. facebook/dpr-ctx_encoder" in listed.note
    assert "Add --force" in gc(remove=True, calls=True).note
    assert cells[3].exists()
    assert "Removed." in gc(remove=True, calls=True, force=True).note
    assert set(Path("data").glob("*/*-*")) == others
    assert count_calls(tmp_path) == calls, "the reader is in use"
    assert ": 0 made" in prepared("sweep", "k=3").stdout
    with SqliteStore("data/ledger.sqlite") as ledger:
        ledger.put("serper/2026-10@0123", [(b"k" * 32, Search("q", 1), Pages(()), 0.1)])
    renamed = {"remove": True, "calls": True, "force": True}
    assert f"{calls} calls" not in [row["what"] for row in gc("reader.name=other", **renamed).rows]
    assert count_calls(tmp_path) == calls + 1, (
        "the report's cells were made of these calls, whatever the settings name now"
    )
    shutil.rmtree("reports")
    assert f"{calls} calls" in [row["what"] for row in gc("reader.name=other", **renamed).rows]
    assert count_calls(tmp_path) == 1, "a search of the web cannot be made again"


def test_the_model_of_entailment_is_in_use(world: Path) -> None:
    """Its estimates, of metrics such as citation_support, are calls as those of a strategy's
    engines are.
    """
    model = make_tiny_encoder(world.parent / "nli", ["a"])
    project = Project(compose(["estimator@nli=nli", f"nli.base={model}"]))
    use = module.Use()
    module._add_engines(use, project)
    assert resolve_engine_spec(project, "nli").key in use.engines


def test_searches_and_every_teacher_are_in_use() -> None:
    """A search engine is stored with the revision of its code, and a training may start with the
    reader of another one, whose teacher is another model.
    """
    project = Project(
        compose(
            [
                "strategy=iter_retgen",
                "training=cite_sft_rewarded",
                "training@training.start=cite_synthetic",
            ]
        )
    )
    use = module.Use()
    module._add_engines(use, project)
    spec = resolve_engine_spec(project, "search")
    assert identify_engine_specs([spec])["search"] in use.engines
    assert any("gpt-4o-mini" in engine for engine in use.engines)


def test_calls_of_a_judge_are_used_as_long_as_its_report_is_there(
    prepared: Run, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge is in no cell's key, and its calls were paid for."""
    prepared("sweep", "k=1")
    judge = ["reader@judge=folder", f"judge.base={world}/lm", "judge.name=jj"]
    judge += ["judge.engine.dtype=float32", "judge.engine.runtime=torch"]
    prepared("report", "k=1", "metric=[em,judged]", *judge)
    (report,) = (tmp_path / "reports").rglob("engines.json")
    assert any(name.startswith("jj@") for name in json.loads(report.read_text()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "list_options", lambda _: ["quick_start"])

    def list_unused() -> str:
        return str(module.gc(compose([*overrides(world), "k=1"]), hours=0.0).rows)

    assert "jj@" not in list_unused()
    report.unlink()
    assert "jj@" in list_unused()
