"""A server that the run starts, shares with other processes and stops."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from transformers import AutoTokenizer

from winnow.artifacts.owners import read_start_time
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ConfigError, ServerUnavailableError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers import server_process
from winnow.readers.child_processes import CHILDREN, is_alive
from winnow.readers.local import LocalReader
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.readers.server_process import (
    ServerProcess,
    release_servers,
)
from winnow.records import Decoding
from winnow.requests import Generate, Message, Plan
from winnow.testing import make_tiny_causal_lm
from winnow.testing.chat_server import ChatServer

FAST = Pacing(
    initial_wait=0.01,
    max_wait=0.05,
    read_timeout=2.0,
    connect_timeout=1.0,
    max_attempts=2,
    cooldown=0.05,
)
COMMAND = [sys.executable, "-m", "winnow.testing.chat_server", "--port", "{port}"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[ServerProcess]:
    """How to start the server; whatever was started is stopped at the end."""
    yield ServerProcess(
        COMMAND,
        version=[sys.executable, "-c", "print('banner\\n1.0')"],
        folder=str(tmp_path),
        timeout=60,
    )
    release_servers()
    server_process._USED.clear()


def is_up(address: str) -> bool:
    try:
        return httpx.get(f"{address.removesuffix('/v1')}/health", trust_env=False).is_success
    except httpx.HTTPError:
        return False


def ask(number: int) -> Plan[str]:
    (reply,) = yield [Generate((Message("user", f"question {number}"),), Decoding())]
    return reply.text  # type: ignore[no-any-return]


def run(reader: OpenAIReader | LocalReader, folder: Path, numbers: range = range(3)) -> list[str]:
    with SqliteStore(folder / "l.sqlite") as ledger:
        try:
            outcomes = Driver(build_engine_map(reader), ledger).run(Job(n, ask(n)) for n in numbers)
            replies = {
                outcome.tag: outcome.result for outcome in outcomes
            }  # a server answers in any order
            return [replies[n] for n in numbers]
        finally:
            reader.close()


def test_the_server_is_started_at_the_first_call_and_stopped_at_the_end(
    start: ServerProcess, tmp_path: Path
) -> None:
    """Two readers share it, and the last one that is closed stops it; a run whose calls are in the
    ledger starts nothing.
    """
    reader = OpenAIReader("owner/model", "m", start=start, pacing=FAST)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        list(Driver(build_engine_map(reader), ledger).run([Job(0, ask(0))]))
    assert is_up(reader._calls.address)
    address = reader._calls.address
    other = OpenAIReader("owner/model", "m", start=start, pacing=FAST)
    assert run(other, tmp_path, range(5)) == ["an answer"] * 5
    assert other._calls.address == address
    assert is_up(address)
    reader.close()
    assert not is_up(address)
    again = OpenAIReader("owner/model", "m", start=start, pacing=FAST)
    assert run(again, tmp_path, range(5)) == ["an answer"] * 5
    assert again._loop is None
    assert not is_up(address)


def test_words_of_the_command_are_filled_in() -> None:
    """The model with and without its commit, the commit, and the port; a folder as it is. The
    server names the model so.
    """
    start = ServerProcess(["vllm", "{base}", "--revision", "{revision}", "--port={port}"])
    commit = "a" * 40
    assert start.build_command(f"owner/model@{commit}", 7) == [
        "vllm",
        "owner/model",
        "--revision",
        commit,
        "--port=7",
    ]
    assert start.build_command("/models/x", 7)[1] == "/models/x"
    assert OpenAIReader(f"owner/model@{commit}", "m", start=start).protocol.model == "owner/model"
    pinned = ServerProcess(["transformers", "serve", "{pinned}", "--port", "{port}"])
    assert pinned.build_command(f"owner/model@{commit}", 7)[2] == f"owner/model@{commit}"
    assert pinned.get_model_name(f"owner/model@{commit}") == f"owner/model@{commit}"
    with pytest.raises(ConfigError, match=r"would load the newest weights of owner/model"):
        ServerProcess(["x", "{base}", "{port}"]).build_command(f"owner/model@{commit}", 7)
    with pytest.raises(
        ConfigError, match=r"must name a program and contain {port}; received \['vllm'\]"
    ):
        ServerProcess(["vllm"])


def test_what_changes_replies_is_part_of_the_identity(start: ServerProcess, tmp_path: Path) -> None:
    """Command, environment, printed version and the weights of a local model; not the place of the
    log.
    """
    model = make_tiny_causal_lm(tmp_path / "lm", ["a b"])
    reader = OpenAIReader(str(model), "m", start=start)
    identities = {
        replace(reader, start=other).identity
        for other in (
            start,
            replace(start, command=[*COMMAND, "--latency", "0"]),
            replace(start, environment={"VLLM_BATCH_INVARIANT": "1"}),
            replace(start, version=()),
        )
    }
    before = reader.identity
    assert len({*identities, before}) == 4
    assert "1.0" in before
    assert replace(reader, start=replace(start, folder="elsewhere", timeout=1.0)).identity == before
    template = tmp_path / "template.jinja"
    template.write_text("one")
    files = replace(start, command=[*COMMAND, f"--chat-template={template}"])
    with_template = files.identity
    template.write_text("two")
    assert files.identity != with_template
    address = start.use(str(model)).require_address()
    make_tiny_causal_lm(tmp_path / "lm", ["a b"], seed=5)
    assert replace(reader).identity != before
    assert (
        start.use(str(model)).require_address() != address
    )  # the running server has the former weights


def test_a_server_that_does_not_come_up_is_named(start: ServerProcess, tmp_path: Path) -> None:
    """One that ends, one that takes too long and one that is not installed: the end of its log, and
    no process remains.
    """
    fails = replace(
        start,
        command=[sys.executable, "-c", "print('no GPU found'); raise SystemExit(1)", "{port}"],
    )
    with pytest.raises(
        ServerUnavailableError,
        match=r"(?s)ended before it was ready.*has ended; its log .*no GPU found",
    ):
        run(OpenAIReader("m", "m", start=fails, pacing=FAST), tmp_path)
    slow = replace(start, command=[*COMMAND, "--delay", "60"], timeout=1.0)
    with pytest.raises(
        ServerUnavailableError,
        match=r"not ready after 1 s and was stopped.*reader.engine.start.timeout",
    ):
        run(OpenAIReader("m", "m", start=slow, pacing=FAST), tmp_path)
    assert all(child.poll() is not None for child in CHILDREN)
    absent = replace(start, command=["no-such-server", "{port}"])
    with pytest.raises(ServerUnavailableError, match=r"cannot be started: .*no-such-server"):
        run(OpenAIReader("m", "m", start=absent, pacing=FAST), tmp_path)


def test_a_server_that_dies_costs_no_finished_call(start: ServerProcess, tmp_path: Path) -> None:
    """The error shows its log; the same run again starts another one and makes only the missing
    calls.
    """
    reader = OpenAIReader("m", "m", start=start, pacing=FAST)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        list(Driver(build_engine_map(reader), ledger).run([Job(0, ask(0))]))
    CHILDREN[-1].kill()
    CHILDREN[-1].wait()
    with pytest.raises(
        ServerUnavailableError, match=r"The server has ended; its log .*server.log ends with"
    ):
        run(reader, tmp_path, range(6))
    assert (
        run(OpenAIReader("m", "m", start=start, pacing=FAST), tmp_path, range(6))
        == ["an answer"] * 6
    )


USER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
from winnow.readers.server_process import ServerProcess
start = ServerProcess({command!r}, folder={folder!r}, timeout=60)
print(start.use("m").require_address(), flush=True)
sys.stdin.read()
"""


def use_in_another_process(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a process that uses the server until its standard input is closed, and return it with
    the server's address.
    """
    script = USER.format(command=COMMAND, folder=str(folder))
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    """Let a process end by itself."""
    process.communicate("", timeout=60)


def wait_until_down(address: str) -> bool:
    deadline = time.monotonic() + 20
    while is_up(address) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_up(address)


def test_processes_share_a_server_and_the_last_one_stops_it(tmp_path: Path) -> None:
    """The one that started it may end first, and may be killed."""
    first, address = use_in_another_process(tmp_path)
    second, other = use_in_another_process(tmp_path)
    assert other == address
    end(first)
    assert is_up(address)
    second.send_signal(signal.SIGKILL)
    second.wait()
    assert is_up(address)  # nobody was left to stop it
    third, again = use_in_another_process(tmp_path)
    assert again == address
    end(third)
    assert wait_until_down(address)


def test_ctrl_c_stops_the_server(tmp_path: Path) -> None:
    """An interrupted run ends its server."""
    process, address = use_in_another_process(tmp_path)
    os.kill(process.pid, signal.SIGINT)
    process.wait(60)
    assert wait_until_down(address)


def test_sigterm_stops_the_server_and_its_children(tmp_path: Path) -> None:
    """A batch system ends a run so; a server that started others leaves none of them."""
    script = f"""
import sys
from winnow.readers import server_process
server_process.exit_on_signals()
command = ["bash", "-c", {" ".join(COMMAND)!r} + " & wait"]
process = server_process.ServerProcess(command, folder={str(tmp_path)!r}, timeout=60)
print(process.use("m").require_address(), flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert is_up(address)
    process.terminate()
    process.wait(60)
    assert wait_until_down(address)


def test_a_zombie_is_not_a_running_server(tmp_path: Path) -> None:
    """Its parent did not wait for it."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    deadline = time.monotonic() + 20
    while read_start_time(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert read_start_time(process.pid) == ""
    process.wait()


def test_a_starting_server_keeps_no_other_engine_waiting(
    start: ServerProcess, tmp_path: Path
) -> None:
    """`submit` returns at once, and `collect` keeps to its time."""
    reader = OpenAIReader(
        "m", "m", start=replace(start, command=[*COMMAND, "--delay", "3"]), pacing=FAST
    )
    request = Generate((Message("user", "x"),), Decoding())
    started = time.monotonic()
    reader.submit([request])
    assert not reader.collect(0.1)
    assert time.monotonic() - started < 2
    while not (results := reader.collect(1.0)):
        assert time.monotonic() - started < 60
    assert [result[0] for result in results] == [request]
    reader.close()


def test_the_state_of_another_server_is_not_trusted(start: ServerProcess, tmp_path: Path) -> None:
    """A state file that is damaged, or whose process id belongs to another process, starts a new
    server.

    A signal to the process group 1 would end every process of the machine.
    """
    address = start.use("m").require_address()
    release_servers()
    state = next(tmp_path.rglob("users.lock")).with_name("state.json")
    init = json.dumps({"pid": 1, "start": read_start_time(1), "port": 9})
    other = json.dumps({"pid": os.getpid(), "start": "7", "port": 9})
    assert not is_alive(json.loads(init))
    for text in ("{", "[]", init, other):
        server_process._USED.clear()
        state.write_text(text)
        address = start.use("m").require_address()
        assert is_up(address)
        release_servers()
        assert not is_up(address)


@pytest.mark.slow
def test_transformers_serve_gives_the_replies_of_the_local_reader(
    start: ServerProcess, tmp_path: Path
) -> None:
    """A real server with a real model: the texts, and the tokens that it counts, are those of
    transformers in this process.
    """
    texts = [
        "the quick brown fox jumps over the lazy dog",
        "what is the capital of France",
        "question 0 1 2",
    ]
    model = make_tiny_causal_lm(tmp_path / "lm", texts)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    tokenizer.save_pretrained(model)
    command = [
        Path(sys.executable).with_name("transformers"),
        "serve",
        "{base}",
        "--port",
        "{port}",
        "--host",
        "127.0.0.1",
    ]
    words = [*map(str, command), "--device", "cpu", "--dtype", "float32"]
    served = OpenAIReader(
        str(model),
        "m",
        start=replace(start, command=words, version=()),
        pacing=replace(FAST, read_timeout=60),
    )
    replies = run(served, tmp_path)
    (tmp_path / "l.sqlite").unlink()
    local = LocalReader(str(model), "m", "float32")
    assert replies == run(local, tmp_path)
    assert any(replies)


def test_another_program_on_the_port_is_not_the_server(
    start: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take the port before the server does, which then ends."""
    with ChatServer().serve() as url:
        port = httpx.URL(url).port
        monkeypatch.setattr(server_process, "find_free_port", lambda: port)
        ends = replace(start, command=[sys.executable, "-c", "raise SystemExit(1)", "{port}"])
        monkeypatch.setattr(server_process, "is_ready", lambda _: wait_for_end())
        with pytest.raises(ServerUnavailableError, match="ended before it was ready"):
            ends.use("m").require_address()


def wait_for_end() -> bool:
    """Return that something answers, after the started process has ended."""
    CHILDREN[-1].wait()
    return True
