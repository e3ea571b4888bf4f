"""What made a number changes after it was made: the number is made again, or the change is refused
by name.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Run
from mlflow import MlflowClient

from flows.project.artifacts import Artifact, Project
from flows.project.cells import resolve_cell_artifact
from flows.project.engines import compute_estimator_identity
from flows.project.models import resolve_joint_models, resolve_trained_reader
from flows.project.rankings import resolve_relevance
from flows.settings.door import compose
from flows.settings.typed import Settings
from winnow.artifacts.provenance import read_content_digest, write_manifest
from winnow.assets import fetch_asset
from winnow.downloads import Asset
from winnow.errors import AssetError
from winnow.modeling.devices import resolve_dtype


def composed(*words: str) -> Settings:
    return compose(["sweep.closed_book_filter=false", *words])


def cell_key(*words: str) -> str:
    return resolve_cell_artifact(Project(composed(*words))).key


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    """A fetched asset of two files, as the settings of a corpus."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("one")
    (source / "b.txt").write_text("two")
    folder = tmp_path / "asset"
    fetch_asset(Asset(f"file:{source}", str(folder), "0" * 64, size=10**6), tmp_path / "downloads")
    asset = f"+corpus.asset={{address: 'file:{source}', path: '{folder}', sha256: '{'0' * 64}'}}"
    return ["corpus=plain_text", f"corpus.parser.path={folder}", asset]


def test_an_edited_asset_is_another_input(texts: list[str], tmp_path: Path) -> None:
    """Its archive's digest identifies its files only as long as they are those of the archive."""
    before = cell_key(*texts)
    file = tmp_path / "asset" / "a.txt"
    file.write_text("uno")
    assert cell_key(*texts) != before
    file.write_text("one")
    assert cell_key(*texts) == before
    (tmp_path / "asset" / "c.txt").write_text("added")
    assert cell_key(*texts) != before
    (tmp_path / "asset" / "c.txt").unlink()
    (tmp_path / "asset" / "b.txt").unlink()
    assert cell_key(*texts) != before


def test_an_edited_asset_is_not_fetched_over(texts: list[str], tmp_path: Path) -> None:
    """`acquire` names the folder instead of overwriting it or passing it as complete."""
    asset = Asset(f"file:{tmp_path / 'source'}", str(tmp_path / "asset"), "0" * 64, size=10**6)
    assert not fetch_asset(asset, tmp_path / "downloads")
    (tmp_path / "asset" / "a.txt").write_text("uno")
    with pytest.raises(
        AssetError,
        match=f"The files in {tmp_path / 'asset'} have changed since they were unpacked",
    ):
        fetch_asset(asset, tmp_path / "downloads")
    assert (tmp_path / "asset" / "a.txt").read_text() == "uno"


def test_the_members_of_an_asset_are_part_of_the_key() -> None:
    """Other members of the same archive are other data."""
    assert cell_key("corpus.asset.members=[x/*.json]") != cell_key()


def test_another_base_model_is_another_cell(world: Path) -> None:
    """Also one that does not exist, which never finds the first one's cell."""
    keys = [
        cell_key("reader=smollm2", *more)
        for more in ((), (f"reader.base={world / 'lm'}",), ("reader.base=/no/such/model",))
    ]
    assert len(set(keys)) == 3


def finish(artifact: Artifact, weights: str) -> None:
    """Write weights as a finished training."""
    for part in ("estimator", "generator"):
        (artifact.folder / part).mkdir(parents=True, exist_ok=True)
        (artifact.folder / part / "model.safetensors").write_text(weights)
    artifact.finish(1)


def test_a_model_trained_again_is_another_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimator's scores, and a reader's cells, belong to the weights and not to the settings of
    the training.
    """
    monkeypatch.chdir(tmp_path)
    words = ["estimator=cross_encoder", "rank_by=estimator"]

    def state() -> tuple[str, ...]:
        project = Project(composed(*words))
        return (
            resolve_relevance(project).key,
            compute_estimator_identity(project),
            resolve_cell_artifact(project).key,
        )

    finish(resolve_joint_models(Project(composed(*words))), "one")
    first = state()
    finish(resolve_joint_models(Project(composed(*words))), "two")
    assert not set(first) & set(state())
    finish(resolve_joint_models(Project(composed(*words))), "one")
    assert state() == first
    project = Project(composed())
    finish(resolve_trained_reader(project, project.settings.reader, project.settings.prompt), "one")
    before = cell_key()
    finish(resolve_trained_reader(project, project.settings.reader, project.settings.prompt), "two")
    assert cell_key() != before


def edit_answers(file: Path) -> None:
    """Replace every answer."""
    table = pq.read_table(file)
    answers = pa.array(["edited"] * table.num_rows, pa.string())
    pq.write_table(
        table.set_column(table.column_names.index("answer"), table.schema.field("answer"), answers),
        file,
    )


def test_edited_files_of_artifacts_are_refused(prepared: Run, tmp_path: Path) -> None:
    """Predictions, questions and rankings: no report of what no stage wrote."""
    prepared("sweep", "k=1")
    (cell,) = (tmp_path / "data/predictions").iterdir()
    before = (cell / "predictions.parquet").read_bytes()
    edit_answers(cell / "predictions.parquet")
    for stage in ("report", "sweep"):
        failed = prepared(stage, "k=1", check=False)
        assert failed.returncode
        assert (
            "predictions.parquet was modified after `python -m flows.sweep` wrote it"
            in failed.stderr
        )
    (cell / "predictions.parquet").write_bytes(before)
    (retrieval,) = (tmp_path / "data/retrieval").iterdir()
    (retrieval / "passages.parquet").write_bytes((retrieval / "contexts.parquet").read_bytes())
    assert "passages.parquet was modified" in prepared("sweep", "k=1", check=False).stderr


def test_predictions_that_were_removed_or_cut_are_made_again(prepared: Run, tmp_path: Path) -> None:
    """From the ledger, without a call; a report says that they are missing."""
    prepared("sweep", "k=1")
    (cell,) = (tmp_path / "data/predictions").iterdir()
    file = cell / "predictions.parquet"
    before = pq.read_table(file)
    for damage in (file.unlink, lambda: file.write_bytes(file.read_bytes()[:-100])):
        damage()
        assert "1 of 1 cells are not finished" in prepared("report", "k=1", check=False).stderr
        assert ": 0 made" in prepared("sweep", "k=1").stdout
        assert pq.read_table(file) == before


def test_mlflow_follows_remade_predictions(prepared: Run, tmp_path: Path) -> None:
    """The run of a cell shows the metrics of the predictions that are there, not of former ones."""
    prepared("sweep", "k=1")
    (cell,) = (tmp_path / "data/predictions").iterdir()
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("towns")
    assert experiment is not None

    def swept() -> tuple[float, str]:
        (run,) = client.search_runs([experiment.experiment_id], "tags.stage = 'sweep'")
        return run.data.metrics["accuracy"], run.data.tags["predictions"]

    first = swept()
    assert first[1] == read_content_digest(cell)
    table = pq.read_table(cell / "predictions.parquet")
    questions = {
        row["question_id"]: row["answers"][0]
        for row in pq.read_table(
            next((tmp_path / "data/questions").iterdir()) / "questions.parquet"
        ).to_pylist()
    }
    answers = pa.array([questions[i] for i in table["question_id"].to_pylist()], pa.string())
    table = table.set_column(
        table.column_names.index("answer"), table.schema.field("answer"), answers
    )
    pq.write_table(table, cell / "predictions.parquet")
    body = json.loads((cell / "manifest.json").read_text())
    write_manifest(cell, key=body["key"], settings=body["settings"], rows=body["rows"])
    prepared("sweep", "k=1")
    assert swept() == (1.0, read_content_digest(cell))
    assert swept()[1] != first[1]


def test_why_names_what_made_a_cell_and_what_differs(prepared: Run, tmp_path: Path) -> None:
    """Down to the corpus file; a differing setting, a changed input file, another
    artifact's stage.
    """
    prepared("sweep", "k=1")
    output = prepared("why", "k=1").stdout
    for stage in ("sweep", "closed_book", "questions", "retrieve", "index", "corpus"):
        assert f"made by flows.{stage}," in output
    assert "no difference" in output
    (cell,) = (tmp_path / "data/predictions").iterdir()
    changed = prepared("why", f"artifact={cell}", "k=1", "decoding.max_new_tokens=8").stdout
    assert "no difference" not in changed
    assert "decoding.max_new_tokens" in changed
    (corpus,) = (tmp_path / "data/corpus").iterdir()
    assert "no difference" in prepared("why", f"artifact={corpus}").stdout
    of_grid = prepared("why", f"artifact={cell}", "grid={k:[2,1,3]}").stdout
    assert "no difference" in " ".join(of_grid.split())
    assert of_grid.count("made by flows.sweep,") == 1
    assert "not a finished artifact" in prepared("why", "artifact=data", check=False).stderr
    prepared("sweep", "k=1", "strategy=closed_book")
    assert "no difference" in prepared("why", "k=1", "strategy=closed_book").stdout


def test_a_report_names_the_code_that_made_its_cells(prepared: Run, tmp_path: Path) -> None:
    """From their manifests; where cells were made by different code or libraries, a column of the
    tables says by which.
    """
    prepared("sweep", "-m", "k=1,2")
    prepared("report", "-m", "k=1,2")
    page = (tmp_path / "reports/towns/report.md").read_text()
    assert "| code |" not in page
    assert "mixed" not in page
    cell = next((tmp_path / "data/predictions").iterdir())
    body = json.loads((cell / "manifest.json").read_text())
    body |= {"git": "0123456789ab", "versions": {**body["versions"], "torch": "0.1"}}
    (cell / "manifest.json").write_text(json.dumps(body))
    prepared("report", "-m", "k=1,2")
    page = (tmp_path / "reports/towns/report.md").read_text()
    assert "- Code: mixed: revision" in page
    assert "| code |" in page
    assert "0123456789ab, torch 0.1" in page


def test_what_auto_means_elsewhere_is_named(prepared: Run) -> None:
    """Artifacts of another machine are not passed over in silence, nor taken for this machine's."""
    here = resolve_dtype("auto", "auto")
    there = "float32" if here == "bfloat16" else "bfloat16"
    words = ["sweep.closed_book_filter=false", "k=1"]
    assert "To use it" not in prepared("sweep", *words, f"reader.engine.dtype={there}").stdout
    output = prepared("sweep", *words, "reader.engine.dtype=auto").stdout
    assert (
        "differs only by what auto meant where it was made. To use it, set "
        f"reader.engine.dtype={there}." in output
    )
    assert "no call was made" in prepared("sweep", *words, f"reader.engine.dtype={there}").stdout
