"""Random command lines end in a summary, a help page or a named error, never in a traceback.

WINNOW_COMMAND_LINES=1000 tries more of them (docs/reliability.md).
"""

import os
import random
import shutil
from pathlib import Path

import pytest
from conftest import overrides
from kills import run_stage

from flows.settings.composition import list_groups, list_options
from flows.settings.door import compose
from winnow.artifacts.provenance import flatten

COUNT = int(os.environ.get("WINNOW_COMMAND_LINES", "20"))
STAGES = [
    "acquire", "calibrate_judge", "closed_book", "compose", "corpus", "evaluate_estimator",
    "export", "index", "power", "questions", "report", "retrieve", "score", "show", "sweep",
    "traces", "train_joint", "train_reader", "watch", "why",
]  # fmt: skip
VALUES = [
    "", "null", "0", "-1", "1.5", "1e400", "nan", "true", "[]", "[1,2", "{}", "{a:1}", "{a:",
    "${k}", "${nothing}", "${oc.env:X}", "???", "e\u0301", "\ufffd", "a b", "'", '"', "\\", "/",
    "..", "~", "a,b", "x" * 3000, "[[[[]]]]", "!!python/object:os.system", "2026-01-01", "1_000",
    "0x10", ",", "=", "@", "%s", "{0}", "\n", "data", "/dev/null", "hf:", "https://",
]  # fmt: skip
FLAGS = [
    "-m", "--multirun", "--help", "--cfg", "--cfg job", "--params", "--params params.yaml",
    "--info", "-c job", "--version", "--config-name nothing", "--hydra-help", "--resolve", "--",
    "-", "--shell-completion", "-x",
]  # fmt: skip


def random_words(generator: random.Random, settings: list[str]) -> list[str]:
    """One to four words: settings with odd values, unknown names, choices that do not
    exist, flags.
    """
    words: list[str] = []
    for _ in range(generator.randint(1, 4)):
        kind = generator.random()
        if kind < 0.5:
            words.append(f"{generator.choice(settings)}={generator.choice(VALUES)}")
        elif kind < 0.65:
            group = generator.choice(list_groups())
            words.append(f"{group}={generator.choice([*list_options(group), *VALUES])}")
        elif kind < 0.75:
            prefix = generator.choice(["+", "++", "~", "@", ".", "hydra.", "k."])
            words.append(f"{prefix}{generator.choice(settings)}={generator.choice(VALUES)}")
        elif kind < 0.9:
            words += generator.choice(FLAGS).split(" ")
        else:
            words.append(generator.choice(VALUES))
    return words


@pytest.mark.slow
def test_random_command_lines_end_in_no_traceback(
    world: Path, template: Path, tmp_path: Path
) -> None:
    """Half of them have the small world's settings and artifacts, half start in an empty folder
    with the defaults.
    """
    generator = random.Random(19)
    settings = [*flatten(compose([]).plain), "question", "artifact", "kk", "seeds", "grid.k"]
    failures = []
    prepared = shutil.copytree(template, tmp_path / "prepared")
    empty = tmp_path / "empty"
    empty.mkdir()
    for number in range(COUNT):
        stage, words = generator.choice(STAGES), random_words(generator, settings)
        small = number % 2 == 0
        folder = prepared if small else empty
        log = folder / "kills.log"
        log.unlink(missing_ok=True)
        line = (
            [*overrides(world), *words]
            if small
            else [*words, "dry_run=true"]
            if stage == "acquire"
            else words
        )
        status, _ = run_stage(folder, stage, line)
        text = log.read_text(errors="replace")
        if "Traceback" in text or status < 0:
            failures.append((stage, words, text[-1500:]))
    assert not failures, "\n\n".join(map(str, failures))
