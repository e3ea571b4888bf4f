"""Odd names, values and files of users: read as they are meant, or refused with what to type."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Run

from flows.compose import compose_params
from flows.settings.door import compose
from flows.settings.identity import slugify
from flows.settings.overrides import complete_overrides, load_params
from flows.settings.typed import Settings
from flows.tools.servers import is_port_free
from winnow.errors import ConfigError
from winnow.readers.child_processes import find_free_port


@pytest.mark.parametrize("text", ["1_1", "2016-86", "0x1", "it's", "a b", "1e5"])
def test_a_question_is_named_as_it_was_typed(text: str, tmp_path: Path) -> None:
    """1_1 is no number, on the command line and after a composed file."""
    assert compose(complete_overrides([f"question={text}"])).question == text
    path = tmp_path / "params.yaml"
    path.write_text(compose_params([]))
    assert load_params(path, [f"question={text}"], grid=False).question == text
    assert compose(complete_overrides(["question='1_1'"])).question == "1_1"
    assert compose(complete_overrides(["question=null"])).question is None


@pytest.mark.parametrize("path", ["a(1).jsonl", "\u00dcbung.jsonl", "a b,c.jsonl"])
def test_a_path_with_odd_signs_is_refused_with_what_to_type(path: str) -> None:
    """The example in the message works."""
    with pytest.raises(ConfigError, match="quote a value") as caught:
        complete_overrides([f"dataset.parser.path={path})"])
    example = str(caught.value).rpartition("for example ")[2].removesuffix(".").strip("'")
    assert compose(complete_overrides([example])).dataset.parser["path"] == f"{path})"


@pytest.mark.parametrize("name", ["", "  ", "a/../b", "a//b", "x:y", "n" * 201, " a", "tab\there"])
def test_names_that_some_tool_refuses_are_refused_first(name: str) -> None:
    """MLflow, Prefect, DVC and file systems have other rules each."""
    plain = compose([]).plain
    with pytest.raises(ConfigError, match=r"sweep\.name"):
        Settings.load({**plain, "sweep": {**plain["sweep"], "name": name}})
    Settings.load({**plain, "sweep": {**plain["sweep"], "name": "papers/\u00dcbung 1"}})


def test_long_names_fit_into_a_path() -> None:
    """Keys distinguish what is cut."""
    assert len(slugify("\u00fc" * 260).encode()) <= 150
    assert slugify("a b/c") == "a-b-c"


def test_folders_that_cannot_be_written_are_named(run: Run, tmp_path: Path) -> None:
    """Without a traceback."""
    (tmp_path / "file").write_text("")
    done = run("corpus", f"paths.data={tmp_path}/file/data", check=False)
    assert done.returncode == 1
    assert f"{tmp_path}/file" in done.stderr
    assert "paths.data" in done.stderr
    assert "Traceback" not in done.stderr


def test_empty_documents_keep_their_ids(run: Run, tmp_path: Path) -> None:
    """As FiQA has some; numbers are ids, too."""
    rows = [
        {"_id": 1, "title": "", "text": ""},
        {"_id": "b", "text": "The mayor of Arlen is Mx Nelra."},
    ]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = [f"corpus.parser.path={tmp_path}/c.jsonl", "sweep.closed_book_filter=false"]
    done = run("corpus", *words)
    assert "1 documents" in done.stdout + done.stderr
    for retriever in ("bm25", "dense"):
        run("index", *words, f"retriever={retriever}")


@pytest.mark.slow
def test_an_ended_ui_leaves_no_server(tmp_path: Path) -> None:
    """SIGTERM, as a service manager sends it, frees the port as Ctrl-C does."""
    port = find_free_port()
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root}:{root / 'src'}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [
        sys.executable,
        "-m",
        "flows.ui",
        "--port",
        str(port),
        f"tracking.uri=sqlite:///{tmp_path}/mlflow.db",
    ]
    ui = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    assert ui.stdout is not None
    assert "127.0.0.1" in ui.stdout.readline()
    ui.send_signal(signal.SIGTERM)
    assert ui.wait(60) == 128 + signal.SIGTERM
    deadline = time.monotonic() + 20
    while not is_port_free(port) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert is_port_free(port)
