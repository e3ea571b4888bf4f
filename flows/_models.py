"""The trained models of a configuration, and the relevance scores: artifacts that depend on weights."""

from typing import Any

from omegaconf import DictConfig

from flows._artifacts import Artifact, Project
from flows._hub import is_remote
from winnow.errors import ConfigError

_SCORING = ("dtype", "runtime")
"""An estimator's settings that its training, in float32 and by PyTorch, does not use."""


def joint(project: Project, training: DictConfig | None = None) -> Artifact:
    """Return the estimator and the generator that a training made, or those of them that its method trains.

    Args:
        project: Settings.
        training: Joint training, or None for `joint` of the settings.

    """
    training = training or project.cfg.joint
    return project.artifact("train_joint", "joint", training.name, _joint_inputs(project, training), root="models")


def relevance(project: Project) -> Artifact:
    """Return the estimator's log-odds for the rankings."""
    cfg = project.cfg
    inputs = {
        "rankings": project.rankings.identity,
        "estimator": cfg.estimator.engine,
        "weights": estimator_weights(project),
        "score": cfg.score,
    }
    return project.artifact("score", "relevance", cfg.estimator.name, inputs)


def estimator_weights(project: Project) -> str:
    """Return what identifies the estimator's weights, "" where its settings name them already."""
    cfg = project.cfg
    if "base" not in cfg.estimator:
        return ""
    if cfg.estimator.trained and "estimator" not in cfg.joint.trainable:
        raise ConfigError(
            f"estimator={cfg.estimator.name} is a trained one, and joint={cfg.joint.name} trains none. Choose joint=frozen "
            "or re_rag; or rank and weight without it (rank_by=retriever weighting.by=none)."
        )
    return joint(project).identity if cfg.estimator.trained else project.pinned.model(str(cfg.estimator.base))


def _joint_inputs(project: Project, training: DictConfig) -> dict[str, Any]:
    """Return everything that joint training depends on."""
    cfg = project.cfg
    inputs = {"rankings": project.rankings.identity, **{name: training[name] for name in ("method", "data", "settings")}}
    if "estimator" in training.trainable:
        if "base" not in cfg.estimator:
            raise ConfigError(
                f"estimator={cfg.estimator.name} has nothing to train, and joint={training.name} trains an estimator. Choose "
                "estimator=cross_encoder, t5 or causal, or joint=rag or fid."
            )
        engine = project.pinned.settings(cfg.estimator.engine)
        inputs["estimator"] = {name: value for name, value in engine.items() if name not in _SCORING}
        inputs["base"] = project.pinned.model(str(cfg.estimator.base))
    if training.teacher is None:
        return {**inputs, "generator": training.generator}
    teacher = training.teacher
    if teacher.reader.get("joint"):
        raise ConfigError("joint.teacher.reader is trained jointly itself; choose a reader that exists before.")
    weights = reader_weights(project, teacher.reader, teacher.prompt)
    choices = {"reader": teacher.reader.engine, "prompt": teacher.prompt, "decoding": teacher.decoding}
    return {**inputs, "teacher": {"weights": weights, **choices}}


def trained_reader(project: Project, reader: DictConfig, prompt: DictConfig) -> Artifact:
    """Return the fine-tuned reader."""
    cfg = project.cfg
    inputs = {
        "rankings": project.retrieval(cfg.answerable.retriever).identity,
        "training": {name: cfg.training[name] for name in ("split", "seed", "mix", "settings")},
        "prompt": prompt,
        "base": project.pinned.model(str(reader.base)),
    }
    if prompt.get("shots"):
        inputs["demonstrations"] = project.rankings.identity
    return project.artifact("train_reader", "reader", reader.name, inputs, root="models")


def reader_weights(project: Project, reader: DictConfig, prompt: DictConfig) -> str:
    """Return what identifies a reader's weights: its training's key, or its asset or digest."""
    if reader.get("joint"):
        if reader.tuned:
            raise ConfigError(f"reader={reader.name} is trained jointly and cannot be fine-tuned; set reader.tuned=false.")
        return _generator(project, reader).identity
    if reader.tuned:
        return trained_reader(project, reader, prompt).identity
    return str(reader.base) if is_remote(reader) else project.pinned.model(str(reader.base))


def reader_path(project: Project, reader: DictConfig, prompt: DictConfig) -> str:
    """Return where a reader's weights are; a tuned one must be trained."""
    if reader.get("joint"):
        return str(_generator(project, reader).require() / "generator")
    return str(trained_reader(project, reader, prompt).require()) if reader.tuned else str(reader.base)


def estimator_path(project: Project) -> str:
    """Return where the estimator's weights are; a trained one must be trained."""
    estimator = project.cfg.estimator
    return str(joint(project).require() / "estimator") if estimator.trained else str(estimator.base)


def _generator(project: Project, reader: DictConfig) -> Artifact:
    cfg = project.cfg
    word, training = ("joint@generator", cfg.generator) if cfg.get("generator") else ("joint", cfg.joint)
    if "generator" not in training.trainable:
        raise ConfigError(
            f"reader={reader.name} is a generator that joint training makes, and {word}={training.name} makes none. "
            f"Choose {word}=re_rag, rag or fid."
        )
    return joint(project, training)
