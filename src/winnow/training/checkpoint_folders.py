"""Checkpoints that transformers' Trainer writes into folders, of which a kill may leave a part."""

import json
import shutil
from contextlib import suppress
from pathlib import Path


def find_last_checkpoint(folder: Path) -> str | None:
    """Remove incomplete checkpoints, and return the folder of the last complete one, if any.

    Trainer writes `trainer_state.json` last, but takes the highest number for the last checkpoint.
    """
    steps: dict[Path, int] = {}
    for checkpoint in folder.glob("checkpoint-*"):
        with suppress(OSError, ValueError, KeyError):
            state = json.loads((checkpoint / "trainer_state.json").read_text())
            steps[checkpoint] = state["global_step"]
            continue
        shutil.rmtree(checkpoint, ignore_errors=True)
    return str(max(steps, key=steps.__getitem__)) if steps else None
