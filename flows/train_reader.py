"""Fine-tune the reader on the training split: short answers, and "unknown" where the passage lacks one.

python -m flows.train_reader
torchrun --nproc_per_node=4 -m flows.train_reader reader=folder reader.tuned=true training.settings.lora_rank=16
"""

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from omegaconf import DictConfig

from flows import _models
from flows._artifacts import Artifact, Project
from flows._build import build
from flows._elsewhere import announce
from flows._engines import drive, open_ledger, open_reader
from flows._entry import entry
from flows._prompts import open_prompt
from flows._summary import Summary
from flows._track import silent, track
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import ranked_contexts
from winnow.driver import Job
from winnow.metrics.answer import exact_match
from winnow.metrics.intervals import Interval, mean_interval
from winnow.modeling.loading import check_model
from winnow.protocols import engines_for
from winnow.records import Context, Price, Question
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.training.examples import build_examples

Case = tuple[Question, Context]


def train_reader(configs: Sequence[DictConfig]) -> Summary:
    """Train for each job whose reader is a tuned one, and compare it with its base model.

    It learns from the rankings of the labelling retriever, so that sweeps over retrievers share one reader.
    """
    rows: list[dict[str, Any]] = []
    for cfg in configs:
        project = Project(cfg)
        artifact = _models.trained_reader(project, cfg.reader, cfg.prompt)
        artifact.folder.parent.mkdir(parents=True, exist_ok=True)
        if not cfg.reader.tuned:
            rows.append({"reader": cfg.reader.name, "": "reader.tuned is false: nothing to train"})
        elif artifact.done:
            rows.append({"reader": artifact.folder, "": "finished already"})
        else:
            announce(artifact)
            rows += _train(project, artifact)
    return Summary("Reader on held-out questions, % [95 % interval]", rows)


def _train(project: Project, artifact: Artifact) -> list[dict[str, Any]]:
    from winnow.training.sft import fine_tune

    cfg = project.cfg
    base = str(cfg.reader.base)
    check_model(base)
    prompt = open_prompt(project, cfg.prompt)
    ranked = _ranked_questions(project, cfg.training.split)
    examples = build_examples(ranked, build(cfg.training.mix), prompt.render, cfg.training.seed)
    settings = build(cfg.training.settings)
    if os.environ.get("RANK", "0") != "0":
        fine_tune(base, examples, settings, artifact.folder, silent)
        return []
    params = {"training": dict(cfg.training.settings), "examples": len(examples)}
    with track(project, "train_reader", artifact, params) as run:
        report = fine_tune(base, examples, settings, artifact.folder, run.metrics)
        rows = _evaluate(project, artifact, prompt)
        run.metrics({f"{r['model']}_{name}": v.mean for r in rows for name, v in r.items() if isinstance(v, Interval)})
        run.metrics({f"train_{name}": float(value) for name, value in asdict(report).items()})
    artifact.finish(len(examples))
    speed = f"{report.seconds:.0f} s, {report.tokens_per_second:.0f} tokens/s, {report.peak_memory / 1e9:.1f} GB"
    training = f"{speed}, {report.skipped} pairs too long"
    texts = [{n: v.percent() if isinstance(v, Interval) else v for n, v in row.items()} for row in rows]
    return [{**row, "training": training if row["model"] == "tuned" else ""} for row in texts]


def _ranked_questions(project: Project, split: str) -> list[tuple[Question, tuple[Context, ...]]]:
    questions = read_questions(project.questions_file, [split])
    rankings = read_rankings(project.retrieval(project.cfg.answerable.retriever).require(), questions)
    return [(question, ranked_contexts(rankings, question)) for question in questions]


def _evaluate(project: Project, artifact: Artifact, prompt: Prompt) -> list[dict[str, Any]]:
    """Prompt base and tuned reader with a passage that has the answer and one that lacks it, for held-out questions."""
    settings = project.cfg.training.evaluation
    held_out = [(q, contexts) for q, contexts in _ranked_questions(project, settings.split) if q.answerable]
    chosen = [(q, contexts) for q, contexts in held_out if any(not c.has_answer for c in contexts)][: settings.limit]
    gold = [(q, next(c for c in contexts if c.has_answer)) for q, contexts in chosen]
    lacking = [(q, next(c for c in contexts if not c.has_answer)) for q, contexts in chosen]
    rows = []
    for model, path in (("zero-shot", str(project.cfg.reader.base)), ("tuned", str(artifact.folder))):
        rows.append({"model": model, "questions": len(gold), **_measure(project, path, prompt, gold, lacking)})
    return rows


def _measure(
    project: Project, path: str, prompt: Prompt, gold: Sequence[Case], lacking: Sequence[Case]
) -> dict[str, Interval]:
    cfg, cases = project.cfg, [*gold, *lacking]
    strategy = Concatenation(prompt, build(cfg.decoding))
    jobs = (Job(n, strategy.plan(question, [context])) for n, (question, context) in enumerate(cases))
    engines = engines_for(open_reader(cfg.reader, path, price=Price(), name="evaluated"))
    with open_ledger(cfg) as ledger:
        outcomes = drive(engines, ledger, jobs, len(cases), "evaluating the reader")
        answers = {outcome.tag: outcome.result for outcome in outcomes}
    unknown = [float(answers[n].unknown) for n in range(len(cases))]
    return {
        "em_gold": mean_interval([exact_match(answers[n].text, q.answers) for n, (q, _) in enumerate(gold)]),
        "unk_gold": mean_interval(unknown[: len(gold)]),
        "unk_lacking": mean_interval(unknown[len(gold) :]),
    }


main = entry(train_reader, seeds="each")
if __name__ == "__main__":
    main()
