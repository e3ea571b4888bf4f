"""Parts of rankings that several processes write."""

from pathlib import Path

import pytest

from flows.project.artifacts import Project
from flows.settings.door import compose
from flows.stages.hits import list_parts, write_parts, write_rankings
from winnow.errors import InputError
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
