"""The prompt of a job, with its demonstrations where it is a few-shot one."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from winnow.strategies.demonstrations import Demonstration, Shots
from winnow.strategies.prompt import Prompt
from winnow.tables import Rankings, questions_of


def open_prompt(cfg: DictConfig) -> Prompt:
    """Return the prompt; demonstrations are drawn from the retriever's rankings of their split."""
    prompt: Prompt = build(cfg.prompt)
    if prompt.shots is None:
        return prompt
    made = (_artifacts.questions(cfg).need().folder, _artifacts.retrieval(cfg).need().folder)
    return replace(prompt, demonstrations=_drawn(*made, prompt.shots))


@lru_cache(maxsize=8)
def _drawn(questions: Path, retrieval: Path, shots: Shots) -> tuple[Demonstration, ...]:
    """Draw once for all cells of a sweep; the folders are named by what they hold."""
    chosen = shots.candidates(questions_of(questions / "questions.parquet", [shots.split]))
    rankings = Rankings(retrieval, chosen)
    return shots.draw((question, rankings.contexts(question)) for question in chosen)
