"""The server that tests and benchmarks talk to."""

import json
import subprocess
import sys
import urllib.request

import pytest

from winnow.testing.chat_server import ChatServer


def ask(url: str, prompt: str) -> dict[str, object]:
    """Post a chat by the standard library."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode()
    request = urllib.request.Request(
        f"{url}/chat/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        body: dict[str, object] = json.load(reply)
    return body


def test_it_answers_by_its_function_and_counts() -> None:
    """One choice; how often each prompt came and was answered."""
    server = ChatServer(
        reply=lambda prompt: prompt[::-1], fault_rule=lambda _, time: "500" if time == 1 else None
    )
    with server.serve() as url:
        with pytest.raises(OSError, match="500"):
            ask(url, "abc")
        assert ask(url, "abc")["choices"][0]["message"]["content"] == "cba"  # type: ignore[index]
        with pytest.raises(OSError, match="404"):
            urllib.request.urlopen(f"{url}/models", timeout=10)
    assert (server.received["abc"], server.answered["abc"], server.calls) == (2, 1, 2)


def test_it_runs_as_a_process() -> None:
    """It prints its address on 127.0.0.1."""
    command = [sys.executable, "-m", "winnow.testing.chat_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        assert ask(url, "x")["usage"] == {"prompt_tokens": 1, "completion_tokens": 2}
        process.terminate()
