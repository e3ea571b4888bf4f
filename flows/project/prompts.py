"""Builds the prompt of a configuration, with demonstrations if it is a few-shot prompt."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from flows.project.artifacts import Project
from flows.settings.components import Component
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import build_ranked_contexts
from winnow.strategies.demonstrations import Demonstration, Shots
from winnow.strategies.prompt import Prompt


def open_prompt(project: Project, node: Component[Prompt]) -> Prompt:
    """Build a prompt with demonstrations drawn from a split's questions and retrieved passages."""
    return build_prompt(node, lambda: (project.questions_file, project.rankings.require()))


def build_prompt(
    node: Component[Prompt], find_artifacts: Callable[[], tuple[Path, Path]]
) -> Prompt:
    """Build a prompt.

    Args:
        node: Settings of the prompt.
        find_artifacts: Function that returns the file of the questions and the folder of the
            rankings of demonstrations; it is called for a prompt with demonstrations alone.
    """
    prompt = node.build()
    if prompt.shots is None:
        return prompt
    return replace(prompt, demonstrations=_draw_demonstrations(*find_artifacts(), prompt.shots))


@lru_cache(maxsize=8)
def _draw_demonstrations(
    questions: Path, retrieval: Path, shots: Shots
) -> tuple[Demonstration, ...]:
    """Draw demonstrations once for all cells; artifacts with other content have other paths."""
    candidates = shots.draw_candidates(read_questions(questions, [shots.split]))
    rankings = read_rankings(retrieval, candidates)
    return shots.build_demonstrations(
        (question, build_ranked_contexts(rankings, question)) for question in candidates
    )
