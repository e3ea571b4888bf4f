"""Checkpoints of Trainer."""

import json
from pathlib import Path

from winnow.training.checkpoint_folders import find_last_checkpoint


def test_the_last_complete_checkpoint_is_found_and_others_are_removed(tmp_path: Path) -> None:
    """A kill while one is saved leaves a folder of a higher number, or half of its last file."""
    assert find_last_checkpoint(tmp_path / "none") is None
    for step, text in ((5, json.dumps({"global_step": 5})), (15, '{"global_'), (20, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").write_text("weights")
        if text is not None:
            (folder / "trainer_state.json").write_text(text)
    assert find_last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-5")
    assert [folder.name for folder in tmp_path.iterdir()] == ["checkpoint-5"]
