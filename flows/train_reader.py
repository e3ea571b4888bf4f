"""Fine-tune the reader on the training split: short answers, and "unknown" where the passage lacks one.

python -m flows.train_reader
torchrun --nproc_per_node=4 -m flows.train_reader reader=folder reader.tuned=true training.settings.lora_rank=16
"""

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from flows._drive import drive, open_ledger, open_reader
from flows._entry import entry
from flows._prompts import open_prompt
from flows._summary import Summary
from flows._track import silent, track
from winnow.driver import Job
from winnow.metrics.answer import exact_match
from winnow.metrics.intervals import Estimate, mean_interval
from winnow.models import check_model
from winnow.records import Context, Question
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.tables import Rankings, questions_of
from winnow.training.examples import build_examples

Case = tuple[Question, Context]


def train_reader(configs: Sequence[DictConfig]) -> Summary:
    """Train for each job whose reader is a tuned one, and compare it with the model that it came from.

    It learns from the rankings of the labelling retriever, so that sweeps over retrievers share one reader.
    """
    rows: list[dict[str, Any]] = []
    for cfg in configs:
        _artifacts.trained_reader(cfg).folder.parent.mkdir(parents=True, exist_ok=True)
        if not cfg.reader.tuned:
            rows.append({"reader": cfg.reader.name, "": "reader.tuned is false: nothing to train"})
            continue
        made = _artifacts.trained_reader(cfg)
        if made.done:
            rows.append({"reader": made.folder, "": "done already"})
        else:
            rows += _train(cfg, made)
    return Summary("Reader on held-out questions, % [95 % interval]", rows)


def _train(cfg: DictConfig, made: _artifacts.Artifact) -> list[dict[str, Any]]:
    from winnow.training.sft import fine_tune

    check_model(str(cfg.reader.base))
    prompt = open_prompt(cfg)
    examples = build_examples(_ranked(cfg, cfg.training.split), build(cfg.training.mix), prompt.render, cfg.training.seed)
    settings = build(cfg.training.settings)
    if os.environ.get("RANK", "0") != "0":
        fine_tune(str(cfg.reader.base), examples, settings, made.folder, silent)
        return []
    with track(cfg, "train_reader", made, {"training": dict(cfg.training.settings), "examples": len(examples)}) as run:
        report = fine_tune(str(cfg.reader.base), examples, settings, made.folder, run.metrics)
        found = _evaluate(cfg, made, prompt)
        run.metrics({f"{r['model']}_{name}": v.mean for r in found for name, v in r.items() if isinstance(v, Estimate)})
        run.metrics({f"train_{name}": float(value) for name, value in asdict(report).items()})
    made.finish(len(examples))
    speed = f"{report.seconds:.0f} s, {report.tokens_per_second:.0f} tokens/s, {report.peak_memory / 1e9:.1f} GB"
    told = f"{speed}, {report.skipped} pairs too long"
    rows = [{n: v.percent() if isinstance(v, Estimate) else v for n, v in row.items()} for row in found]
    return [{**row, "training": told if row["model"] == "tuned" else ""} for row in rows]


def _ranked(cfg: DictConfig, split: str) -> list[tuple[Question, tuple[Context, ...]]]:
    asked = questions_of(_artifacts.questions(cfg).need().folder / "questions.parquet", [split])
    rankings = Rankings(_artifacts.retrieval(cfg, cfg.answerable.retriever).need().folder, asked)
    return [(question, rankings.contexts(question)) for question in asked]


def _evaluate(cfg: DictConfig, made: _artifacts.Artifact, prompt: Prompt) -> list[dict[str, Any]]:
    """Ask base and tuned reader about a passage with and one without the answer, for held-out answerable questions."""
    held_out = [(q, c) for q, c in _ranked(cfg, cfg.training.evaluation.split) if q.answerable]
    chosen = [(q, c) for q, c in held_out if any(not x.has_answer for x in c)][: cfg.training.evaluation.limit]
    gold = [(q, next(x for x in c if x.has_answer)) for q, c in chosen]
    lacking = [(q, next(x for x in c if not x.has_answer)) for q, c in chosen]
    rows = []
    for model, path in (("zero-shot", str(cfg.reader.base)), ("tuned", str(made.folder))):
        with_gold, without = _ask(cfg, path, prompt, [*gold, *lacking], len(gold))
        rows.append({"model": model, "questions": len(gold), **with_gold, **without})
    return rows


def _ask(
    cfg: DictConfig, path: str, prompt: Prompt, cases: Sequence[Case], gold: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    strategy = Concatenation(prompt, build(cfg.decoding))
    jobs = (Job(n, strategy.plan(question, [context])) for n, (question, context) in enumerate(cases))
    reader = open_reader(cfg, path, "evaluated")
    with open_ledger(cfg) as ledger:
        answers = {o.tag: o.answer for o, _ in drive(reader, ledger, jobs, len(cases), "evaluating the reader")}
    right = [exact_match(answers[n].text, cases[n][0].answers) for n in range(gold)]
    unknown = [float(answers[n].unknown) for n in range(len(cases))]
    return (
        {"em_gold": mean_interval(right), "unk_gold": mean_interval(unknown[:gold])},
        {"unk_lacking": mean_interval(unknown[gold:])},
    )


main = entry(train_reader)
if __name__ == "__main__":
    main()
