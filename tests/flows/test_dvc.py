"""DVC as its users know it, on the small world: the commands of docs/dvc.md and docs/mlflow.md, and
what they leave behind.
"""

import re
from pathlib import Path

import pytest
from conftest import overrides
from pages import copy_project, read_blocks, run_blocks, run_script, write_overrides

from winnow.artifacts.tables import read_predictions

pytestmark = pytest.mark.slow
UP_TO_DATE = "All stages are up to date; nothing was run."


@pytest.fixture(scope="module")
def project(world: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A project on which all commands of docs/dvc.md were run, and what each block of
    them printed.
    """
    folder = tmp_path_factory.mktemp("home") / "project"
    folder.mkdir()
    copy_project(folder)
    tuned = [
        "reader.tuned=true",
        "training.evaluation.limit=2",
        "score.splits=[dev]",
        "score.limit=4",
    ]
    grid = [
        "grid.strategy=[closed_book, post_fusion]",
        "grid.k=[1, 2]",
        "grid.placement=[retrieved]",
    ]
    write_overrides(folder, [*overrides(world), *tuned, *grid, "decoding.max_new_tokens=4"])
    run_script("git add --all; git commit --quiet --message 'The small world'", folder)
    return folder, run_blocks("dvc.md", folder)


def test_other_machines_compute_nothing_again(project: tuple[Path, list[str]]) -> None:
    """After a push and a pull: no stage runs, no model is trained, no call is made, and any
    question can be shown.
    """
    folder, (first, _, pulled, _) = project
    clone = folder.parent / "other-machine"
    assert "No cell of these settings reads the results of this stage" in first
    assert not (folder / "data/relevance").exists()
    assert UP_TO_DATE in pulled
    assert "Prefect server at" not in pulled
    assert "calls added" in pulled
    assert "Every cell was finished already; no call was made." in pulled
    predictions = read_predictions(
        next((clone / "data/predictions").glob("post_fusion-*")) / "predictions.parquet"
    )
    shown = run_script(
        "python -m flows.show --params params.yaml 'grid.strategy=[post_fusion]' 'grid.k=[2]' "
        f"question={predictions[0].question_id}; python -m flows.train_reader --params "
        "params.yaml; dvc status dvc.yaml",
        clone,
    )
    assert "Round 1, request 2 of 2" in shown
    assert "finished already" in shown
    without = run_script(
        "rm -r data/ledger.sqlite tracked/calls; python -m flows.show --params params.yaml "
        f"'grid.strategy=[post_fusion]' 'grid.k=[2]' question={predictions[0].question_id}",
        clone,
        check=False,
    )
    assert "LedgerError: The ledger lacks a call of round 1" in without
    assert "import them (`dvc pull`" in without
    assert "up to date" in shown


def test_a_file_is_on_the_disk_once(project: tuple[Path, list[str]]) -> None:
    """An artifact's file, its tracked link and DVC's cached file are one file with three names."""
    (model,) = (project[0] / "models/reader").glob("*/model.safetensors")
    (tracked,) = (project[0] / "tracked/train_reader").rglob("model.safetensors")
    assert model.samefile(tracked)
    assert model.stat().st_nlink == 3


def test_other_runs_leave_the_status_clean(project: tuple[Path, list[str]]) -> None:
    """A sweep of other settings adds artifacts and calls, and the demo still finds everything up to
    date.
    """
    output = run_script(
        "python -m flows.sweep --params params.yaml 'grid.k=[3]'; dvc status dvc.yaml; python -m "
        "flows.demo",
        project[0],
    )
    assert "Data and pipelines are up to date." in output
    assert UP_TO_DATE in output
    assert "1. Open reports/dvc/index.html" in output.split(UP_TO_DATE)[1]


def test_an_experiment_is_compared_with_the_committed_results(
    project: tuple[Path, list[str]],
) -> None:
    """A changed setting runs only what depends on it, and its metrics stand beside the others'."""
    folder, (_, _, _, compared) = project
    ran = {line.split("'")[1] for line in compared.splitlines() if line.startswith("Running stage")}
    assert ran == {"compose", "sweep", "calls", "report"}
    cells = {"closed_book k=0 none", "post_fusion k=1 retrieved", "post_fusion k=2 retrieved"}
    assert {file.stem for file in (folder / "reports/dvc/cells").iterdir()} == cells
    assert all(re.search(rf"{cell}.json +\| tokens_in ", compared) for cell in cells)
    assert all(
        len(line) < 120 for line in compared.splitlines() if line.startswith("| reports/dvc/cells")
    )
    assert all(cell in (folder / "dvc_plots/index.html").read_text() for cell in cells)
    assert "[fewer]" in compared


def test_edited_parameters_are_refused(project: tuple[Path, list[str]]) -> None:
    """A change of params.yaml would be lost; the message says where it belongs. A removed export
    says what to do.
    """
    output = run_script("dvc exp run -S k=7; git checkout params.yaml", project[0], check=False)
    assert "params.yaml was edited (k)" in output
    assert "-S 'overrides.yaml:+set.grid.k=[7]'" in output


def test_the_commands_of_mlflows_page(project: tuple[Path, list[str]]) -> None:
    """All but the server, which tests/flows/test_quick_start.py opens in a browser; the store stays
    usable.
    """
    ui, traces, listing, upgrade = read_blocks("mlflow.md")
    assert ui.startswith("python -m flows.ui")
    output = run_script(listing, project[0])
    assert "quick_start" in output
    assert "post_fusion" in output
    words = traces.replace(
        "experiment=quick_start tracking.traces=20", "--params params.yaml tracking.traces=2"
    )
    assert "logged" in run_script(words, project[0])
    run_script(f"{upgrade}python -m flows.sweep --params params.yaml", project[0])


def test_an_artifact_that_was_changed_by_hand_is_made_again(
    project: tuple[Path, list[str]],
) -> None:
    """The message names what made it; after its removal the changed file in tracked/ is not taken
    for it.
    """
    folder = project[0]
    words = "--params params.yaml grid.strategy=[post_fusion] grid.k=[1]"
    shown = run_script(f"python -m flows.report {words}; cat reports/quick_start/report.md", folder)
    (name,) = {
        cell.name
        for cell in (folder / "data/predictions").glob("post_fusion-*")
        if cell.name in shown
    }
    cell = folder / "data/predictions" / name
    file = cell / "predictions.parquet"
    before = file.read_bytes()
    file.chmod(0o644)
    with file.open("r+b") as stream:
        stream.write(b"PAR1 and more")
    failed = run_script(f"python -m flows.report {words}", folder, check=False)
    assert "was modified after `python -m flows.sweep` wrote it" in failed
    output = run_script(f"rm -r {cell} && python -m flows.sweep {words}", folder)
    assert ": 0 made" in output
    assert file.read_bytes()[:4] == before[:4]
    assert read_predictions(file)
