"""Parts of rankings that several processes write."""

import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows.project.artifacts import Project
from flows.settings.door import compose
from flows.stages.hits import hold_parts, list_parts, write_parts, write_rankings
from winnow.errors import ConfigError, InputError
from winnow.records import Hit, Question
from winnow.testing import make_question

QUESTIONS = [make_question(question_id=name) for name in "abc"]


class _Searcher:
    def search(self, questions: list[Question], depth: int) -> list[list[Hit]]:
        return [[Hit("p1", 1.0)][:depth] for _ in questions]


def test_rankings_that_lack_a_question_are_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after another process has finished them, and removed the parts."""
    monkeypatch.chdir(tmp_path)
    project = Project(compose([]))
    artifact = project.resolve_artifact("retrieve", "retrieval", "x", {})
    parts = artifact.folder / "shards"
    assert list(write_parts(parts, "rest", _Searcher(), QUESTIONS[:2], 5)) == [2]
    with pytest.raises(InputError, match="the parts lack 1 of 3 questions, such as 'c'"):
        write_rankings(project, artifact, list_parts(parts), QUESTIONS)
    assert not artifact.is_finished


@pytest.mark.parametrize(
    ("rankings", "message"),
    [([[]], "expected 2 rankings"), ([[Hit(7, 1.0)], []], "must be a text; received 7")],  # type: ignore[arg-type]
)
def test_hits_of_another_form_are_refused(
    rankings: list[list[Hit]], message: str, tmp_path: Path
) -> None:
    """As a retriever of one's own may return them."""
    searcher = SimpleNamespace(search=lambda *_: rankings)
    with pytest.raises(ConfigError, match=message):
        list(write_parts(tmp_path, "rest", searcher, QUESTIONS[:2], 5))


def test_two_processes_that_write_the_same_rankings_wait_for_one_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The second one goes on when the first is done, although its parts are gone."""
    folder, events = tmp_path / "x/shards", list[str]()
    begun, go_on = threading.Event(), threading.Event()

    def write_first() -> None:
        with hold_parts(folder):
            begun.set()
            assert go_on.wait(10)
            events.append("first")
            shutil.rmtree(folder)

    def write_second() -> None:
        with hold_parts(folder):
            events.append("second")

    threads = [threading.Thread(target=target) for target in (write_first, write_second)]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    while "is waited for" not in caplog.text:
        time.sleep(0.01)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert events == ["first", "second"]
