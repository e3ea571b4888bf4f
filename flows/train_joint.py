"""Train a relevance estimator and a generator together (RE-RAG), or a generator alone (RAG,
fusion-in-decoder).

RE-RAG uses no relevance labels: the estimator learns from the generator's likelihood of the answer
given each context. The evaluator of CRAG (joint=crag_evaluator) is an estimator that learns from
labels.

    # A frozen teacher (conf/joint/frozen.yaml)
    python -m flows.train_joint estimator=cross_encoder
    # Labels: passages with and without the answer
    python -m flows.train_joint estimator=cross_encoder joint=crag_evaluator
    # Both are trained
    python -m flows.train_joint joint=re_rag estimator=t5
    torchrun --nproc_per_node=4 -m flows.train_joint joint=re_rag estimator=t5
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.checks import check_ahead
from flows.project.elsewhere import print_equivalent
from flows.project.engines import resolve_reader_spec
from flows.project.models import is_trained, list_readers, list_teachers, resolve_joint_models
from flows.project.prompts import open_prompt
from flows.project.runs import collect_results
from flows.project.shards import divide_limits
from flows.settings.trainings import Joint, JointTeacher
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.shard_calls import run_shard, use_finished_shards
from flows.stages.tracking import discard_metrics, track
from flows.tools.summary import Summary, format_training_speed, progress
from winnow.artifacts.files import remove_leftovers
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import build_ranked_contexts
from winnow.driver.jobs import Job
from winnow.errors import ConfigError
from winnow.strategies.teaching import Teacher
from winnow.sweeps.shards import Shard
from winnow.targets import require_targets

_log = logging.getLogger(__name__)


def train_joint(jobs: Sequence[Settings]) -> Summary:
    """Train each job's models, and show the best epoch's metrics on the development questions."""
    use_finished_shards(
        jobs[0], "train_joint", [_resolve_taught(Project(settings)) for settings in jobs]
    )
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    folders = []
    for settings, training in [
        (whole, training) for whole in jobs for training in _list_trainings(whole)
    ]:
        project = _select_training(settings, training)
        artifact = resolve_joint_models(project)
        folders.append(artifact.folder)
        if artifact.is_finished:
            remove_leftovers(artifact.folder)
            notes.append(f"{artifact.folder} is already trained; training was skipped.")
        else:
            check_ahead([settings])
            print_equivalent(artifact)
            _train(project, artifact)
        questions = training.data.dev_questions or "all"
        rows.append(
            {"trained": artifact.folder, "dev questions": questions, **_build_row(artifact)}
        )
    return Summary(
        "Joint training, development questions of the best epoch", rows, "\n".join(notes), folders
    )


def _run_shard(jobs: Sequence[Settings], shard: Shard) -> Summary:
    """Make the teacher's calls for the shard's questions, and train nothing.

    Raises:
        ConfigError: If the training has no teacher.
    """
    divided = divide_limits(jobs, shard)
    taught = [_find_taught(settings) for settings in divided]
    teachers = [training.teacher for training in taught if training.teacher is not None]
    if len(teachers) < len(taught):
        raise ConfigError(
            f"shard={shard.number}/{shard.count}: joint={taught[0].name} has no teacher whose "
            "calls shards could make. Remove `shard`; torchrun trains on several GPUs."
        )
    projects = [
        _select_training(settings, training)
        for settings, training in zip(divided, taught, strict=True)
    ]

    def make_calls() -> str:
        count = 0
        for project, teacher in zip(projects, teachers, strict=True):
            groups = [
                [group for group in part if shard.contains(group.question.question_id)]
                for part in _load_data(project)
            ]
            _add_teacher_outputs(project, teacher, *groups)
            count += sum(map(len, groups))
        return f"The teacher was asked about {count} questions."

    keys = [resolve_joint_models(project).key for project in projects]
    return run_shard(jobs[0], shard, "train_joint", keys, make_calls)


def _train(project: Project, artifact: Artifact) -> None:
    """Train the models of a joint training. Under torchrun, only the first process logs metrics."""
    from winnow.training.loop import fit
    from winnow.training.progress import count_optimizer_steps

    settings = project.settings
    train, dev = _load_data(project)
    if settings.joint.teacher is not None:
        train, dev = _add_teacher_outputs(project, settings.joint.teacher, train, dev)
    loop = settings.joint.settings.build()
    method = settings.joint.method.build(**_build_models(settings))
    if os.environ.get("RANK", "0") != "0":
        fit(method, train, dev, loop, artifact.folder, discard_metrics)
        return
    params = {"joint": settings.joint.plain, "questions": len(train)}
    with track(project, "train_joint", artifact, params) as run:
        with progress(
            "training", count_optimizer_steps(len(train), loop, method.updates)
        ) as advance:
            report = fit(method, train, dev, loop, artifact.folder, run.log_metrics, advance)
        run.log_metrics(
            {
                "seconds": report.seconds,
                "tokens_per_second": report.tokens_per_second,
                "peak_memory_gb": report.peak_memory / 1e9,
                "best_epoch": float(report.best_epoch),
                "truncated_pairs": float(report.truncated),
                "truncated_answers": float(report.truncated_answers),
            }
        )
    artifact.finish(len(train))


def _build_models(settings: Settings) -> dict[str, Any]:
    """Build the trainable models in float32, as mixed precision needs float32 master weights."""
    models: dict[str, Any] = {}
    device = settings.joint.settings.build().device
    if "estimator" in settings.joint.trainable:
        engine = {
            "path": str(settings.estimator.base),
            "dtype": "float32",
            "device": device,
            "runtime": "torch",
        }
        models["estimator"] = settings.estimator.engine.build(**engine)
    if "generator" in settings.joint.trainable:
        models["generator"] = settings.joint.generator.build(dtype="float32", device=device)
    return models


def _load_data(project: Project) -> tuple[list[Any], list[Any]]:
    """Load the groups of training and of development questions."""
    data = project.settings.joint.data
    train = _load_groups(project, data.split, data.questions, data.contexts)
    dev = _load_groups(project, data.dev, data.dev_questions, data.dev_contexts)
    if not data.pairs:
        return train, dev
    pairs = data.pairs.build()
    return pairs.select(train), pairs.select(dev)


def _load_groups(
    project: Project, split: str, max_questions: int | None, max_contexts: int | None
) -> list[Any]:
    """Load the first questions of a split with their first retrieved contexts; None means all."""
    from winnow.training.groups import Group

    questions = read_questions(project.questions_file, [split])[:max_questions]
    rankings = read_rankings(project.rankings.require(), questions)
    groups = []
    for question in questions:
        if not project.settings.joint.data.pairs:  # which learn from labels
            require_targets(question)
        contexts = [
            context for context in build_ranked_contexts(rankings, question) if context.rank
        ]
        if contexts:
            groups.append(Group(question, tuple(contexts[:max_contexts])))
    if len(groups) < len(questions):
        _log.warning(
            "%d of %d questions of split %s have no retrieved context. They are left out.",
            len(questions) - len(groups),
            len(questions),
            split,
        )
    return groups


def _add_teacher_outputs(
    project: Project, taught_by: JointTeacher, train: Sequence[Any], dev: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Add the teacher's answer likelihoods to the training groups and its replies to dev groups.

    Its calls are stored in the ledger, so that trainings with another estimator, objective or seed
    reuse them.
    """
    teacher = Teacher(open_prompt(project, taught_by.prompt), taught_by.decoding.build())

    def jobs() -> Iterator[Job[Any]]:
        for n, group in enumerate(train):
            yield Job(("train", n), teacher.request_likelihoods(group.question, group.contexts))
        for n, group in enumerate(dev):
            yield Job(("dev", n), teacher.request_scored_replies(group.question, group.contexts))

    specs = [resolve_reader_spec(project, taught_by.reader, taught_by.prompt)]
    results = collect_results(
        project.settings, specs, jobs(), len(train) + len(dev), "querying the frozen generator"
    )
    return (
        [replace(group, answer_log_probs=results["train", n]) for n, group in enumerate(train)],
        [replace(group, replies=results["dev", n]) for n, group in enumerate(dev)],
    )


def _build_row(artifact: Artifact) -> dict[str, Any]:
    """Return the best epoch, its metrics and the speed of a finished training."""
    report = json.loads((artifact.folder / "training.json").read_text())
    best: dict[str, float] = next(
        (row for row in report["history"] if row["epoch"] == report["best_epoch"]), {}
    )
    metrics = {
        name: f"{value:.3f}" if name == "squared_error" else f"{100 * value:.1f} %"
        for name, value in best.items()
        if name != "epoch"
    }
    counts = (
        (report.get(name, 0), what)
        for name, what in (("truncated", "pairs"), ("truncated_answers", "answers"))
    )
    truncation = "".join(
        f", {count} {what} truncated to the maximum length" for count, what in counts if count
    )
    speed = format_training_speed(
        report["seconds"], report["tokens_per_second"], report["peak_memory"]
    )
    return {
        "best epoch": f"{report['best_epoch']} of {len(report['history'])}",
        **metrics,
        "training": speed + truncation,
    }


def _list_trainings(settings: Settings) -> list[Joint]:
    """Return the trainings of the estimator and the generator, or `joint` if neither is trained."""
    trainings = [settings.joint] if settings.estimator.trained else []
    if settings.generator and any(reader.joint for reader in list_readers(settings)):
        trainings.append(settings.generator)
    return trainings or [settings.joint]


def _select_training(settings: Settings, training: Joint) -> Project:
    """Return the project whose `joint` is this training."""
    return Project(settings.replace(joint=training, generator=None))


def _find_taught(settings: Settings) -> Joint:
    """Return the first training with a teacher (whose calls shards make), or else the first one."""
    trainings = _list_trainings(settings)
    return next((training for training in trainings if training.teacher is not None), trainings[0])


def _resolve_taught(project: Project) -> Artifact:
    """Return the artifact of the training with a teacher, or of the first one."""
    return resolve_joint_models(project, _find_taught(project.settings))


def _resolve(project: Project) -> Iterator[Artifact]:
    """Yield the artifact of each training that `_list_trainings` returns."""
    yield from (
        resolve_joint_models(project, training) for training in _list_trainings(project.settings)
    )


def _list_needs(settings: Settings) -> list[str]:
    """Return the stages that a training needs, also the training of a teacher fine-tuned here."""
    is_taught = any(is_trained(settings, teacher.reader) for teacher in list_teachers(settings))
    return ["acquire", "retrieve", *(["train_reader"] if is_taught else [])]


STAGE = Stage(
    train_joint,
    version=2,
    resolve=_resolve,
    makes=_resolve_taught,
    reads=("acquire", "retrieve", "train_reader"),
    needs=_list_needs,
    settings=("seeds", "joint", "generator", "estimator", "reader", "prompt", "decoding"),
    run_shard=_run_shard,
    shards="calls",
    seeds="each",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
