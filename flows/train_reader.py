"""Fine-tune the reader on the training split to give short answers, and "unknown" if the passage contains none.

python -m flows.train_reader
torchrun --nproc_per_node=4 -m flows.train_reader reader=folder reader.tuned=true training.settings.lora_rank=16
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from omegaconf import DictConfig

from flows import _models
from flows._artifacts import Artifact, Project
from flows._build import build
from flows._elsewhere import print_equivalent
from flows._engines import EVALUATED, iter_outcomes, open_ledger, open_reader
from flows._entry import make_main
from flows._prompts import open_prompt
from flows._summary import Summary
from flows._track import discard_metrics, track
from winnow.artifacts.files import remove_leftovers
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import build_ranked_contexts
from winnow.driver import Job
from winnow.metrics.answer import exact_match
from winnow.metrics.intervals import Interval, compute_mean_interval
from winnow.modeling.loading import check_model
from winnow.prices import Price
from winnow.protocols import Engines, build_engine_map
from winnow.records import Answer, Context, Question
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.training.examples import ExampleMix

Case = tuple[Question, Context]
"""A question with the passage that the prompt shows."""


def train_reader(configs: Sequence[DictConfig]) -> Summary:
    """Fine-tune the reader of each job with reader.tuned=true, and compare it with its base model.

    The training passages come from the retriever that labels questions, so that sweeps over retrievers share one reader.
    """
    rows: list[dict[str, Any]] = []
    folders = []
    for cfg in configs:
        project = Project(cfg)
        artifact = _models.resolve_trained_reader(project, cfg.reader, cfg.prompt)
        artifact.folder.parent.mkdir(parents=True, exist_ok=True)
        if not cfg.reader.tuned:
            rows.append({"reader": cfg.reader.name, "": "reader.tuned is false: nothing to train"})
        elif artifact.is_finished:
            remove_leftovers(artifact.folder)
            rows.append({"reader": artifact.folder, "": "finished already"})
        else:
            _models.check_training_split(cfg, cfg.reader)
            print_equivalent(artifact)
            rows += _train(project, artifact)
        folders += [artifact.folder] if cfg.reader.tuned else []
    return Summary("Reader on held-out questions, % [95 % interval]", rows, artifacts=folders)


def _train(project: Project, artifact: Artifact) -> list[dict[str, Any]]:
    """Train a reader and return its rows of the summary. Under torchrun only the first process evaluates and logs."""
    from winnow.training.sft import fine_tune

    cfg = project.cfg
    base = str(cfg.reader.base)
    check_model(base)
    prompt = open_prompt(project, cfg.prompt)
    ranked = _load_ranked_questions(project, cfg.training.split)
    mix: ExampleMix = build(cfg.training.mix)
    examples = mix.build_examples(ranked, prompt, cfg.training.seed)
    settings = build(cfg.training.settings)
    if os.environ.get("RANK", "0") != "0":
        fine_tune(base, examples, settings, artifact.folder, discard_metrics, mix.new_tokens)
        return []
    params = {"training": dict(cfg.training.settings), "examples": len(examples)}
    with track(project, "train_reader", artifact, params) as run:
        report = fine_tune(base, examples, settings, artifact.folder, run.log_metrics, mix.new_tokens)
        rows = _evaluate(project, artifact, prompt)
        run.log_metrics(
            {
                f"{row['model']}_{name}": value.mean
                for row in rows
                for name, value in row.items()
                if isinstance(value, Interval)
            }
        )
        run.log_metrics({f"train_{name}": float(value) for name, value in asdict(report).items()})
    artifact.finish(len(examples))
    speed = f"{report.seconds:.0f} s, {report.tokens_per_second:.0f} tokens/s, {report.peak_memory / 1e9:.1f} GB"
    training = f"{speed}, {report.skipped} pairs too long"
    return [{**_format_intervals(row), "training": training if row["model"] == "tuned" else ""} for row in rows]


def _format_intervals(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.format_percent() if isinstance(value, Interval) else value for name, value in row.items()}


def _load_ranked_questions(project: Project, split: str) -> list[tuple[Question, tuple[Context, ...]]]:
    """Load the questions of a split, each with its contexts as ranked by the labelling retriever."""
    questions = read_questions(project.questions_file, [split])
    rankings = read_rankings(project.resolve_retrieval(project.cfg.answerable.retriever).require(), questions)
    return [(question, build_ranked_contexts(rankings, question)) for question in questions]


def _evaluate(project: Project, artifact: Artifact, prompt: Prompt) -> list[dict[str, Any]]:
    """Evaluate the base and the tuned reader on held-out questions, with and without a passage that has the answer."""
    settings = project.cfg.training.evaluation
    held_out = [
        (question, contexts)
        for question, contexts in _load_ranked_questions(project, settings.split)
        if question.answerable and any(not context.has_answer for context in contexts)
    ][: settings.limit]
    with_answer = [(question, next(c for c in contexts if c.has_answer)) for question, contexts in held_out]
    without_answer = [(question, next(c for c in contexts if not c.has_answer)) for question, contexts in held_out]
    rows = []
    for model, path in (("zero-shot", str(project.cfg.reader.base)), ("tuned", str(artifact.folder))):
        rows.append(
            {
                "model": model,
                "questions": len(with_answer),
                **_evaluate_model(project, path, prompt, with_answer, without_answer),
            }
        )
    return rows


def _evaluate_model(
    project: Project, path: str, prompt: Prompt, with_answer: Sequence[Case], without_answer: Sequence[Case]
) -> dict[str, Interval]:
    """Compute the exact match and the rate of "unknown" of a model on passages with and without the answer."""
    cfg, cases = project.cfg, [*with_answer, *without_answer]
    strategy = Concatenation(prompt, build(cfg.decoding))

    def open_all() -> Engines:
        return build_engine_map(open_reader(cfg.reader, path, price=Price(), name=EVALUATED))

    def iter_jobs() -> Iterator[Job[Answer]]:
        return (Job(n, strategy.plan(question, [context])) for n, (question, context) in enumerate(cases))

    with open_ledger(cfg) as ledger:
        outcomes = iter_outcomes(open_all, ledger, iter_jobs, len(cases), "evaluating the reader")
        answers = {outcome.tag: outcome.result for outcome in outcomes}
    unknown = [float(answers[n].unknown) for n in range(len(cases))]
    return {
        "em_gold": compute_mean_interval(
            [exact_match(answers[n].text, question.answers) for n, (question, _) in enumerate(with_answer)]
        ),
        "unk_gold": compute_mean_interval(unknown[: len(with_answer)]),
        "unk_lacking": compute_mean_interval(unknown[len(with_answer) :]),
    }


main = make_main(train_reader, seeds="each")
if __name__ == "__main__":
    main()
