"""Runs stages one after the other in a folder, in the environment of this process; see
`stage_process`.

python tests/flows/run_commands.py COMMANDS.json FOLDER RESULTS.json
"""

import json
import os
import sys
import time
from pathlib import Path

from stage_process import run_stage


def main() -> None:
    """Run the commands until one fails, and write the exit status and the output of each."""
    commands, folder, results = map(Path, sys.argv[1:])
    done = []
    for stage, *words in json.loads(commands.read_text()):
        started = time.perf_counter()
        run = run_stage(stage, words, folder, dict(os.environ))
        seconds = time.perf_counter() - started
        done.append(
            {
                "stage": stage,
                "words": words,
                "status": run.returncode,
                "seconds": seconds,
                "text": run.stdout + run.stderr,
            }
        )
        if run.returncode:
            break
    results.write_text(json.dumps(done))


if __name__ == "__main__":
    main()
