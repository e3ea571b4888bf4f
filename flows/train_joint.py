"""Train a relevance estimator and a generator together (RE-RAG), or a generator alone (RAG, fusion-in-decoder).

No label of relevance is read: the estimator learns from how likely the generator finds the answer under each context.

    python -m flows.train_joint estimator=cross_encoder                       # a frozen teacher (conf/joint/frozen.yaml)
    python -m flows.train_joint joint=re_rag estimator=t5                     # both learn
    torchrun --nproc_per_node=4 -m flows.train_joint joint=re_rag estimator=t5
"""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows import _artifacts
from flows._build import build
from flows._drive import drive, open_ledger, open_reader
from flows._entry import entry
from flows._prompts import open_prompt
from flows._summary import Summary, progress
from flows._track import silent, track
from winnow.driver import Job
from winnow.records import Answer, Context, Likelihood, Plan, Question
from winnow.strategies.prompt import ask
from winnow.strategies.replies import is_unknown, read_answer
from winnow.tables import Rankings, questions_of


def train_joint(configs: Sequence[DictConfig]) -> Summary:
    """Train for each job and tell what the best epoch came to on the development questions."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for cfg in configs:
        made = _artifacts.joint(cfg)
        if made.done:
            notes.append(f"{made.folder} was trained before; nothing was done.")
        else:
            _train(cfg, made)
        rows.append({"trained": made.folder, "dev questions": cfg.joint.data.dev_questions or "all", **_told(made)})
    return Summary("Joint training, development questions of the best epoch", rows, "\n".join(notes))


def _train(cfg: DictConfig, made: _artifacts.Artifact) -> None:
    from winnow.training.loop import fit, steps_in_all

    data = cfg.joint.data
    frozen = cfg.joint.teacher is not None
    train = _groups(cfg, data.split, data.questions, data.contexts)
    dev = _groups(cfg, data.dev, data.dev_questions, data.dev_contexts)
    if frozen:
        train, dev = _ask_frozen(_artifacts.teaching(cfg), train, dev)
    settings = build(cfg.joint.settings)
    method = build(cfg.joint.method, **_models(cfg))
    if os.environ.get("RANK", "0") != "0":
        fit(method, train, dev, settings, made.folder, silent)
        return
    params = {"joint": OmegaConf.to_container(cfg.joint, resolve=True), "questions": len(train)}
    with track(cfg, "train_joint", made, params) as run:
        with progress("training", steps_in_all(len(train), settings)) as advance:
            report = fit(method, train, dev, settings, made.folder, run.metrics, advance)
        run.metrics(
            {
                "seconds": report.seconds,
                "tokens_per_second": report.tokens_per_second,
                "peak_memory_gb": report.peak_memory / 1e9,
                "best_epoch": float(report.best_epoch),
                "truncated_pairs": float(report.truncated),
            }
        )
    made.finish(len(train))


def _models(cfg: DictConfig) -> dict[str, Any]:
    """Build what the method trains; weights are loaded in float32, of which bfloat16 training keeps the masters."""
    models: dict[str, Any] = {}
    device = cfg.joint.settings.device
    if "estimator" in cfg.joint.learns:
        engine = {"path": str(cfg.estimator.base), "dtype": "float32", "device": device, "runtime": "torch"}
        models["estimator"] = build(cfg.estimator.engine, **engine)
    if cfg.joint.teacher is None:
        models["generator"] = build(cfg.joint.generator, dtype="float32", device=device)
    return models


def _groups(cfg: DictConfig, split: str, limit: int | None, contexts: int) -> list[Any]:
    from winnow.training.groups import Group

    asked = questions_of(_artifacts.questions(cfg).need().folder / "questions.parquet", [split])[:limit]
    rankings = Rankings(_artifacts.retrieval(cfg).need().folder, asked)
    return [Group(q, tuple(c for c in rankings.contexts(q) if c.rank)[:contexts]) for q in asked]


def _ask_frozen(cfg: DictConfig, train: Sequence[Any], dev: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Ask the teacher for its likelihoods of the training answers, and for its own answers to the development questions.

    An "unknown" of its own counts for nothing, as in `winnow.strategies.marginal`. Both go through the ledger: another
    estimator, objective or seed costs none of them again.
    """
    from winnow.training.groups import Reply

    prompt = open_prompt(cfg)
    decoding = build(cfg.decoding)
    likelihoods: dict[str, tuple[float, ...]] = {}
    replies: dict[str, tuple[Reply, ...]] = {}

    def score(question: Question, contexts: Sequence[Context]) -> Plan:
        scores = yield [Likelihood(prompt.render(question, [context]), question.stated[0]) for context in contexts]
        likelihoods[question.question_id] = tuple(one.value for one in scores)
        return Answer("", unknown=False)

    def answer(question: Question, contexts: Sequence[Context]) -> Plan:
        made = yield [ask(prompt, question, [context], decoding) for context in contexts]
        texts = [read_answer(one.text) for one in made]
        scores = yield [Likelihood(prompt.render(question, [c]), text) for c, text in zip(contexts, texts, strict=True)]
        replies[question.question_id] = tuple(
            Reply(text, -math.inf if is_unknown(text) else one.value) for text, one in zip(texts, scores, strict=True)
        )
        return Answer("", unknown=False)

    def jobs() -> Iterator[Job]:
        for group in train:
            yield Job(group.question.question_id, score(group.question, group.contexts))
        for group in dev:
            yield Job(group.question.question_id, answer(group.question, group.contexts))

    reader = open_reader(cfg, _artifacts.reader_path(cfg))
    with open_ledger(cfg) as ledger:
        for _ in drive(reader, ledger, jobs(), len(train) + len(dev), "asking the frozen generator"):
            pass
    return (
        [replace(group, log_answer=likelihoods[group.question.question_id]) for group in train],
        [replace(group, replies=replies[group.question.question_id]) for group in dev],
    )


def _told(made: _artifacts.Artifact) -> dict[str, Any]:
    import json

    report = json.loads((made.folder / "training.json").read_text())
    best: dict[str, float] = next((row for row in report["history"] if row["epoch"] == report["best_epoch"]), {})
    shown = {name: f"{100 * value:.1f} %" for name, value in best.items() if name != "epoch"}
    cut = f", {report['truncated']} pairs cut to the window" if report.get("truncated") else ""
    speed = f"{report['seconds']:.0f} s, {report['tokens_per_second']:.0f} tokens/s, {report['peak_memory'] / 1e9:.1f} GB"
    return {"best epoch": f"{report['best_epoch']} of {len(report['history'])}", **shown, "training": speed + cut}


main = entry(train_joint)
if __name__ == "__main__":
    main()
