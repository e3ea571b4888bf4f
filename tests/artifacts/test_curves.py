"""What a training logged is read back as curves, without its summary."""

from pathlib import Path

from winnow.artifacts.curves import CURVES, read_curves, write_curves
from winnow.artifacts.provenance import read_content_digest, write_manifest


def test_what_is_logged_at_steps_is_read_back(tmp_path: Path) -> None:
    """In the order of the steps; metrics of step 0 are those of the whole training."""
    write_curves(
        tmp_path,
        [(20, {"loss": 1.5, "reward, mean": 0.25}), (10, {"loss": 2.0}), (0, {"em": 0.5})],
    )
    assert read_curves(tmp_path) == {"loss": [(10, 2.0), (20, 1.5)], "reward, mean": [(20, 0.25)]}


def test_a_training_without_steps_has_no_curves(tmp_path: Path) -> None:
    """No file is written, and one of an earlier start is left as it is."""
    write_curves(tmp_path, [(0, {"em": 0.5})])
    assert not (tmp_path / CURVES).exists()
    assert read_curves(tmp_path) == {}
    write_curves(tmp_path, [(1, {"loss": 1.0})])
    write_curves(tmp_path, [])
    assert read_curves(tmp_path) == {"loss": [(1, 1.0)]}


def test_curves_are_no_part_of_the_content(tmp_path: Path) -> None:
    """Two runs of one training differ in speed and make the same artifact."""
    digests = []
    for speed in (1.0, 2.0):
        folder = tmp_path / "models" / "reader" / f"tuned-{speed:.0f}"
        folder.mkdir(parents=True)
        (folder / "weights.txt").write_text("weights")
        write_curves(folder, [(1, {"tokens_per_second": speed})])
        write_manifest(folder, key="0" * 12, settings={}, rows=1)
        digests.append(read_content_digest(folder))
    assert digests[0] == digests[1] != ""
