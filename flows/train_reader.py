r"""Train the reader on the training split: on replies that follow from labels or that a teacher
wrote, or on rewards.

A training that starts with the reader of another one (`training.start`) runs that one first.

    python -m flows.train_reader
    python -m flows.train_reader training=cite_sft_rewarded prompt=rage_short
    torchrun --nproc_per_node=4 -m flows.train_reader reader=folder reader.tuned=true \
        training.settings.lora_rank=16
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from flows.project.artifacts import Artifact, Project
from flows.project.checks import check_ahead
from flows.project.elsewhere import print_equivalent
from flows.project.engines import EVALUATED, open_engines, open_reader, resolve_reader_spec
from flows.project.ledger import open_ledger
from flows.project.models import (
    check_training_split,
    find_weights,
    is_trained,
    list_readers,
    list_trainings,
    resolve_trained_reader,
)
from flows.project.prompts import open_prompt
from flows.project.runs import iter_outcomes
from flows.settings.components import Component, check_component
from flows.settings.trainings import Teacher, Training
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.tracking import discard_metrics, track
from flows.tools.summary import Summary, format_intervals, format_training_speed, progress
from winnow.artifacts.files import remove_leftovers
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import build_ranked_contexts
from winnow.driver.jobs import Job
from winnow.metrics.intervals import Interval
from winnow.modeling.loading import check_model, load_text_interface
from winnow.predictions import Price
from winnow.protocols import build_engine_map
from winnow.records import Answer, Context, Question
from winnow.strategies.prompt import Prompt
from winnow.training.citing import CitationPrompts, SyntheticCitations, list_citable
from winnow.training.evaluation import evaluate_answers, evaluate_citations
from winnow.training.examples import ExampleMix
from winnow.training.settings import LoopSettings, SftSettings

T = TypeVar("T")

Log = Callable[[Mapping[str, float], int], None]
"""Function that records metrics, by name, at an optimizer step."""

_log = logging.getLogger(__name__)


def train_reader(jobs: Sequence[Settings]) -> Summary:
    """Train the reader of each job with reader.tuned=true, and compare it with its base model.

    The training passages come from the retriever `training.retriever`, by default the one that
    labels questions, so that sweeps over retrievers share one reader.
    """
    rows: list[dict[str, Any]] = []
    folders = []
    weights: dict[str, str] = {}
    for settings in jobs:
        project = Project(settings)
        if not is_trained(settings, settings.reader):
            rows.append(
                {
                    "reader": settings.reader.name,
                    "": "reader.tuned is false or training=none: nothing to train",
                }
            )
            continue
        for training in list_trainings(settings):
            if training.start is not None:
                _wait_for_first_rank(
                    resolve_trained_reader(
                        project, settings.reader, settings.prompt, training.start
                    )
                )
            artifact = resolve_trained_reader(project, settings.reader, settings.prompt, training)
            artifact.folder.parent.mkdir(parents=True, exist_ok=True)
            folders.append(artifact.folder)
            weights[find_weights(artifact.folder, training)] = training.name
            if artifact.is_finished:
                remove_leftovers(artifact.folder)
                rows.append({"reader": artifact.folder, "": "finished already"})
            else:
                check_training_split(settings, settings.reader)
                check_ahead([settings])
                print_equivalent(artifact)
                rows += _train(project, artifact, training)
    note = "\n".join(f"Weights of training={name}: {path}" for path, name in weights.items())
    return Summary("Reader on held-out questions, % [95 % interval]", rows, note, folders)


def _wait_for_first_rank(artifact: Artifact) -> None:
    """Wait on the other ranks of torchrun until rank 0 has finished what a training starts with.

    Rank 0 evaluates first. Its file says so without a collective call, whose time is limited.
    """
    while os.environ.get("RANK", "0") != "0" and not artifact.is_finished:
        time.sleep(1)


def _train(project: Project, artifact: Artifact, training: Training) -> list[dict[str, Any]]:
    """Train a reader and return its summary rows. Only rank 0 of torchrun evaluates and logs."""
    settings = project.settings
    base = str(settings.reader.base)
    check_model(base)
    if training.start is not None:
        start = resolve_trained_reader(project, settings.reader, settings.prompt, training.start)
        base = find_weights(start.require(), training.start)
    prompt = open_prompt(project, settings.reader.trained_on or settings.prompt)
    train = _train_on_rewards if training.method else _train_on_replies
    if os.environ.get("RANK", "0") != "0":
        train(project, training, prompt, base, artifact.folder, discard_metrics)
        return []
    logged = {
        name: training.plain[name]
        for name in ("mix", "settings", "method")
        if name in training.plain
    }
    with track(project, "train_reader", artifact, {"training": logged}) as run:
        num_examples, report = train(
            project, training, prompt, base, artifact.folder, run.log_metrics
        )
        rows = _evaluate(project, training, base, find_weights(artifact.folder, training), prompt)
        run.log_metrics(
            {
                f"{row['model']}_{name}": value.mean
                for row in rows
                for name, value in row.items()
                if isinstance(value, Interval)
            }
        )
        run.log_metrics({name: value for name, value in report.items() if isinstance(value, float)})
    artifact.finish(num_examples)
    return [
        {**format_intervals(row), "training": report["text"] if row["model"] == "tuned" else ""}
        for row in rows
    ]


def _train_on_replies(
    project: Project, training: Training, prompt: Prompt, base: str, out: Path, log: Log
) -> tuple[int, dict[str, Any]]:
    """Fine-tune on replies; return the number of examples and the report."""
    from winnow.training.sft import fine_tune

    settings = _build(training, "settings", SftSettings)
    kind: type[Any] = ExampleMix if training.teacher is None else SyntheticCitations
    mix = _build(training, "mix", kind)
    ranked_questions = _load_ranked_questions(project, training, training.split)
    if training.teacher is not None:
        mix = replace(
            mix,
            replies=_ask_teacher(
                project, training, training.teacher, mix, ranked_questions, prompt
            ),
        )
    examples = mix.build_examples(ranked_questions, prompt, training.seed)
    report = fine_tune(base, examples, settings, out, log, mix.new_tokens)
    speed = format_training_speed(report.seconds, report.tokens_per_second, report.peak_memory)
    values = {f"train_{name}": float(value) for name, value in asdict(report).items()}
    citable = (
        list_citable(ranked_questions, mix.max_words) if isinstance(mix, CitationPrompts) else None
    )
    number = _format_number(len(examples), "examples", citable)
    return len(examples), {**values, "text": f"{number}, {speed}, {report.skipped} pairs too long"}


def _build(training: Training, name: str, kind: type[T]) -> T:
    """Build a component that must be of one kind; raise ConfigError if it is of another."""
    component: Component[T] = getattr(training, name)
    check_component(f"training.{name}", component, kind)
    return component.build()


def _format_number(number: int, unit: str, citable: Sequence[Any] | None) -> str:
    """Format the number of examples or prompts and, for citations, of the citable questions."""
    return f"{number} {unit}" + (
        "" if citable is None else f" of {len(citable)} questions with a relevant document"
    )


def _ask_teacher(
    project: Project,
    training: Training,
    teacher: Teacher,
    mix: CitationPrompts,
    ranked: Sequence[tuple[Question, Sequence[Context]]],
    prompt: Prompt,
) -> dict[str, str]:
    """Return the teacher's replies to a mix by question id. Its calls are stored in the ledger."""
    questions = mix.select_questions(ranked, training.seed)
    strategy = mix.build_strategy(prompt, teacher.decoding.build())

    def iter_jobs() -> Iterator[Job[Answer]]:
        return (
            Job(question.question_id, strategy.plan(question, contexts))
            for question, contexts in questions
        )

    specs = [resolve_reader_spec(project, teacher.reader, project.settings.prompt)]
    with open_ledger(project.settings) as ledger:
        outcomes = iter_outcomes(
            open_engines(specs), ledger, iter_jobs(), len(questions), "asking the teacher"
        )
        replies = {
            str(outcome.tag): outcome.result.reply
            for outcome in outcomes
            if not any(step.finish.startswith("length") for step in outcome.steps)
        }
    if num_cut := len(questions) - len(replies):
        _log.warning(
            "%d of %d replies of the teacher were cut at training.teacher.decoding.max_new_tokens. "
            "They are left out.",
            num_cut,
            len(questions),
        )
    return replies


def _train_on_rewards(
    project: Project, training: Training, prompt: Prompt, base: str, out: Path, log: Log
) -> tuple[int, dict[str, Any]]:
    """Train by reinforcement learning; return the number of prompts and the report."""
    from winnow.training.loop import fit
    from winnow.training.progress import count_optimizer_steps
    from winnow.training.rollouts import RewardedTask, select_fitting
    from winnow.training.trl_methods import TrlMethod

    settings = _build(training, "settings", LoopSettings)
    mix = _build(training, "mix", CitationPrompts)
    decoding = training.decoding.build()
    metrics = [node.build() for node in training.metrics]
    task = RewardedTask(mix.build_strategy(prompt, decoding), training.reward.build(), metrics)
    method = training.method.build(
        base=base, task=task, decoding=decoding, device=str(settings.device)
    )
    is_trl, text = isinstance(method, TrlMethod), load_text_interface(base)

    def select(mix: CitationPrompts, questions: Sequence[Any]) -> list[Any]:
        groups = _build_groups(questions, mix, training.seed, task)
        return select_fitting(groups, task, text, decoding.max_new_tokens, as_text=is_trl)

    ranked_questions = _load_ranked_questions(project, training, training.split)
    train = select(mix, ranked_questions)
    if isinstance(method, TrlMethod):
        report = method.fit(train, settings, out, log)
    else:
        held_out = _load_ranked_questions(project, training, training.evaluation.split)
        dev = select(replace(mix, examples=len(held_out)), held_out)[: training.evaluation.limit]
        with progress(
            "training", count_optimizer_steps(len(train), settings, method.updates)
        ) as advance:
            report = fit(method, train, dev, settings, out, log, advance)
    speed = format_training_speed(report.seconds, report.tokens_per_second, report.peak_memory)
    values = {
        f"train_{name}": float(getattr(report, name))
        for name in ("steps", "seconds", "tokens_per_second", "peak_memory")
    }
    number = _format_number(len(train), "prompts", list_citable(ranked_questions, mix.max_words))
    return len(train), {**values, "text": f"{number}, {report.steps} steps, {speed}"}


def _build_groups(
    ranked: Sequence[tuple[Question, Sequence[Context]]], mix: CitationPrompts, seed: int, task: Any
) -> list[Any]:
    """Build the prompts of a mix as groups, without those whose replies have no defined reward."""
    from winnow.training.groups import Group

    questions = mix.select_questions(ranked, seed)
    return [
        group
        for group in (Group(question, tuple(contexts)) for question, contexts in questions)
        if task.has_reward(group)
    ]


def _load_ranked_questions(
    project: Project, training: Training, split: str
) -> list[tuple[Question, tuple[Context, ...]]]:
    """Load a split's questions, each with its contexts as ranked by the training's retriever."""
    questions = read_questions(project.questions_file, [split])
    rankings = read_rankings(project.resolve_retrieval(training.retriever).require(), questions)
    return [(question, build_ranked_contexts(rankings, question)) for question in questions]


def _evaluate(
    project: Project, training: Training, base: str, trained: str, prompt: Prompt
) -> list[dict[str, Any]]:
    """Evaluate a reader before and after its training on held-out questions."""
    ranked_questions = _load_ranked_questions(project, training, training.evaluation.split)
    mix, decoding = training.mix.build(), project.settings.decoding.build()
    limit = training.evaluation.limit
    strategy, cases, compute_metrics = (
        evaluate_citations(ranked_questions, mix, prompt, decoding, limit)
        if isinstance(mix, CitationPrompts)
        else evaluate_answers(ranked_questions, prompt, decoding, limit)
    )
    rows = []
    for model, path in (("base", base), ("tuned", trained)):
        reader = open_reader(project.settings.reader, path, price=Price(), name=EVALUATED)
        jobs = (
            Job(n, strategy.plan(question, contexts))
            for n, (question, contexts) in enumerate(cases)
        )
        with open_ledger(project.settings) as ledger:
            outcomes = iter_outcomes(
                build_engine_map(reader), ledger, jobs, len(cases), "evaluating the reader"
            )
            by_number = {outcome.tag: outcome for outcome in outcomes}
        rows.append({"model": model, **compute_metrics([by_number[n] for n in range(len(cases))])})
    return rows


def _resolve(project: Project) -> Iterator[Artifact]:
    """Yield the fine-tuned readers of all roles, the configured one first, each before those with
    which its training began.

    If no role has one, they are those of the configured reader, which the settings could have.
    """
    settings = project.settings
    readers = [
        reader
        for reader in list_readers(settings)
        if is_trained(settings, reader) and not reader.joint
    ]
    for reader in readers or ([settings.reader] if settings.training.mix else []):
        for training in reversed(list_trainings(settings)):
            yield resolve_trained_reader(project, reader, settings.prompt, training)


STAGE = Stage(
    train_reader,
    version=1,
    resolve=_resolve,
    reads=("acquire", "retrieve"),
    settings=("seeds", "reader", "prompt", "decoding", "training", "method"),
    seeds="each",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
