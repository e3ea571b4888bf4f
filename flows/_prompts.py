"""The prompt of a job, with its demonstrations where it is a few-shot one."""

from dataclasses import replace

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from winnow.strategies.prompt import Prompt
from winnow.tables import Rankings, questions_of


def open_prompt(cfg: DictConfig) -> Prompt:
    """Return the prompt; demonstrations are drawn from the retriever's rankings of their split."""
    prompt: Prompt = build(cfg.prompt)
    if prompt.shots is None:
        return prompt
    known = questions_of(_artifacts.questions(cfg).need().folder / "questions.parquet", [prompt.shots.split])
    chosen = prompt.shots.candidates(known)
    rankings = Rankings(_artifacts.retrieval(cfg).need().folder, chosen)
    return replace(prompt, demonstrations=prompt.shots.draw((q, rankings.contexts(q)) for q in chosen))
