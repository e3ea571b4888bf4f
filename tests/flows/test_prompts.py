"""Demonstrations come from the stored rankings of their split."""

from pathlib import Path

import pytest
from conftest import Run

from flows.project.artifacts import Project
from flows.project.prompts import open_prompt
from flows.settings.door import compose
from winnow.testing import make_context, make_question


@pytest.mark.slow
def test_demonstrations_are_drawn_from_the_training_split(
    prepared: Run, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as asked for, the same each time; the prompt of a sweep shows them before the
    question.
    """
    from conftest import overrides

    monkeypatch.chdir(tmp_path)
    words = [*overrides(world), "prompt=re_rag", "prompt.shots.count=2"]
    project = Project(compose(words))
    prompt = open_prompt(project, project.settings.prompt)
    assert prompt == open_prompt(project, project.settings.prompt)
    (message,) = prompt.render(
        make_question("Who is the mayor of Utopia?"), [make_context(1, "Nobody governs.")]
    )
    assert message.content.count("Example ") == 2
    assert (
        message.content.index("Example 2")
        < message.content.index("Nobody governs.")
        < message.content.index("Utopia")
    )
    assert "### " not in message.content
    process = prepared(
        "sweep",
        "prompt=re_rag",
        "prompt.shots.count=1",
        "k=1",
        "sweep.limit=2",
        "sweep.closed_book_filter=false",
    )
    assert "2 calls requested" in process.stdout
