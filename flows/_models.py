"""Resolves the artifacts that depend on model weights: trained readers, joint trainings and relevance scores."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows._artifacts import Artifact, Project
from flows._hub import is_remote
from winnow.errors import ConfigError
from winnow.protocols import MODEL_ROLES

_SCORING_ONLY = ("dtype", "runtime")
"""Settings of an estimator that matter only for scoring: training always uses float32 and PyTorch."""
_TRAINING_INPUTS = ("split", "seed", "mix", "settings", "reward", "metrics", "decoding", "method")
"""Settings of the training of a reader on which its weights depend."""


def resolve_joint_models(project: Project, training: DictConfig | None = None) -> Artifact:
    """Return the artifact of a joint training: an estimator, a generator or both, depending on its method.

    Args:
        project: Artifacts of the configuration.
        training: Settings of the joint training, or None for `joint` of the configuration.

    """
    training = training or project.cfg.joint
    return project.resolve_artifact("train_joint", "joint", training.name, _joint_inputs(project, training), root="models")


def resolve_relevance(project: Project) -> Artifact:
    """Return the artifact with the estimator's log-odds for the contexts of the rankings."""
    cfg = project.cfg
    inputs = {
        "rankings": project.rankings.identity,
        "estimator": cfg.estimator.engine,
        "weights": identify_estimator_weights(project),
        "score": cfg.score,
    }
    return project.resolve_artifact("score", "relevance", cfg.estimator.name, inputs)


def identify_estimator_weights(project: Project) -> str:
    """Return the identity of the estimator's weights, or "" if its other settings identify them.

    Raises:
        ConfigError: If the estimator is to be trained, but the joint training does not train an estimator.

    """
    cfg = project.cfg
    if "base" not in cfg.estimator:
        return ""
    if cfg.estimator.trained and "estimator" not in cfg.joint.trainable:
        raise ConfigError(
            f"estimator={cfg.estimator.name} needs a trained estimator, but joint={cfg.joint.name} trains none. Choose "
            "joint=frozen or joint=re_rag, or do without the estimator: rank_by=retriever weighting.by=none."
        )
    return (
        resolve_joint_models(project).identity
        if cfg.estimator.trained
        else project.pinned.identify_model(str(cfg.estimator.base))
    )


def _joint_inputs(project: Project, training: DictConfig) -> dict[str, Any]:
    """Return everything that a joint training depends on."""
    cfg = project.cfg
    inputs = {"rankings": project.rankings.identity, **{name: training[name] for name in ("method", "data", "settings")}}
    if "estimator" in training.trainable:
        if "base" not in cfg.estimator:
            raise ConfigError(
                f"estimator={cfg.estimator.name} has nothing to train, but joint={training.name} trains an estimator. Choose "
                "estimator=cross_encoder, t5 or causal, or joint=rag or fid."
            )
        engine = project.pinned.identify_settings(cfg.estimator.engine)
        inputs["estimator"] = {name: value for name, value in engine.items() if name not in _SCORING_ONLY}
        inputs["base"] = project.pinned.identify_model(str(cfg.estimator.base))
    if "generator" in training:
        inputs["generator"] = training.generator
    if training.teacher is None:
        return inputs
    teacher = training.teacher
    if teacher.reader.get("joint"):
        raise ConfigError(
            f"joint.teacher.reader={teacher.reader.name} is itself trained jointly. Choose a reader that exists already."
        )
    weights = identify_reader_weights(project, teacher.reader, teacher.prompt)
    choices = {"reader": teacher.reader.engine, "prompt": teacher.prompt, "decoding": teacher.decoding}
    return {**inputs, "teacher": {"weights": weights, **choices}}


def list_readers(cfg: DictConfig) -> list[DictConfig]:
    """Return the settings of the models of all roles, and of the reader whose answers filter questions if there is one."""
    filtering = [cfg.closed_book.reader] if cfg.closed_book.get("reader") else []
    return [*(cfg[role] for role in MODEL_ROLES if cfg.get(role)), *filtering]


def get_closed_book_reader(cfg: DictConfig) -> DictConfig:
    """Return the settings of the reader that is asked without passages: that of `closed_book` if it is set."""
    reader: DictConfig = cfg.closed_book.get("reader") or cfg.reader
    return reader


def list_teachers(cfg: DictConfig) -> list[DictConfig]:
    """Return the settings of the teachers of the joint trainings."""
    return [training.teacher for training in (cfg.joint, cfg.get("generator")) if training and training.get("teacher")]


def is_trained(cfg: DictConfig, reader: DictConfig) -> bool:
    """Return whether a reader is fine-tuned: its settings say so, and `training` is not "none"."""
    return bool(reader.tuned) and cfg.training.mix is not None


def list_trainings(cfg: DictConfig) -> list[DictConfig]:
    """Return the configured training of a reader after those with whose readers it starts, the first one first."""
    trainings, training = [], cfg.training
    while training is not None:
        trainings.append(training)
        training = training.start
    return trainings[::-1]


def resolve_trained_reader(
    project: Project, reader: DictConfig, prompt: DictConfig, training: DictConfig | None = None
) -> Artifact:
    """Return the artifact of a fine-tuned reader.

    Args:
        project: Artifacts of the configuration.
        reader: Settings of the reader.
        prompt: Prompt of the training examples.
        training: Settings of the training, or None for `training` of the configuration.

    """
    training = training or project.cfg.training
    if reader.engine.get("template_options"):
        raise ConfigError(
            f"reader={reader.name} is fine-tuned, and trainings do not know reader.engine.template_options. Remove them, "
            "or set reader.tuned=false."
        )
    inputs = {
        "rankings": project.resolve_retrieval(training.retriever).identity,
        "training": {name: training[name] for name in _TRAINING_INPUTS if name in training},
        "prompt": prompt,
        "base": _identify_start(project, reader, prompt, training),
    }
    if "method" in training:  # the best epoch is kept, by the rewards of these questions
        inputs["evaluation"] = training.evaluation
    if training.teacher is not None:
        if training.teacher.reader.tuned or training.teacher.reader.get("joint"):
            raise ConfigError(
                f"training.teacher.reader={training.teacher.reader.name} is itself trained here. Choose a reader that exists "
                "already, such as reader@training.teacher.reader=openai or folder."
            )
        weights = identify_reader_weights(project, training.teacher.reader, prompt)
        inputs["teacher"] = {
            "weights": weights,
            "reader": training.teacher.reader.engine,
            "decoding": training.teacher.decoding,
        }
    if prompt.get("shots"):
        inputs["demonstrations"] = project.rankings.identity
    return project.resolve_artifact("train_reader", "reader", reader.name, inputs, root="models")


def _identify_start(project: Project, reader: DictConfig, prompt: DictConfig, training: DictConfig) -> str:
    """Return the identity of the weights with which a training starts."""
    if training.start is not None:
        return resolve_trained_reader(project, reader, prompt, training.start).identity
    return project.pinned.identify_model(str(reader.base))


def find_weights(folder: Path, training: DictConfig) -> str:
    """Return the folder of the weights in the folder of a training's artifact."""
    return str(folder / "reader" if "method" in training else folder)


def check_training_split(cfg: DictConfig, reader: DictConfig) -> None:
    """Raise ConfigError if a reader is fine-tuned on another split than the only one that the data set has."""
    only_split = cfg.dataset.split.get("all")
    if is_trained(cfg, reader) and only_split and only_split != cfg.training.split:
        raise ConfigError(
            f"reader={reader.name} is fine-tuned on the split {cfg.training.split!r}, but dataset={cfg.dataset.name} has only "
            f"the split {only_split!r} (dataset.split.all). Add reader=smollm2 to use the model as it is, or split the data "
            "set, as in dataset.split.all='' dataset.split.test=100 dataset.split.dev=50 dataset.split.seed=13."
        )


def identify_reader_weights(project: Project, reader: DictConfig, prompt: DictConfig) -> str:
    """Return the identity of a reader's weights: that of its training, or its asset, digest or name on a server."""
    if reader.get("joint"):
        if reader.tuned:
            raise ConfigError(f"reader={reader.name} is trained jointly and cannot be fine-tuned. Set reader.tuned=false.")
        return resolve_generator_training(project, reader).identity
    if is_trained(project.cfg, reader):
        return resolve_trained_reader(project, reader, prompt).identity
    return str(reader.base) if is_remote(reader) else project.pinned.identify_model(str(reader.base))


def resolve_reader_path(project: Project, reader: DictConfig, prompt: DictConfig) -> str:
    """Return the path of a reader's weights; raises MissingArtifactError if its training has not finished."""
    if reader.get("joint"):
        return str(resolve_generator_training(project, reader).require() / "generator")
    if not is_trained(project.cfg, reader):
        return str(reader.base)
    return find_weights(resolve_trained_reader(project, reader, prompt).require(), project.cfg.training)


def resolve_estimator_path(project: Project) -> str:
    """Return the path of the estimator's weights; raises MissingArtifactError if its training has not finished."""
    estimator = project.cfg.estimator
    return str(resolve_joint_models(project).require() / "estimator") if estimator.trained else str(estimator.base)


def resolve_generator_training(project: Project, reader: DictConfig) -> Artifact:
    """Return the joint training that produces a generator: `generator` of the configuration if it is set, else `joint`."""
    cfg = project.cfg
    setting, training = ("joint@generator", cfg.generator) if cfg.get("generator") else ("joint", cfg.joint)
    if "generator" not in training.trainable:
        raise ConfigError(
            f"reader={reader.name} needs a generator from joint training, but {setting}={training.name} makes none. "
            f"Choose {setting}=re_rag, rag or fid."
        )
    return resolve_joint_models(project, training)
