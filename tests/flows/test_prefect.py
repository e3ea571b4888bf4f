"""Prefect as its users know it: the commands of docs/prefect.md on a real server with a real
worker, and stages that run again.
"""

import os
import shlex
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from conftest import overrides
from pages import (
    copy_project,
    read_all,
    read_blocks,
    run_in_background,
    run_script,
    wait_for,
    write_overrides,
)
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.testing.utilities import prefect_test_harness

from flows.settings.door import compose
from flows.tools.prefect import _check_server, _show_settings, run_flow, show_blocks
from flows.tools.summary import Summary
from winnow.artifacts.tables import read_predictions
from winnow.errors import ConfigError, ServerUnavailableError
from winnow.readers.child_processes import find_free_port

pytestmark = pytest.mark.slow


def test_the_commands_of_the_page(world: Path, template: Path, tmp_path: Path) -> None:
    """Runs have names and tags that one recognizes, and a worker runs a sweep with settings of the
    command line.
    """
    folder = tmp_path / "project"
    folder.mkdir()
    copy_project(folder)
    write_overrides(
        folder,
        [*overrides(world), "sweep.limit=6", "grid.k=[1, 2]", "grid.strategy=[post_fusion]"],
    )
    run_script(f"cp -r {template}/data . && python -m flows.compose", folder)
    port = str(find_free_port())
    server, watch, deploy, worker, run = (
        block.replace("4200", port) for block in read_blocks("prefect.md")
    )
    api, env = f"http://127.0.0.1:{port}/api", {"PREFECT_HOME": str(tmp_path / "prefect")}
    with run_in_background(server, folder, tmp_path / "server.log", **env):
        wait_for(f"{api}/health")
        assert "sweep quick_start" in run_script(watch, folder, **env)
        (flow_run,) = read_all(api, "flow_runs")
        names = {path.name for path in (folder / "data/predictions").iterdir()}
        assert {"sweep", "quick_start", *names} == set(flow_run["tags"])  # type: ignore[call-overload]
        blocks = {
            row["name"] for row in read_all(api, "task_runs")
        }  # a busy machine divides the sweep into several
        assert "sweeping, from 1 of 36" in blocks
        assert all(str(name).startswith("sweeping, from ") for name in blocks)
        assert {("sweep", "table"), ("sweeping", "progress")} == {
            (r["key"], r["type"]) for r in read_all(api, "artifacts")
        }

        run_script(deploy, folder, **env)
        with run_in_background(worker, folder, tmp_path / "worker.log", **env):
            output = run_script(run, folder, **env)
            wrong = "prefect deployment run winnow/sweep --param 'settings=[\"k=-1\"]' --watch"
            failed = run_script(
                f"export PREFECT_API_URL={api}; {wrong}", folder, check=False, **env
            )
        assert output.count("finished successfully") == 2
        assert "finished in state 'Failed'" in failed
        runs = read_all(api, "flow_runs")
        assert any(
            "StageFailedError" in str(row["state"]) and "k=-1" in str(row["state"]) for row in runs
        )
        assert {row["name"] for row in runs} >= {
            "sweep",
            "report",
            "sweep quick_start",
            "report quick_start",
        }
    assert len(list((folder / "data/predictions").iterdir())) == len(names) + 3


def test_shards_on_two_workers(world: Path, template: Path, tmp_path: Path) -> None:
    """Shards are flow runs below the sweep's, on two workers; a killed one is started again alone;
    the result is the same.
    """
    folder = tmp_path / "project"
    folder.mkdir()
    copy_project(folder)
    settings = [
        "grid={strategy:[post_fusion],k:[1,2]}",
        "+reader.engine.deterministic=true",
        "sweep.closed_book_filter=false",
    ]
    words = shlex.join([*overrides(world), *settings])
    run_script(f"cp -r {template}/data . && cp -r data alone", folder)
    run_script(
        f"python -m flows.sweep {words} paths.data=alone paths.ledger=alone/ledger.sqlite", folder
    )
    port = str(find_free_port())
    server, _, deploy, worker, _ = (
        block.replace("4200", port) for block in read_blocks("prefect.md")
    )
    api, env = f"http://127.0.0.1:{port}/api", {"PREFECT_HOME": str(tmp_path / "prefect")}
    sweep = (
        f"export PREFECT_API_URL={api}; python -m flows.shards {words} shards.count=2 "
        "shards.runner=prefect"
    )
    with run_in_background(server, folder, tmp_path / "server.log", **env):
        wait_for(f"{api}/health")
        assert "has no deployment winnow/shard" in run_script(sweep, folder, check=False, **env)
        run_script(deploy, folder, **env)
        killer = threading.Thread(
            target=_kill_holder, args=(folder / "data/shards/sweep-2-of-2.lock",)
        )
        killer.start()
        with (
            run_in_background(worker, folder, tmp_path / "worker_1.log", **env),
            run_in_background(worker, folder, tmp_path / "worker_2.log", **env),
        ):
            output = run_script(sweep, folder, **env)
        killer.join()
        runs = [
            row for row in read_all(api, "flow_runs") if str(row["name"]).startswith("sweep shard=")
        ]
        tasks = {row["id"]: row["flow_run_id"] for row in read_all(api, "task_runs")}
    states = sorted((str(row["name"]), str(row["state_type"])) for row in runs)
    completed = [(f"sweep shard={number}/2", "COMPLETED") for number in (1, 2)]
    assert states == sorted([*completed, ("sweep shard=2/2", "CRASHED")])
    assert len({tasks[row["parent_task_run_id"]] for row in runs}) == 1
    assert "2 shards," in output
    assert "100 % cost nothing" in output
    for alone in sorted((folder / "alone/predictions").glob("*/predictions.parquet")):
        ours = folder / "data" / alone.relative_to(folder / "alone")
        assert [replace(one, usage=()) for one in read_predictions(ours)] == [
            replace(one, usage=()) for one in read_predictions(alone)
        ]


def _kill_holder(lock: Path) -> None:
    """Kill the process that holds a lock, as soon as there is one."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        inode = f":{lock.stat().st_ino} " if lock.exists() else None
        for line in Path("/proc/locks").read_text().splitlines() if inode else ():
            if inode in line and "FLOCK" in line:
                os.kill(int(line.split()[4]), signal.SIGKILL)
                return
        time.sleep(0.02)


def test_a_stage_runs_again_if_a_server_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its blocks are task runs, the failed one, too; an error of another kind ends the run at once,
    as it is.
    """
    from prefect.client.orchestration import get_client

    monkeypatch.setattr("flows.tools.prefect._BLOCK_SECONDS", 0.0)
    monkeypatch.setattr("flows.tools.prefect._RETRY_SECONDS", 0)
    jobs = [compose([f"paths.data={tmp_path}"])]
    num_starts = 0

    def stage(_: object) -> Summary:
        nonlocal num_starts
        num_starts += 1
        with show_blocks("sweeping", 3) as count:
            for number in range(3):
                if number == 1 and num_starts == 1:
                    raise error
                count()
        return Summary(f"after {num_starts} starts", note="5 calls made.")

    with prefect_test_harness(server_startup_timeout=120):
        monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))
        error: Exception = ServerUnavailableError("the server did not answer")
        summary = run_flow(stage, "sweep", jobs)
        assert summary.title == "after 2 starts"
        assert summary.note == (
            "5 calls made.\nRun 2 of the stage; what earlier ones called is not counted here."
        )
        with get_client(sync_client=True) as client:
            blocks = [(row.name, row.state_name) for row in client.read_task_runs()]
        finished = [(f"sweeping, from {n} of 3", "Completed") for n in (1, 1, 2, 3)]
        assert sorted(blocks) == sorted([*finished, ("sweeping, from 2 of 3", "Failed")])
        num_starts = 0
        error = ConfigError("a wrong setting")
        with pytest.raises(ConfigError, match=r"^a wrong setting$"):
            run_flow(stage, "sweep", jobs)
        assert num_starts == 1
        with get_client(sync_client=True) as client:
            states = [row.state_name for row in client.read_flow_runs()]
        assert sorted(map(str, states)) == ["Completed", "Failed"]
        num_starts, error = 0, ServerUnavailableError("the server is gone")
        monkeypatch.setattr("flows.tools.prefect._RETRIES", 0)
        with pytest.raises(ServerUnavailableError, match=r"^the server is gone$"):
            run_flow(stage, "sweep", jobs)


def test_a_server_that_does_not_take_the_table_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The stage has ended, and would otherwise run, and pay, again."""
    starts: list[str] = []

    def stage(_: object) -> Summary:
        starts.append("start")
        return Summary("done", [{"k": 1}], artifacts=[tmp_path])

    def time_out(*_: object, **__: object) -> None:
        raise httpx.ReadTimeout("too slow")

    with prefect_test_harness(server_startup_timeout=120):
        monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))
        monkeypatch.setattr(
            "prefect.client.orchestration.SyncPrefectClient.update_flow_run", time_out
        )
        jobs = [compose([f"paths.data={tmp_path}"])]
        assert run_flow(stage, "sweep", jobs).title == "done"
    assert starts == ["start"]


def test_a_server_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server, and a server of another version."""
    url = f"http://127.0.0.1:{find_free_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", url)
    with (
        temporary_settings({PREFECT_API_URL: url}),
        pytest.raises(ConfigError, match="Failed to reach API"),
    ):
        _check_server()
    with prefect_test_harness(server_startup_timeout=120):
        monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))
        _check_server()
        monkeypatch.setattr(
            "prefect.client.orchestration.SyncPrefectClient.client_version", lambda _: "4.1.0"
        )
        with pytest.raises(ConfigError, match="Major versions must match"):
            _check_server()


def test_the_settings_of_many_jobs_fit() -> None:
    """Prefect refuses parameters of more than half a megabyte."""
    first = compose(["k=1"])
    shown = _show_settings([first, *(first.replace(k=k) for k in (2, 3))])
    assert shown == [first.plain, {"k": 2}, {"k": 3}]
    text = [{"prompt": str(number) * 9000} for number in range(99)]
    many: Any = [SimpleNamespace(plain=plain, words=["k=1"]) for plain in text]
    assert _show_settings(many) == [{"words": ["k=1"], "jobs": 99}]
