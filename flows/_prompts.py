"""The prompt of a job, with its demonstrations if it is a few-shot one."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from omegaconf import DictConfig

from flows._artifacts import Project
from flows._build import build
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import ranked_contexts
from winnow.strategies.demonstrations import Demonstration, Shots
from winnow.strategies.prompt import Prompt


def open_prompt(project: Project, node: DictConfig) -> Prompt:
    """Return a prompt; demonstrations are drawn from the retriever's rankings of their split."""
    prompt: Prompt = build(node)
    if prompt.shots is None:
        return prompt
    return replace(prompt, demonstrations=_draw(project.questions_file, project.rankings.require(), prompt.shots))


@lru_cache(maxsize=8)
def _draw(questions: Path, retrieval: Path, shots: Shots) -> tuple[Demonstration, ...]:
    """Draw once for all cells of a sweep; the paths identify their content."""
    candidates = shots.candidates(read_questions(questions, [shots.split]))
    rankings = read_rankings(retrieval, candidates)
    return shots.draw((question, ranked_contexts(rankings, question)) for question in candidates)
