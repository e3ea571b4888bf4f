"""What goes to MLflow comes back from a real store."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient

from winnow.errors import ConfigError
from winnow.tracking import runs as tracking_runs
from winnow.tracking.runs import DatasetRef, Tracker
from winnow.tracking.stores import find_views


def test_a_run_with_all_it_carries(tmp_path: Path) -> None:
    """Flat parameters, metrics by step, tags, data, files; the experiment is made once."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracker = Tracker(uri, "winnow", tmp_path / "artifacts")
    assert Tracker(uri, "winnow", tmp_path / "artifacts").experiment_id == tracker.experiment_id
    run = tracker.start_run(
        "cell",
        params={"k": 5, "placement": {"gold": "keep"}},
        tags={"stage": "sweep"},
        data=[DatasetRef("d", "abc", "x")],
    )
    run.log_metrics({"em": 0.5, "f1": 0.6}, step=1)
    run.log_text("hello", "config.yaml")
    (tmp_path / "p.txt").write_text("x")
    run.log_file(tmp_path / "p.txt")
    run.end()
    client = MlflowClient(uri)
    stored = client.get_run(run.run_id)
    assert stored.data.params == {"k": "5", "placement.gold": "keep"}
    assert stored.data.metrics == {"em": 0.5, "f1": 0.6}
    assert stored.data.tags["stage"] == "sweep"
    assert stored.info.status == "FINISHED"
    known = tracker.find_run(stage="sweep")
    assert known is not None
    known.set_tag("metrics", "abc")
    assert known.get_tag("metrics") == "abc"
    assert known.get_tag("none") is None
    assert tracker.find_run(stage="other") is None
    assert stored.inputs.dataset_inputs[0].dataset.digest == "abc"
    assert {a.path for a in client.list_artifacts(run.run_id)} == {"config.yaml", "p.txt"}


OPEN = """
import sys
from pathlib import Path
from winnow.tracking.runs import Tracker
tracker = Tracker(sys.argv[1], "winnow", Path(sys.argv[2]))
if "run" in sys.argv:
    tracker.start_run("r", params={}, tags={}).end()
"""


def test_more_parameters_than_a_batch(tmp_path: Path) -> None:
    """MLflow takes 100 at once."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    run = Tracker(uri, "winnow", tmp_path / "artifacts").start_run(
        "r", params={f"p{n}": n for n in range(250)}, tags={}
    )
    assert len(MlflowClient(uri).get_run(run.run_id).data.params) == 250


@pytest.mark.slow
def test_a_new_store_is_created_by_one_process_at_a_time(tmp_path: Path) -> None:
    """Three that finish together on a fresh one: each logs its run."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    command = [sys.executable, "-c", OPEN, uri, str(tmp_path / "artifacts"), "run"]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors
    client = MlflowClient(uri)
    (experiment,) = client.search_experiments(filter_string="name = 'winnow'")
    assert len(client.search_runs([experiment.experiment_id])) == 3


def test_a_moved_or_copied_store_attaches_files_to_its_own_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """New runs and their files go to the copy; the former runs stay under another name, and other
    folders as they are.
    """
    original, copy, elsewhere = tmp_path / "original", tmp_path / "a copy", tmp_path / "elsewhere"
    for name, artifacts in (("here", original / "mlartifacts"), ("there", elsewhere)):
        tracker = Tracker(f"sqlite:///{original}/mlflow.db", name, artifacts)
        run = tracker.start_run("r", params={}, tags={"n": "1"})
        run.log_text("attached", "note.txt")
        run.end()
    shutil.copytree(original, copy)
    for _ in range(2):  # the second one finds the new experiment
        tracker = Tracker(f"sqlite:///{copy}/mlflow.db", "here", copy / "mlartifacts")
    assert tracker.find_run(n="1") is None
    tracker.start_run("second", params={}, tags={}).log_text("attached", "note.txt")
    assert len(list((copy / "mlartifacts").rglob("note.txt"))) == 2
    assert len(list((original / "mlartifacts").rglob("note.txt"))) == 1
    tracker.client.create_experiment("by hand", artifact_location=elsewhere.as_uri())
    Tracker(f"sqlite:///{copy}/mlflow.db", "by hand", copy / "mlartifacts")
    assert tracker.client.get_experiment_by_name("by hand").artifact_location == elsewhere.as_uri()  # type: ignore[union-attr]
    names = {experiment.name for experiment in tracker.client.search_experiments()}
    assert names == {"Default", "by hand", "here", "there", f"here (1 of {original})"}
    assert "was moved from" in caplog.text
    there = Tracker(f"sqlite:///{copy}/mlflow.db", "there", elsewhere)
    assert there.find_run(n="1") is not None
    assert find_views(f"sqlite:///{copy}/mlflow.db", "cells") == {}
    tracker.save_view("cells", metrics=["em"], params=["k"], search="tags.stage = 'sweep'")
    assert find_views(f"sqlite:///{copy}/mlflow.db", "cells") == {"here": tracker.experiment_id}


def test_a_run_has_the_times_of_its_work(tmp_path: Path) -> None:
    """Not those of its logging."""
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", "winnow", tmp_path / "artifacts")
    run = tracker.start_run("r", params={}, tags={}, started=1000.5)
    run.end(ended=1003.0)
    info = tracker.client.get_run(run.run_id).info
    assert (info.start_time, info.end_time) == (1_000_500, 1_003_000)


def test_a_deleted_experiment_is_restored_and_an_absent_server_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep whose experiment was deleted on MLflow's page can be run again."""
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracker = Tracker(uri, "winnow", tmp_path / "artifacts")
    tracker.client.delete_experiment(tracker.experiment_id)
    Tracker(uri, "winnow", tmp_path / "artifacts").start_run("r", params={}, tags={}).end()
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ConfigError, match="cannot be used"):
        Tracker("http://127.0.0.1:9", "winnow", tmp_path / "artifacts")


def test_a_table_is_replaced_and_announced(tmp_path: Path) -> None:
    """MLflow's page finds tables by a tag; a second one of the same name takes the place of the
    first.
    """
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", "winnow", tmp_path / "artifacts")
    run = tracker.start_run("r", params={}, tags={})
    run.log_table(["question", "em"], [["Où?", 1.0]], "answers.json")
    run.log_table(["question", "em"], [["Où?", 0.0], ["Who?", None]], "answers.json")
    table = json.loads(
        Path(tracker.client.download_artifacts(run.run_id, "answers.json")).read_text()
    )
    assert table == {"columns": ["question", "em"], "data": [["Où?", 0.0], ["Who?", None]]}
    assert run.get_tag("mlflow.loggedArtifacts") == '[{"path": "answers.json", "type": "table"}]'
    run.log_table(["a"], [[1]], "other.json")
    listed = json.loads(run.get_tag("mlflow.loggedArtifacts") or "")
    assert [entry["path"] for entry in listed] == ["answers.json", "other.json"]


def test_a_name_with_an_apostrophe_is_found(tmp_path: Path) -> None:
    """As in a sweep's name."""
    tracker = Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}", "winnow", tmp_path / "artifacts")
    run = tracker.start_run("cell", params={}, tags={"sweep": "it's mine"})
    run.end()
    found = tracker.find_run(sweep="it's mine")
    assert found is not None
    assert found.run_id == run.run_id
    assert tracker.find_run(sweep="it's not") is None


def test_a_server_keeps_the_files_of_an_experiment_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path of this machine would be none of another one."""
    created: list[object] = []
    client = SimpleNamespace(
        get_experiment_by_name=lambda _: None,
        create_experiment=lambda _, artifact_location, tags: created.append(
            (artifact_location, tags)
        ),
    )
    monkeypatch.setattr(tracking_runs, "open_store", lambda _: client)
    tracking_runs.Tracker("http://127.0.0.1:1", "winnow", tmp_path)
    assert created == [(None, {})]
