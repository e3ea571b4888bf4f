"""Where each stage's artifact lies: a folder named by the hash of its settings and of what it rests on.

So artifacts of different settings stand side by side, a finished one is recognised without reading it, and a changed
key makes anew only what depends on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from winnow import store
from winnow.errors import ConfigError, MissingArtifactError
from winnow.models import resolve_dtype, resolve_runtime, weights_digest

_MACHINE = {
    "device", "batch_tokens", "capacity", "chunk_tokens", "recompute", "gradient_checkpointing", "explode_at", "gpu", "shard",
    "size", "logging_steps", "save_steps", "base_url", "budget", "key_variable", "pacing", "poll_seconds", "samples_per_call",
    "state",
}  # fmt: skip
"""Settings that say how fast, not what: they are no part of a key. (A training's batch_size says what.)"""
_SCORING = ("dtype", "runtime")
"""An estimator's settings that its training, in float32 and by PyTorch, does not know."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact: its folder, its key, and the settings that made it."""

    folder: Path
    key: str
    settings: Mapping[str, Any]
    stage: str

    @property
    def done(self) -> bool:
        """Tell whether it is finished."""
        return store.is_done(self.folder, self.key)

    def need(self) -> "Artifact":
        """Return itself if finished; else say which command makes it."""
        if not self.done:
            raise MissingArtifactError(
                f"There is no finished {self.folder}. Run `python -m flows.{self.stage}` with the same settings first "
                "(`dvc repro` runs every stage that is due)."
            )
        return self

    def finish(self, rows: int) -> None:
        """Mark it as finished."""
        store.write_manifest(self.folder, key=self.key, settings=self.settings, rows=rows)


def _plain(value: Any) -> Any:
    """Return settings as plain values, without those that only say how fast."""
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value, resolve=True)
    if isinstance(value, dict):
        reader = ".readers." in str(value.get("_target_", ""))
        kept = {k: _plain(v) for k, v in value.items() if k not in _MACHINE and not (reader and k == "batch_size")}
        if kept.get("dtype") == "auto":
            kept["dtype"] = resolve_dtype("auto", str(value.get("device", "auto")))
        if kept.get("runtime") == "auto":
            kept["runtime"] = resolve_runtime("auto", str(value.get("device", "auto")), str(kept.get("dtype")))
        if "base_url" in value:
            kept["server"] = value.get("server") or value["base_url"]
        return kept
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _artifact(cfg: DictConfig, stage: str, kind: str, name: str, *parts: Any, root: str = "data") -> Artifact:
    settings = {"name": name, "parts": [_plain(part) for part in parts], "revision": cfg.revisions[stage]}
    key = store.key_of(stage, settings)
    return Artifact(Path(cfg.paths[root]) / kind / f"{name}-{key}", key, settings, stage)


def _source(node: DictConfig) -> Any:
    """Return what identifies a reader's input: the asset's hash, or its address and the digests of the files it gave."""
    if "asset" in node and node.asset.get("sha256"):
        return [node.asset.address, node.asset.sha256]
    address = [node.asset.address] if "asset" in node else []
    return address + [_content(Path(str(node.reader[key]))) for key in ("path", "qrels") if key in node.reader]


def _content(path: Path) -> Any:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return [[str(file.relative_to(path)), store.file_digest(file)] for file in files]
    return store.file_digest(path) if path.is_file() else str(path)


def _model(node: DictConfig, path: str) -> str:
    """Return what identifies a model: its asset's hash, or the digest of its weights."""
    pinned = node.asset.get("sha256") if "asset" in node else None
    return str(pinned) if pinned else weights_digest(path)


def _encoder(cfg: DictConfig, user: DictConfig) -> Any:
    """Return what identifies the sentence encoder, if a retriever or estimator uses one."""
    if "SentenceEncoder" not in OmegaConf.to_yaml(user, resolve=True):
        return None
    asking = cfg.encoder.model.get("query_path")
    digest = _model(cfg.encoder, str(cfg.encoder.model.path))
    return [digest, weights_digest(str(asking))] if asking else digest


def corpus(cfg: DictConfig) -> Artifact:
    """Name the passages."""
    return _artifact(cfg, "corpus", "corpus", cfg.corpus.name, _source(cfg.corpus), cfg.corpus.reader)


def index(cfg: DictConfig, retriever: DictConfig) -> Artifact:
    """Name one retriever's index of the corpus."""
    name = str(retriever._target_).rpartition(".")[2].lower()
    return _artifact(cfg, "index", "index", name, corpus(cfg).key, retriever, _encoder(cfg, retriever))


def questions(cfg: DictConfig) -> Artifact:
    """Name the questions with their splits and labels."""
    label = [index(cfg, cfg.answerable.retriever).key, cfg.answerable.depth, cfg.answerable.min_answer_chars]
    return _artifact(cfg, "questions", "questions", cfg.dataset.name, _source(cfg.dataset), cfg.dataset, label)


def retrieval(cfg: DictConfig, retriever: DictConfig | None = None) -> Artifact:
    """Name the rankings of a retriever (the configured one, if none is given), with the texts of their passages."""
    made = index(cfg, cfg.retriever.engine if retriever is None else retriever)
    keys = [made.key, questions(cfg).key, cfg.depth]
    return _artifact(cfg, "retrieve", "retrieval", f"{cfg.dataset.name}-{made.folder.name.partition('-')[0]}", keys)


def relevance(cfg: DictConfig) -> Artifact:
    """Name the estimator's log-odds for the rankings."""
    return _artifact(
        cfg,
        "score",
        "relevance",
        cfg.estimator.name,
        retrieval(cfg).key,
        cfg.estimator.engine,
        cfg.score,
        _estimator(cfg),
    )


def _estimator(cfg: DictConfig) -> Any:
    """Return what identifies the estimator's weights: its training's key, or their digest."""
    if "base" not in cfg.estimator:
        return _encoder(cfg, cfg.estimator.engine)
    if cfg.estimator.trained and "estimator" not in cfg.joint.learns:
        raise ConfigError(
            f"estimator={cfg.estimator.name} is a trained one, and joint={cfg.joint.name} trains none. Choose joint=frozen "
            "or re_rag; or rank and weigh without it (rank_by=retriever weigh.by=none)."
        )
    return joint(cfg).key if cfg.estimator.trained else weights_digest(str(cfg.estimator.base))


def estimator_identity(cfg: DictConfig) -> str:
    """Return what the ledger files judgements under."""
    return f"{cfg.estimator.name}@{store.key_of(_plain(cfg.estimator.engine), _estimator(cfg))}"


def estimator_path(cfg: DictConfig) -> str:
    """Return where the estimator's weights are; a trained one must have been trained."""
    return str(joint(cfg).need().folder / "estimator") if cfg.estimator.trained else str(cfg.estimator.base)


def joint(cfg: DictConfig) -> Artifact:
    """Name the estimator and the generator that were trained together (or what of them the method trains)."""
    learnt = [cfg.joint[name] for name in ("method", "data", "settings")]
    parts = [retrieval(cfg).key, *learnt]
    if "estimator" in cfg.joint.learns:
        if "base" not in cfg.estimator:
            raise ConfigError(
                f"estimator={cfg.estimator.name} has nothing to train, and joint={cfg.joint.name} trains an estimator. Choose "
                "estimator=cross_encoder, t5 or causal, or joint=rag or fid."
            )
        engine = {name: value for name, value in cfg.estimator.engine.items() if name not in _SCORING}
        parts += [_plain(OmegaConf.create(engine)), weights_digest(str(cfg.estimator.base))]
    if cfg.joint.teacher is None:
        parts += [cfg.joint.generator, weights_digest(str(cfg.joint.generator.path))]
    else:
        taught = teaching(cfg)
        parts += [*reader_key(taught), taught.prompt, taught.decoding]
    return _artifact(cfg, "train_joint", "joint", cfg.joint.name, *parts, root="models")


def teaching(cfg: DictConfig) -> DictConfig:
    """Return the settings with the frozen teacher in the reader's place."""
    taught = OmegaConf.create(OmegaConf.to_container(cfg, resolve=False))
    assert isinstance(taught, DictConfig)
    for name in ("reader", "prompt", "decoding"):
        taught[name] = OmegaConf.to_container(cfg.joint.teacher[name], resolve=False)
    if taught.reader.get("joint"):
        raise ConfigError("joint.teacher.reader is one that joint training makes; choose a reader that is there before it.")
    return taught


def trained_reader(cfg: DictConfig) -> Artifact:
    """Name the fine-tuned reader."""
    learnt = [cfg.training[name] for name in ("split", "seed", "mix", "settings")]
    parts = [retrieval(cfg, cfg.answerable.retriever).key, learnt, cfg.prompt, _model(cfg.reader, str(cfg.reader.base))]
    if cfg.prompt.get("shots"):
        parts.append(retrieval(cfg).key)  # whose passages the demonstrations show
    return _artifact(cfg, "train_reader", "reader", cfg.reader.name, *parts, root="models")


def reader_path(cfg: DictConfig) -> str:
    """Return where the reader's weights are; a tuned reader must have been trained."""
    if cfg.reader.get("joint"):
        return str(_generated(cfg).need().folder / "generator")
    return str(trained_reader(cfg).need().folder) if cfg.reader.tuned else str(cfg.reader.base)


def _generated(cfg: DictConfig) -> Artifact:
    if "generator" not in cfg.joint.learns:
        raise ConfigError(
            f"reader={cfg.reader.name} is a generator that joint training makes, and joint={cfg.joint.name} makes none. "
            "Choose joint=re_rag, rag or fid."
        )
    return joint(cfg)


def reader_identity(cfg: DictConfig) -> str:
    """Return what identifies the reader in keys: its training's key, or its weights' digest."""
    if cfg.reader.get("joint"):
        return _generated(cfg).key
    return trained_reader(cfg).key if cfg.reader.tuned else _model(cfg.reader, str(cfg.reader.base))


def reader_key(cfg: DictConfig) -> list[Any]:
    """Return what decides the reader's replies: its weights, and how they are run."""
    return [reader_identity(cfg), cfg.reader.engine]


def closed_book(cfg: DictConfig) -> Artifact:
    """Name what the reader answers without passages."""
    parts = [questions(cfg).key, *reader_key(cfg), cfg.prompt, cfg.closed_book]
    return _artifact(cfg, "closed_book", "closed_book", cfg.reader.name, *parts)


def sweep_questions(cfg: DictConfig) -> Sequence[Any]:
    """Return what decides which questions a sweep answers."""
    chosen = [questions(cfg).key, cfg.sweep.split, cfg.sweep.limit]
    return [*chosen, closed_book(cfg).key] if cfg.sweep.closed_book_filter else chosen


def needs_relevance(cfg: DictConfig) -> bool:
    """Tell whether a cell uses the estimator: to rank its contexts or to weigh them."""
    return "estimator" in (cfg.rank_by, cfg.weigh.by)


def cell(cfg: DictConfig) -> Artifact:
    """Name the predictions of one cell."""
    ranking = [retrieval(cfg).key, cfg.rank_by, relevance(cfg).key if needs_relevance(cfg) else None]
    asked = [cfg.strategy, cfg.prompt, cfg.decoding, cfg.k, cfg.placement, cfg.weigh]
    return _artifact(cfg, "sweep", "predictions", cfg.strategy.name, sweep_questions(cfg), ranking, reader_key(cfg), *asked)
