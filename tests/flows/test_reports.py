"""Folders of reports: one for each sweep, data set and corpus."""

from pathlib import Path

import pytest

from flows.settings.door import compose
from flows.stages.report_folder import open_report_folder


def test_pages_of_another_sweep_are_moved_and_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same sweep writes into its folder again; the folder's name follows the sweep's."""
    monkeypatch.chdir(tmp_path)
    own = compose(["dataset.name=a/b", "sweep.name=sweep"])
    folder = open_report_folder(own)
    assert folder == Path("reports/sweep")
    (folder / "report.md").write_text("first")
    assert open_report_folder(own) == folder
    assert not capsys.readouterr().out
    for number in ("", "-2"):
        open_report_folder(compose(["dataset.name=c", "sweep.name=sweep"]))
        assert (Path(f"reports/sweep-a_b{number}") / "report.md").read_text() == "first"
        assert f"which is now in reports/sweep-a_b{number}." in capsys.readouterr().out
        assert not (folder / "report.md").exists()
        open_report_folder(own)
        (folder / "report.md").write_text("first")
    assert open_report_folder(compose(["experiment=quick_start"])) == Path("reports/quick_start")
