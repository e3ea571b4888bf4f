"""Runs the commands of a page of the documentation in a copy of the project, and asks the servers
that they start.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import ROOT, environment

PROGRAMS = (
    "python",
    "make",
    "dvc",
    "winnow",
    "mlflow",
    "prefect",
    "torchrun",
    "mkdir",
    "cp",
    "git",
    "hf",
    "unshare",
)
"""What the blocks call; each prints its words instead of running when commands are listed."""
_RECORD = "\n".join(
    [
        *(f"{name}() {{ printf '%s\\0' {name} \"$@\" '\n' >&3; }}" for name in PROGRAMS),
        "cat() { command cat > /dev/null; }",
    ]
)


def read_blocks(page: str, *, all_blocks: bool = True) -> list[str]:
    """Return the blocks of shell commands of docs/<page>; without `all_blocks`, those that no
    comment says are not run.
    """
    pattern = r"(<!-- not run: [^>]+ -->\n)?^```sh\n(.*?)^```"
    blocks = re.findall(pattern, (ROOT / "docs" / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return [block for reason, block in blocks if all_blocks or not reason]


def list_commands(script: str, folder: Path) -> list[list[str]]:
    """Return the words of every command of a script, as a shell expands them, loops and variables
    included.
    """
    recorded, environment = folder / "commands", {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = ["bash", "-uc", f"exec 3> {recorded}\n{_RECORD}\n{script}"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert not done.returncode, f"{script}: {done.stderr}"
    commands: list[list[str]] = [[]]
    for word in recorded.read_text().split("\0"):
        if word == "\n":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands[:-1]


def run_blocks(page: str, folder: Path, **env: str) -> list[str]:
    """Run each block of shell commands of docs/<page> in a project, as one script, and return what
    the blocks printed.
    """
    blocks = read_blocks(page)
    assert blocks
    return [run_script(block, folder, **env) for block in blocks]


def run_script(script: str, folder: Path, *, check: bool = True, **env: str) -> str:
    """Run shell commands in a project, whose code is used, and return what they printed; stop at
    the first that fails.
    """
    variables = build_environment(folder, **env)
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (check and done.returncode), (
        f"{script}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout + done.stderr


@contextmanager
def run_in_background(script: str, folder: Path, log: Path, **env: str) -> Iterator[None]:
    """Run shell commands that do not end by themselves, and end them afterwards, with their
    children.
    """
    with log.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-ec", script],
            cwd=folder,
            env=build_environment(folder, **env),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def build_environment(folder: Path, **env: str) -> dict[str, str]:
    """Return the environment of a user's shell in a project."""
    return {
        **environment(),
        "PYTHONPATH": "src",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder.parent),
        "GIT_AUTHOR_NAME": "Test", "GIT_AUTHOR_EMAIL": "test@localhost",
        "GIT_COMMITTER_NAME": "Test", "GIT_COMMITTER_EMAIL": "test@localhost",
        **env,
    }  # fmt: skip


def wait_for(url: str) -> None:
    """Wait until a server answers."""
    for _ in range(240):
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    pytest.fail(f"no answer from {url}")


def read_all(api: str, kind: str) -> list[dict[str, object]]:
    """Return all rows of a kind from Prefect's API."""
    request = urllib.request.Request(
        f"{api}/{kind}/filter", b"{}", {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        rows: list[dict[str, object]] = json.loads(reply.read())
    return rows


def copy_project(folder: Path) -> None:
    """Copy the files of this checkout that git does not ignore to a new git repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    run_script("git init --quiet", folder)


def write_overrides(folder: Path, settings: Sequence[str]) -> None:
    """Write overrides.yaml with other data and models in place of the quick start's."""
    chosen = dict(word.split("=", 1) for word in settings)
    groups = [f"  {name}: {value}" for name, value in chosen.items() if name in _GROUPS]
    others = [f"  {name}: {value}" for name, value in chosen.items() if name not in _GROUPS]
    (folder / "overrides.yaml").write_text(
        "\n".join(["groups:", "  experiment: quick_start", *groups, "set:", *others]) + "\n"
    )


_GROUPS = ("corpus", "dataset", "encoder", "reader")
