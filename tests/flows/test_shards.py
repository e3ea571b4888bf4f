"""Shards give what one process gives: the same calls, once each, and the same predictions."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run, environment, overrides
from test_joint import FROZEN

from flows.project.artifacts import Project
from flows.project.engines import resolve_engine_spec, resolve_search_spec
from flows.project.shards import divide_limits, find_finished, finish, get_folder, is_finished
from flows.settings.door import compose
from flows.stages.shard_calls import run_sweep_shard
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import read_predictions
from winnow.ledger.sqlite import SqliteStore
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message
from winnow.sweeps.shards import Shard

WORDS = (
    "grid={strategy:[concatenation,post_fusion],k:[1,2]}",
    "+reader.engine.deterministic=true",
    "sweep.closed_book_filter=false",
)


def _read(folder: Path) -> dict[str, object]:
    """The predictions of all cells, without what depends on the speed of the machine."""
    files = sorted((folder / "data/predictions").glob("*/predictions.parquet"))
    return {
        file.parent.name: [
            replace(one, usage=tuple(replace(usage, seconds=0.0) for usage in one.usage))
            for one in read_predictions(file)
        ]
        for file in files
    }


def _count_calls(path: Path) -> int:
    with SqliteStore(path) as ledger:
        return len(ledger)


@pytest.mark.slow
def test_shards_make_the_calls_of_one_process(prepared: Run, tmp_path: Path) -> None:
    """One shard is run before, the others by flows.shards; the second time nothing is called."""
    alone = tmp_path / "alone"
    shutil.copytree(tmp_path / "data", alone / "data")
    before = _count_calls(tmp_path / "data/ledger.sqlite")
    prepared("sweep", *WORDS)
    expected, calls = _read(tmp_path), _count_calls(tmp_path / "data/ledger.sqlite") - before
    assert calls > 0
    assert len(expected) == 4
    shutil.rmtree(tmp_path / "data")
    shutil.move(alone / "data", tmp_path / "data")

    first = prepared("sweep", *WORDS, "shard=2/3").stdout
    assert "Shard 2 of 3" in first
    assert not (tmp_path / "data/predictions").exists()
    assert _count_calls(tmp_path / "data/ledger.sqlite") == before
    again = prepared("sweep", *WORDS, "shard=2/3").stdout
    assert "finished already; no call was made" in again

    planned = prepared("sweep", *WORDS, "dry_run=true", COLUMNS="400").stdout
    (row,) = [line.split("│")[1:-1] for line in planned.splitlines() if "│ reader " in line]
    num_stored = _count_calls(tmp_path / "data/shards/ledger-2-of-3.sqlite")
    assert (int(row[5]), int(row[6])) == (num_stored, calls - num_stored)

    output = prepared("shards", *WORDS, "shards.count=3").stdout
    assert f"3 shards, {calls} calls merged into data/ledger.sqlite." in output
    assert "100 % cost nothing" in output
    assert _read(tmp_path) == expected
    parts = [
        _count_calls(tmp_path / f"data/shards/ledger-{number}-of-3.sqlite") for number in (1, 2, 3)
    ]
    assert sum(parts) == calls
    assert (
        "3 shards, 0 calls merged"
        in prepared("shards", *WORDS, "shards.count=3", "shards.runner=submitit_local").stdout
    )


_SBATCH = """#!/bin/sh
number=$(($(ls "$0".d | wc -l) + 1))
cp "$1" "$0".d/$number
echo "Submitted batch job $number"
"""


@pytest.mark.slow
def test_a_slurm_array_is_followed_by_the_job_that_joins_it(prepared: Run, tmp_path: Path) -> None:
    """Without waiting; the jobs, run as Slurm would, make the predictions of one process."""
    programs = tmp_path / "bin"
    (programs / "sbatch.d").mkdir(parents=True)
    for name, text in (("sbatch", _SBATCH), ("srun", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    words = (*WORDS, "shards.count=2", "shards.runner=slurm", "shards.wait=false")
    refused = prepared("shards", *words, "shards.runner=local", check=False).stderr
    assert "shards.wait=false needs shards.runner=slurm; received local" in refused
    partition = "+shards.slurm.slurm_additional_parameters={account: lab}"
    output = prepared("shards", *words, partition, PATH=path).stdout
    assert re.search(r"1 +. 2 shards", output)
    assert re.search(r"2 +. joins them", output)
    array, last = ((programs / "sbatch.d" / number).read_text() for number in ("1", "2"))
    assert "#SBATCH --array=0-1" in array
    assert "#SBATCH --account=lab" in array
    assert "dependency" not in array
    assert "#SBATCH --dependency=afterok:1" in last
    assert "#SBATCH --account=lab" in last
    assert not (tmp_path / "data/predictions").exists()
    folder = str(tmp_path / "data/shards/logs/submitit")
    slurm = {"SUBMITIT_EXECUTOR": "slurm", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}
    shard = {**slurm, "SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "1"}
    for variables in (
        {**shard, "SLURM_ARRAY_TASK_ID": "0"},
        {**shard, "SLURM_ARRAY_TASK_ID": "1"},
        {**slurm, "SLURM_JOB_ID": "2"},
    ):
        subprocess.run(
            [sys.executable, "-m", "submitit.core._submit", folder],
            cwd=tmp_path,
            env=environment(**variables),
            check=True,
        )
    log = (tmp_path / "data/shards/logs/merge.log").read_text()
    assert re.search(r"2 shards, [1-9]\d* calls merged into data/ledger.sqlite", log)
    assert "100 % cost nothing" in log
    joined = _read(tmp_path)
    shutil.rmtree(tmp_path / "data/predictions")
    prepared("sweep", *WORDS)
    assert joined == _read(tmp_path)
    assert len(joined) == 4


@pytest.mark.slow
def test_shards_of_what_comes_before_the_sweep(prepared: Run, world: Path, tmp_path: Path) -> None:
    """Index, retrieval, the teacher's calls and scores: in shards, by hand or together, as from one
    process.
    """
    dense = [
        "retriever=dense_on_disk",
        "retriever.engine.lists=2",
        "retriever.engine.codes=SQ8",
        "+retriever.engine.block_size=8",
    ]
    one = prepared("index", *dense, "shard=1/2").stdout
    assert "3 blocks are there" in one
    (vectors,) = (tmp_path / "data/index").glob("denseondisk-*/vectors")
    assert sorted(file.name for file in vectors.glob("*.npy")) == [
        "00000.npy",
        "00002.npy",
        "00004.npy",
    ]
    assert "2 shards." in prepared("shards", *dense, "shards.stage=index").stdout

    assert "questions" in prepared("retrieve", *dense, "shard=3/3").stdout
    prepared("shards", *dense, "shards.stage=retrieve", "shards.count=3")
    (artifact,) = (tmp_path / "data/retrieval").glob("towns-dense*")
    rows = parquet.read(artifact / "contexts.parquet", contracts.RETRIEVAL).to_pylist()
    shutil.rmtree(artifact)
    prepared("retrieve", *dense)
    assert parquet.read(artifact / "contexts.parquet", contracts.RETRIEVAL).to_pylist() == rows
    assert not (artifact / "shards").exists()

    frozen = [*FROZEN, f"joint.teacher.reader.base={world}/lm"]
    assert "asked about" in prepared("train_joint", *frozen, "shard=2/2").stdout
    assert not (tmp_path / "models/joint").exists()
    output = prepared("shards", *frozen, "shards.stage=train_joint").stdout
    assert "2 shards," in output
    assert "0 calls merged" not in output
    refused = prepared("train_joint", "joint=crag_evaluator", "shard=1/2", check=False).stderr
    assert "joint=crag_evaluator has no teacher" in refused
    output = prepared(
        "shards", *frozen, "shards.stage=score", "score.limit=1", "shards.count=3"
    ).stdout  # most have no question
    assert "3 shards," in output
    output = prepared("shards", *frozen, "shards.stage=score").stdout
    assert "2 shards," in output
    assert "0 calls merged" not in output


@pytest.mark.slow
def test_shards_that_were_run_by_hand(prepared: Run, tmp_path: Path) -> None:
    """A missing one is named, as is one with other settings; a run that does not wait for it says
    what it does.
    """
    prepared("sweep", *WORDS, "shard=1/2")
    other = ("grid={strategy:[post_fusion],k:[1]}", *WORDS[1:])
    prepared("sweep", *other, "shard=2/2")
    refused = prepared("shards", *WORDS, "shards.runner=merge", check=False).stderr
    assert (
        "Shard 2 of 2 is not finished with these settings. It was last run with other settings:"
        in refused
    )
    assert other[0] in refused
    assert "shard=2/2` and copy data/shards/ledger-2-of-2.sqlite" in refused
    made = _count_calls(tmp_path / "data/shards/ledger-1-of-2.sqlite")
    output = prepared("sweep", *WORDS).stdout
    assert "These shards were not finished: 2/2. Their calls are made here" in output
    from_ledger = re.search(r"(\d+) from the ledger", output)
    assert from_ledger
    assert int(from_ledger[1]) >= made, "those of the finished shard are merged first"
    prepared("sweep", *other, "shard=1/2")
    assert "2 shards," in prepared("shards", *other, "shards.runner=merge").stdout
    assert "not finished" not in prepared("sweep", *other).stdout


@pytest.mark.slow
def test_a_killed_shard_goes_on(prepared: Run, world: Path, tmp_path: Path) -> None:
    """Killed at once, and started again; a second process is refused meanwhile, and a failed shard
    shows its log.
    """
    command = [sys.executable, "-m", "flows.sweep", *overrides(world), *WORDS, "shard=1/2"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL
    ) as process:
        marker = tmp_path / "data/shards/sweep-1-of-2.lock"
        deadline = time.monotonic() + 60
        while not marker.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        other = prepared("sweep", *WORDS, "shard=1/2", check=False)
        process.send_signal(signal.SIGKILL)
    assert (
        "another process is running this shard of sweep" in other.stderr
        or "Shard 1 of 2" in other.stdout
    )
    assert "2 shards" in prepared("shards", *WORDS).stdout
    broken = prepared("shards", "grid={k:[99]}", *WORDS[1:], check=False)
    assert "2 of 2 shards failed (1-of-2, 2-of-2). The log of the first" in broken.stderr
    assert "Lower k, or raise depth." in broken.stderr


def test_a_finished_shard_is_that_of_its_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard whose calls are in a file is not finished for a database, nor for another one."""
    monkeypatch.chdir(tmp_path)
    shard, words = Shard(1, 2), ["paths.ledger=postgresql://one/x"]
    finish(compose(words), shard, "sweep", "digest")
    assert is_finished(compose(words), shard, "sweep", "digest")
    assert find_finished(compose(words), "sweep", "digest") == [shard]
    shard.find_ledger(tmp_path / "data/shards").touch()
    for others in (["paths.ledger=postgresql://two/x"], []):
        assert not is_finished(compose(others), shard, "sweep", "digest")
    assert not is_finished(compose(words), shard, "sweep", "another")


def test_what_only_a_search_uses_names_labels_and_local_searches() -> None:
    """The index is shared, but the labels and the pages that it gives with another nprobe are
    others.
    """
    words = ["retriever=dense_on_disk", "answerable=retriever"]
    one, other = (
        Project(compose([*words, f"retriever.engine.nprobe={nprobe}"])) for nprobe in (64, 1)
    )
    assert one.resolve_index().key == other.resolve_index(other.settings.answerable.retriever).key
    assert one.questions.key != other.questions.key
    words = ["search=local", "retriever=dense_on_disk"]
    engines = [
        resolve_search_spec(Project(compose([*words, f"retriever.engine.nprobe={nprobe}"]))).key
        for nprobe in (64, 1)
    ]
    assert engines[0] != engines[1]


def test_budgets_and_rates_are_divided() -> None:
    """Four shards spend what one process may; the settings of the caller stay, and so does the
    identity of the reader.
    """
    words = [
        "reader=openai",
        "reader.base=x",
        "reader.engine.budget.money=1",
        "reader.engine.budget.tokens=1000",
    ]
    cfg = compose(
        [
            *words,
            "reader.engine.pacing.requests_per_minute=10",
            "reader.engine.pacing.max_concurrency=2",
        ]
    )
    (part,) = divide_limits([cfg], Shard(1, 4))
    engine = part.reader.engine
    assert engine["budget"] == {
        "_target_": "winnow.readers.budget.Budget",
        "money": 0.25,
        "tokens": 250,
    }
    names = ("requests_per_minute", "tokens_per_minute", "max_concurrency")
    assert [engine["pacing"][name] for name in names] == [2.5, None, 1]
    assert cfg.reader.engine["budget"]["money"] == 1
    assert (
        resolve_engine_spec(Project(cfg), "reader").key
        == resolve_engine_spec(Project(part), "reader").key
    )


def test_shards_refuse_what_makes_no_sense(prepared: Run) -> None:
    """A shard that is none, one of a stage that has none, and a dry run of one."""
    assert "received '5/4'" in prepared("sweep", *WORDS, "shard=5/4", check=False).stderr
    for stage in ("shards", "report", "pipeline"):
        refused = prepared(stage, *WORDS, "shard=1/4", check=False).stderr
        assert f"shard=1/4: flows.{stage} has no shards; only index, " in refused
    refused = prepared("sweep", *WORDS, "shard=1/4", "dry_run=true", check=False).stderr
    assert "dry_run=true counts the calls of all shards together" in refused


def test_the_limits_of_readers_in_a_grid_are_divided_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a sweep's shard resolves its cells."""
    limits: list[object] = []
    monkeypatch.setattr(
        "flows.stages.shard_calls.resolve_cells",
        lambda cells: limits.extend(cell.reader.engine["budget"]["money"] for cell in cells) or [],
    )
    monkeypatch.setattr("flows.stages.shard_calls.run_shard", lambda *_: None)
    words = ["reader=openai", "reader.base=m", "reader.engine.budget.money=8"]
    run_sweep_shard([compose([*words, "grid={reader:[openai,openai_batch],k:[1]}"])], Shard(1, 4))
    assert limits == [2.0, None]


def test_a_shard_whose_calls_were_removed_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be made by the process that joins the shards."""
    monkeypatch.chdir(tmp_path)
    settings, shard = compose([]), Shard(1, 2)
    file = shard.find_ledger(get_folder(settings))
    file.parent.mkdir(parents=True)
    request = Generate((Message("user", "a"),), Decoding())
    with SqliteStore(file) as ledger:
        ledger.put("m", [(b"k" * 16, request, Generation("a"), 0.1)])
    finish(settings, shard, "sweep", "digest")
    assert is_finished(settings, shard, "sweep", "digest")
    with SqliteStore(file) as ledger:
        ledger.delete([b"k" * 16])
    assert not is_finished(settings, shard, "sweep", "digest")


@pytest.mark.slow
def test_calls_of_killed_shards_and_of_other_cells_are_used(prepared: Run, tmp_path: Path) -> None:
    """Calls are found by their content; the sweep is then shown as the last one."""
    one = ("grid={strategy:[concatenation],k:[1]}", *WORDS[1:])
    for number in (1, 2):
        prepared("sweep", *one, f"shard={number}/2")
    (tmp_path / "data/shards").glob(
        "sweep-*-2-of-2.json"
    ).__next__().unlink()  # as if it was killed
    made = sum(
        _count_calls(tmp_path / f"data/shards/ledger-{number}-of-2.sqlite") for number in (1, 2)
    )
    planned = prepared("sweep", *WORDS, "dry_run=true", COLUMNS="400").stdout
    (row,) = [line.split("│")[1:-1] for line in planned.splitlines() if "│ reader " in line]
    assert int(row[5]) == made > 0
    output = prepared("sweep", *one).stdout
    assert f" 0 made, 0 merged in flight, {made} from the ledger" in output
    (tmp_path / "data/sweeps.json").unlink()
    prepared("shards", *WORDS, "sweep.name=sharded")
    assert "sweep.name=sharded" in prepared("report", small=False).stdout
