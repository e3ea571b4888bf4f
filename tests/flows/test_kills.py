"""Every stage is killed around renames, replacements and synchronisations of files, and the next
start completes it.

Three kills belong to the tests. WINNOW_KILLS=200 spreads 200 of them over all moments of all stages
(docs/reliability.md).
"""

import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import overrides
from kills import run_stage
from test_acquire import ROW
from test_stage_outputs import FROZEN, rows

KILLS = int(os.environ.get("WINNOW_KILLS", "3"))
KILLS_PER_RUN = 3
"""A stage is killed this often, each time at another moment, before it may end."""


def stages(world: Path) -> Mapping[str, list[str]]:
    """Every stage that writes files, in the order in which they need one another, with its command
    line.
    """
    small = overrides(world)
    frozen = [
        *small,
        *FROZEN,
        "score.splits=[dev,test]",
        f"estimator.base={world}/encoder",
        f"joint.teacher.reader.base={world}/lm",
    ]
    asset = [
        "dataset=dpr_biencoder", f"dataset.asset.address=file:{world}/biencoder-nq-dev.json.gz",
        "dataset.asset.sha256=''", "corpus=fid_json", "corpus.parser.path=none", "encoder=folder",
        "encoder.model.path=none", "reader=openai", "reader.base=x",
        "reader@joint.teacher.reader=openai", "joint.teacher.reader.base=x",
    ]  # fmt: skip
    return {
        "acquire": asset,
        "corpus": small,
        "index": small,
        "questions": small,
        "retrieve": small,
        "train_reader": [*small, "reader.tuned=true", "training.settings.save_steps=1"],
        "closed_book": small,
        "train_joint": [*frozen, "joint.settings.save_steps=1"],
        "score": frozen,
        "sweep": [
            "-m",
            "strategy=concatenation,post_fusion",
            "k=1,2",
            "sweep.closed_book_filter=false",
            *small,
        ],
        "report": ["strategy=post_fusion", "k=2", "sweep.closed_book_filter=false", *small],
        "evaluate_estimator": [*frozen, "evaluate_estimator.k=2"],
        "facts": [
            "experiment=re_rag/from_scratch",
            "facts.world.train=30",
            "facts.world.dev=4",
            "facts.world.test=6",
            "facts.clozes=64",
            "+facts.world.first_names=8",
            "+facts.world.last_names=8",
            "facts.world.values=4",
            "facts.world.contexts=4",
            "facts.size.d_model=32",
            "facts.size.d_ff=64",
            "facts.size.heads=2",
            "facts.size.layers=1",
        ],
    }


@dataclass(frozen=True)
class Undisturbed:
    """A stage that ran without a kill: the folders before and after it, and its number of
    operations.
    """

    before: Path
    after: Path
    operations: int


@pytest.fixture(scope="session")
def undisturbed(world: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Undisturbed]:
    """All stages in order, without kills."""
    (world / "biencoder-nq-dev.json.gz").write_bytes(gzip.compress(json.dumps([ROW]).encode()))
    copies = tmp_path_factory.mktemp("copies")
    folder = copies / "start"
    folder.mkdir()
    runs = {}
    for stage, words in stages(world).items():
        after = shutil.copytree(folder, copies / stage)
        status, operations = run_stage(after, stage, words)
        assert status == 0, (stage, (after / "kills.log").read_text()[-3000:])
        runs[stage] = Undisturbed(folder, after, operations)
        folder = after
    return runs


def contents(folder: Path) -> dict[str, object]:
    """All files that the stages wrote, with their contents where two undisturbed runs agree on
    them.

    These are rows of tables and results of trainings without times, weights, pages, and the number
    of calls in the ledger.
    """
    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.parent == folder or name.startswith((".hydra_runs/", "mlartifacts/")):
            continue
        found[name] = None
        if path.suffix == ".parquet":
            found[name] = rows(path)
        elif path.name == "training.json":
            report = json.loads(path.read_text())
            found[name] = [report.get("history"), report.get("loss")]
        elif path.suffix in (".safetensors", ".npy") or path.name in ("report.md", "tables.json"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    ledger = folder / "data" / "ledger.sqlite"
    if ledger.exists():
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as database:
            found["calls"] = database.execute("SELECT COUNT(*) FROM calls").fetchone()
    return {
        name: value for name, value in found.items() if not name.startswith("data/ledger.sqlite")
    }


def choose_moments(runs: Mapping[str, Undisturbed], count: int) -> list[tuple[str, list[int]]]:
    """Spread kills over all moments of all stages; up to KILLS_PER_RUN kills hit one run of a
    stage, one after the other.
    """
    generator = random.Random(13)
    every = [(stage, moment) for stage, run in runs.items() for moment in range(2 * run.operations)]
    chosen: list[tuple[str, int]] = []
    while len(chosen) < count:
        chosen += generator.sample(every, min(len(every), count - len(chosen)))
    by_stage: dict[str, list[int]] = defaultdict(list)
    for stage, moment in chosen:
        by_stage[stage].append(moment)
    return [
        (stage, moments[first : first + KILLS_PER_RUN])
        for stage, moments in by_stage.items()
        for first in range(0, len(moments), KILLS_PER_RUN)
    ]


@pytest.mark.slow
def test_a_stage_killed_anywhere_is_completed_by_the_next_start(
    world: Path, undisturbed: dict[str, Undisturbed], tmp_path: Path
) -> None:
    """Its files are then those of an undisturbed run: the same contents, nothing missing and
    nothing unfinished.
    """
    commands = stages(world)
    kills = 0
    failures = []
    for number, (stage, moments) in enumerate(choose_moments(undisturbed, KILLS)):
        folder = shutil.copytree(undisturbed[stage].before, tmp_path / f"{number}-{stage}")
        for moment in moments:
            status, _ = run_stage(folder, stage, commands[stage], kill_at=moment)
            kills += status == -signal.SIGKILL
        status, _ = run_stage(folder, stage, commands[stage])
        if status:
            failures.append((stage, moments, (folder / "kills.log").read_text()[-3000:]))
        actual, expected = contents(folder), contents(undisturbed[stage].after)
        different = sorted(
            name for name in {*actual, *expected} if actual.get(name, "") != expected.get(name, "")
        )
        if different:
            failures.append((stage, moments, different))
        shutil.rmtree(folder)
    moments = {stage: 2 * run.operations for stage, run in undisturbed.items()}
    print(f"{kills} kills at {sum(moments.values())} moments of {len(moments)} stages: {moments}")
    assert not failures
    assert kills >= KILLS // 2
