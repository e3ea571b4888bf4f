"""Train a relevance estimator and a generator together (RE-RAG), or a generator alone (RAG, fusion-in-decoder).

No relevance label is read: the estimator is trained on the generator's likelihood of the answer given each context.

    python -m flows.train_joint estimator=cross_encoder                       # a frozen teacher (conf/joint/frozen.yaml)
    python -m flows.train_joint joint=re_rag estimator=t5                     # both learn
    torchrun --nproc_per_node=4 -m flows.train_joint joint=re_rag estimator=t5
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows import _models
from flows._artifacts import Artifact, Project
from flows._build import build
from flows._elsewhere import announce
from flows._engines import drive, open_engines, open_ledger, reader_spec
from flows._entry import entry
from flows._prompts import open_prompt
from flows._summary import Summary, progress
from flows._track import silent, track
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import ranked_contexts
from winnow.driver import Job
from winnow.strategies.teaching import Teacher


def train_joint(configs: Sequence[DictConfig]) -> Summary:
    """Train for each job, and report the best epoch on the development questions."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for cfg in configs:
        project = Project(cfg)
        artifact = _models.joint(project)
        if artifact.done:
            notes.append(f"{artifact.folder} is already trained; skipped.")
        else:
            announce(artifact)
            _train(project, artifact)
        questions = cfg.joint.data.dev_questions or "all"
        rows.append({"trained": artifact.folder, "dev questions": questions, **_report_row(artifact)})
    return Summary("Joint training, development questions of the best epoch", rows, "\n".join(notes))


def _train(project: Project, artifact: Artifact) -> None:
    from winnow.training.loop import fit, total_steps

    cfg = project.cfg
    data = cfg.joint.data
    train = _groups(project, data.split, data.questions, data.contexts)
    dev = _groups(project, data.dev, data.dev_questions, data.dev_contexts)
    if cfg.joint.teacher is not None:
        train, dev = _add_teacher_outputs(project, train, dev)
    settings = build(cfg.joint.settings)
    method = build(cfg.joint.method, **_models_to_train(cfg))
    if os.environ.get("RANK", "0") != "0":
        fit(method, train, dev, settings, artifact.folder, silent)
        return
    params = {"joint": OmegaConf.to_container(cfg.joint, resolve=True), "questions": len(train)}
    with track(project, "train_joint", artifact, params) as run:
        with progress("training", total_steps(len(train), settings, method.updates)) as advance:
            report = fit(method, train, dev, settings, artifact.folder, run.metrics, advance)
        run.metrics(
            {
                "seconds": report.seconds,
                "tokens_per_second": report.tokens_per_second,
                "peak_memory_gb": report.peak_memory / 1e9,
                "best_epoch": float(report.best_epoch),
                "truncated_pairs": float(report.truncated),
            }
        )
    artifact.finish(len(train))


def _models_to_train(cfg: DictConfig) -> dict[str, Any]:
    """Build what the method trains; load in float32: mixed precision needs float32 master weights."""
    models: dict[str, Any] = {}
    device = cfg.joint.settings.device
    if "estimator" in cfg.joint.trainable:
        engine = {"path": str(cfg.estimator.base), "dtype": "float32", "device": device, "runtime": "torch"}
        models["estimator"] = build(cfg.estimator.engine, **engine)
    if cfg.joint.teacher is None:
        models["generator"] = build(cfg.joint.generator, dtype="float32", device=device)
    return models


def _groups(project: Project, split: str, limit: int | None, contexts: int) -> list[Any]:
    from winnow.training.groups import Group

    questions = read_questions(project.questions_file, [split])[:limit]
    rankings = read_rankings(project.rankings.require(), questions)
    return [Group(q, tuple(c for c in ranked_contexts(rankings, q) if c.rank)[:contexts]) for q in questions]


def _add_teacher_outputs(project: Project, train: Sequence[Any], dev: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the groups with the teacher's likelihoods of the training answers, and its own answers for development.

    Both go through the ledger: another estimator, objective or seed reuses them.
    """
    teacher = project.cfg.joint.teacher
    plans = Teacher(open_prompt(project, teacher.prompt), build(teacher.decoding))

    def jobs() -> Iterator[Job[Any]]:
        for n, group in enumerate(train):
            yield Job(("train", n), plans.likelihoods(group.question, group.contexts))
        for n, group in enumerate(dev):
            yield Job(("dev", n), plans.replies(group.question, group.contexts))

    engines = open_engines([reader_spec(project, teacher.reader, teacher.prompt)])
    with open_ledger(project.cfg) as ledger:
        outcomes = drive(engines, ledger, jobs(), len(train) + len(dev), "querying the frozen generator")
        results = {outcome.tag: outcome.result for outcome in outcomes}
    return (
        [replace(group, answer_log_probs=results["train", n]) for n, group in enumerate(train)],
        [replace(group, replies=results["dev", n]) for n, group in enumerate(dev)],
    )


def _report_row(artifact: Artifact) -> dict[str, Any]:
    report = json.loads((artifact.folder / "training.json").read_text())
    best: dict[str, float] = next((row for row in report["history"] if row["epoch"] == report["best_epoch"]), {})
    metrics = {name: f"{100 * value:.1f} %" for name, value in best.items() if name != "epoch"}
    truncation = f", {report['truncated']} pairs cut to the context length" if report.get("truncated") else ""
    speed = f"{report['seconds']:.0f} s, {report['tokens_per_second']:.0f} tokens/s, {report['peak_memory'] / 1e9:.1f} GB"
    return {"best epoch": f"{report['best_epoch']} of {len(report['history'])}", **metrics, "training": speed + truncation}


main = entry(train_joint, seeds="each")
if __name__ == "__main__":
    main()
