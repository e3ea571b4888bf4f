"""What goes to MLflow comes back from a real store."""

from pathlib import Path

from mlflow import MlflowClient

from winnow.tracking import DatasetRef, Tracker


def test_a_run_with_all_it_carries(tmp_path: Path) -> None:
    """Flat parameters, metrics by step, tags, data, files; the experiment is made once."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracker = Tracker(uri, "winnow", tmp_path / "artifacts")
    assert Tracker(uri, "winnow", tmp_path / "artifacts").experiment_id == tracker.experiment_id
    run = tracker.start(
        "cell", params={"k": 5, "placement": {"gold": "keep"}}, tags={"stage": "sweep"}, data=[DatasetRef("d", "abc", "x")]
    )
    run.metrics({"em": 0.5, "f1": 0.6}, step=1)
    run.text("hello", "config.yaml")
    (tmp_path / "p.txt").write_text("x")
    run.file(tmp_path / "p.txt")
    run.end()
    client = MlflowClient(uri)
    stored = client.get_run(run.run_id)
    assert stored.data.params == {"k": "5", "placement.gold": "keep"}
    assert stored.data.metrics == {"em": 0.5, "f1": 0.6}
    assert stored.data.tags["stage"] == "sweep"
    assert stored.info.status == "FINISHED"
    known = tracker.find(stage="sweep")
    assert known is not None
    known.set_tag("metrics", "abc")
    assert known.tag("metrics") == "abc"
    assert known.tag("none") is None
    assert tracker.find(stage="other") is None
    assert stored.inputs.dataset_inputs[0].dataset.digest == "abc"
    assert {a.path for a in client.list_artifacts(run.run_id)} == {"config.yaml", "p.txt"}
