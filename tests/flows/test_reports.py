"""Folders of reports: one for each sweep, data set and corpus, without plots of former reports."""

from dataclasses import replace
from pathlib import Path

import pytest

from flows.report import _save_figures, _write_summaries
from flows.settings.door import compose
from flows.stages.report_folder import open_report_folder
from winnow.errors import ConfigError
from winnow.reports.family import Family
from winnow.testing import make_cell_result


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


def test_figures_are_those_of_the_last_report(tmp_path: Path) -> None:
    """Plots of other metrics, cells or formats are removed, and files of the user are not."""
    cells = [make_cell_result("concatenation", k, "none", [1, 0, 0, k % 2]) for k in (1, 2, 3)]
    folder = tmp_path / "figures"
    both, svg, none = (
        compose([f"report.figures=[{formats}]"]) for formats in ("svg,csv", "svg", "")
    )
    _save_figures(Family(cells, 0), both, folder)
    names = {file.name for file in folder.iterdir()}
    assert {Path(name).suffix for name in names} == {".svg", ".csv"}
    (folder / "mine.txt").write_text("mine")
    (folder / "em_by_color.svg").write_text("a plot of a former report")
    _save_figures(Family(cells, 0), svg, folder)
    assert {file.name for file in folder.iterdir()} == {
        "mine.txt",
        *(name for name in names if name.endswith(".svg")),
    }
    _save_figures(Family(cells, 0), none, folder)
    assert [file.name for file in folder.iterdir()] == ["mine.txt"]
    (folder / "mine.txt").unlink()
    _save_figures(Family(cells, 0), none, folder)
    assert not folder.exists()


def test_each_cell_has_its_own_file(tmp_path: Path) -> None:
    """Also cells whose names differ where a file's name cannot."""
    cells = [
        replace(one, labels=replace(one.labels, setting=f"reader.base={name}"))
        for one in [make_cell_result("concatenation", 1, "none", [1, 0])]
        for name in ("org/m", "org_m")
    ]
    _write_summaries(cells, tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_files_of_others_in_the_folder_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of sweeps whose names begin alike, and the user's own files."""
    monkeypatch.chdir(tmp_path)
    inner = open_report_folder(compose(["dataset.name=a", "sweep.name=study/table1"]))
    outer = open_report_folder(compose(["dataset.name=a", "sweep.name=study"]))
    (inner / "index.html").write_text("inner")
    (outer / "index.html").write_text("outer")
    (outer / "notes.txt").write_text("mine")
    open_report_folder(compose(["dataset.name=b", "sweep.name=study"]))
    assert (inner / "index.html").read_text() == "inner"
    assert (outer / "notes.txt").read_text() == "mine"
    assert Path("reports/study-a/index.html").read_text() == "outer"
    assert not (outer / "index.html").exists()


@pytest.mark.parametrize("out", ["", ".", "reports", "a_file", "others"])
def test_a_folder_that_is_not_the_sweep_s_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    """Nothing in it is overwritten or removed."""
    monkeypatch.chdir(tmp_path)
    Path("a_file").touch()
    (tmp_path / "others/cells").mkdir(parents=True)
    (tmp_path / "others/cells/mine.json").write_text("mine")
    with pytest.raises(ConfigError, match=r"^report.out=.*(of this sweep alone|no report wrote)"):
        open_report_folder(compose([f"report.out='{out}'"]))
    assert (tmp_path / "others/cells/mine.json").read_text() == "mine"


def test_labels_may_be_there_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a colleague, which no run overwrites."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "reports/mine"
    folder.mkdir(parents=True)
    (folder / "labels.jsonl").write_text("{}")
    open_report_folder(compose(["sweep.name=mine"]))
    assert (folder / "labels.jsonl").read_text() == "{}"
