"""Resolves the artifacts of reader and joint trainings, and the weights of all models."""

from pathlib import Path
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.settings.commits import is_remote
from flows.settings.components import Component
from flows.settings.composition import list_options, load_option
from flows.settings.sections import Reader
from flows.settings.trainings import Joint, JointTeacher, Training
from flows.settings.typed import Settings
from winnow.errors import ConfigError, MissingArtifactError
from winnow.identity.markers import read_annotations
from winnow.protocols import MODEL_ROLES
from winnow.strategies.prompt import Prompt

_SCORING_ONLY = ("dtype", "runtime")
"""Settings of an estimator that matter only for scoring: training always uses float32 and PyTorch.
"""
_TRAINING_INPUTS = ("split", "seed", "mix", "settings", "reward", "metrics", "decoding", "method")
"""Settings of the training of a reader on which its weights depend."""


def resolve_joint_models(project: Project, training: Joint | None = None) -> Artifact:
    """Return a joint training's artifact: an estimator, a generator or both, depending on `method`.

    Args:
        project: Artifacts of the configuration.
        training: Settings of the joint training, or None for `joint` of the configuration.
    """
    training = training or project.settings.joint
    return project.resolve_artifact(
        "train_joint", "joint", training.name, _joint_inputs(project, training), root="models"
    )


def identify_estimator_weights(project: Project) -> str:
    """Return the identity of the estimator's weights, or "" if its other settings identify them.

    Raises:
        ConfigError: If the estimator is to be trained, but the joint training does not train an
            estimator.
    """
    settings = project.settings
    if settings.estimator.base is None:
        return ""
    if settings.estimator.trained and "estimator" not in settings.joint.trainable:
        raise ConfigError(
            f"estimator={settings.estimator.name} needs a trained estimator, but "
            f"joint={settings.joint.name} trains none. Choose joint=frozen or joint=re_rag, or do "
            "without the estimator: rank_by=retriever weighting.by=none."
        )
    return (
        resolve_joint_models(project).identity
        if settings.estimator.trained
        else project.pinned.identify_model(str(settings.estimator.base))
    )


def _joint_inputs(project: Project, training: Joint) -> dict[str, Any]:
    """Return everything that a joint training depends on."""
    settings = project.settings
    inputs = {
        "rankings": project.rankings.identity,
        **{name: getattr(training, name) for name in ("method", "data", "settings")},
    }
    if "generator" in training.trainable:
        if not training.generator:
            raise ConfigError(
                f"joint={training.name} is to train a generator (joint.trainable), but "
                "joint.generator is null. Choose joint=re_rag, rag or fid."
            )
        inputs["generator"] = training.generator
    elif training.teacher is None and "generator" in read_annotations(
        training.method.component_class
    ):
        raise ConfigError(
            f"joint={training.name} learns from a generator, but "
            f"joint.trainable={training.trainable} trains none and joint.teacher is null. Add "
            "generator to joint.trainable, or choose joint=frozen, which has a teacher."
        )
    if "estimator" in training.trainable:
        if settings.estimator.base is None:
            raise ConfigError(
                f"estimator={settings.estimator.name} has nothing to train, but "
                f"joint={training.name} trains an estimator. Choose estimator=cross_encoder, t5 "
                "or causal, or joint=rag or fid."
            )
        engine = project.pinned.identify_settings(settings.estimator.engine)
        inputs["estimator"] = {
            name: value for name, value in engine.items() if name not in _SCORING_ONLY
        }
        inputs["base"] = project.pinned.identify_model(str(settings.estimator.base))
    if training.teacher is None:
        return inputs
    teacher = training.teacher
    if teacher.reader.joint:
        raise ConfigError(
            f"joint.teacher.reader={teacher.reader.name} is itself trained jointly. Choose a "
            "reader that exists already."
        )
    weights = identify_reader_weights(project, teacher.reader, teacher.prompt)
    choices = {
        "reader": teacher.reader.engine,
        "prompt": teacher.prompt,
        "decoding": teacher.decoding,
    }
    return {**inputs, "teacher": {"weights": weights, **choices}}


def list_readers(settings: Settings) -> list[Reader]:
    """Return the settings of all roles' models and of the closed-book reader, if it is set."""
    filtering = [settings.closed_book.reader] if settings.closed_book.reader else []
    return [*filter(None, map(settings.get_model, MODEL_ROLES)), *filtering]


def get_closed_book_reader(settings: Settings) -> Reader:
    """Return the settings of the closed-book reader: `closed_book.reader` if set, else `reader`."""
    reader: Reader = settings.closed_book.reader or settings.reader
    return reader


def list_teachers(settings: Settings) -> list[JointTeacher]:
    """Return the settings of the teachers of the joint trainings."""
    return [
        training.teacher
        for training in (settings.joint, settings.generator)
        if training and training.teacher
    ]


def is_trained(settings: Settings, reader: Reader) -> bool:
    """Return whether a reader is fine-tuned: its settings say so, and `training` is not "none"."""
    return bool(reader.tuned) and bool(settings.training.mix)


def list_trainings(settings: Settings) -> list[Training]:
    """Return the chain of trainings of a reader, from the first one to the configured one."""
    trainings: list[Training] = []
    training: Training | None = settings.training
    while training is not None:
        trainings.append(training)
        training = training.start
    return trainings[::-1]


def resolve_trained_reader(
    project: Project, reader: Reader, prompt: Component[Prompt], training: Training | None = None
) -> Artifact:
    """Return the artifact of a fine-tuned reader.

    Args:
        project: Artifacts of the configuration.
        reader: Settings of the reader.
        prompt: Prompt of the training examples, unless `reader.trained_on` is another.
        training: Settings of the training, or None for `training` of the configuration.
    """
    training, prompt = training or project.settings.training, reader.trained_on or prompt
    if reader.engine.get("template_options"):
        raise ConfigError(
            f"reader={reader.name} is fine-tuned, and trainings do not know "
            "reader.engine.template_options. Remove them, or set reader.tuned=false."
        )
    inputs: dict[str, Any] = {
        "rankings": project.resolve_retrieval(training.retriever).identity,
        "training": {
            name: training.plain[name] for name in _TRAINING_INPUTS if name in training.plain
        },
        "prompt": prompt,
        "base": _identify_start(project, reader, prompt, training),
    }
    if training.method:  # the best epoch is kept, by the rewards of these questions
        inputs["evaluation"] = training.evaluation
    if training.teacher is not None:
        if training.teacher.reader.tuned or training.teacher.reader.joint:
            raise ConfigError(
                f"training.teacher.reader={training.teacher.reader.name} is itself trained here. "
                "Choose a reader that exists already, such as "
                "reader@training.teacher.reader=openai or folder."
            )
        weights = identify_reader_weights(project, training.teacher.reader, prompt)
        inputs["teacher"] = {
            "weights": weights,
            "reader": training.teacher.reader.engine,
            "decoding": training.teacher.decoding,
            "cut replies": "left out",
        }
    if prompt.get("shots"):
        inputs["demonstrations"] = project.rankings.identity
    return project.resolve_artifact("train_reader", "reader", reader.name, inputs, root="models")


def _identify_start(
    project: Project, reader: Reader, prompt: Component[Prompt], training: Training
) -> str:
    """Return the identity of the weights with which a training starts."""
    if training.start is not None:
        return resolve_trained_reader(project, reader, prompt, training.start).identity
    return project.pinned.identify_model(str(reader.base))


def find_weights(folder: Path, training: Training) -> str:
    """Return the folder of the weights in the folder of a training's artifact."""
    return str(folder / "reader" if training.method else folder)


def check_training_split(settings: Settings, reader: Reader) -> None:
    """Raise ConfigError if a reader is fine-tuned on another split than the data set's only one."""
    only_split = settings.dataset.split.get("all")
    if is_trained(settings, reader) and only_split and only_split != settings.training.split:
        raise ConfigError(
            f"reader={reader.name} is fine-tuned on the split {settings.training.split!r}, but "
            f"dataset={settings.dataset.name} has only the split {only_split!r} "
            "(dataset.split.all). Add reader=smollm2 to use the model as it is, or split the "
            "data set, as in dataset.split.all='' dataset.split.test=100 dataset.split.dev=50 "
            "dataset.split.seed=13."
        )


def identify_reader_weights(project: Project, reader: Reader, prompt: Component[Prompt]) -> str:
    """Return the identity of a reader's weights: its training, asset, digest or remote name."""
    if reader.joint:
        if reader.tuned:
            raise ConfigError(
                f"reader={reader.name} is trained jointly and cannot be fine-tuned. Set "
                "reader.tuned=false."
            )
        return resolve_generator_training(project, reader).identity
    if is_trained(project.settings, reader):
        return resolve_trained_reader(project, reader, prompt).identity
    if reader.trained_on is not None:
        raise ConfigError(
            "training=none trains no reader, so that trained_on has no effect. Remove "
            "prompt@reader.trained_on."
        )
    return (
        str(reader.base) if is_remote(reader) else project.pinned.identify_model(str(reader.base))
    )


def resolve_reader_path(project: Project, reader: Reader, prompt: Component[Prompt]) -> str:
    """Return the path of a reader, or raise MissingArtifactError if it is not trained yet."""
    if reader.joint:
        return str(resolve_generator_training(project, reader).require() / "generator")
    if not is_trained(project.settings, reader):
        return str(reader.base)
    artifact = resolve_trained_reader(project, reader, prompt)
    if (
        not artifact.is_finished
        and reader is project.settings.reader
        and (others := _list_finished(project, reader, prompt))
    ):
        raise MissingArtifactError(
            f"{artifact.folder} does not exist or is not finished: the reader is to be trained on "
            "the prompt with which it is asked. It was trained on another one: "
            f"{' or '.join(f'prompt@reader.trained_on={name}' for name in others)} asks it as it "
            "is; `python -m flows.train_reader` with the same settings trains a further one.",
            artifact.stage,
        )
    return find_weights(artifact.require(), project.settings.training)


def _list_finished(project: Project, reader: Reader, prompt: Component[Prompt]) -> list[str]:
    """Return the names of the prompts in conf/prompt with which a reader's training is finished."""
    options = {
        name: reader.model_copy(update={"trained_on": Component(load_option("prompt", name))})
        for name in list_options("prompt")
    }
    return [
        name
        for name, other in options.items()
        if resolve_trained_reader(project, other, prompt).is_finished
    ]


def resolve_estimator_path(project: Project) -> str:
    """Return the path of the estimator, or raise MissingArtifactError if it is not trained yet."""
    estimator = project.settings.estimator
    return (
        str(resolve_joint_models(project).require() / "estimator")
        if estimator.trained
        else str(estimator.base)
    )


def resolve_generator_training(project: Project, reader: Reader) -> Artifact:
    """Return the joint training of a generator: `generator` if it is set, else `joint`."""
    settings = project.settings
    setting, training = (
        ("joint@generator", settings.generator) if settings.generator else ("joint", settings.joint)
    )
    if "generator" not in training.trainable:
        raise ConfigError(
            f"reader={reader.name} needs a generator from joint training, but "
            f"{setting}={training.name} makes none. Choose {setting}=re_rag, rag or fid."
        )
    trained_length = training.generator.get("max_length")
    if reader.engine.get("max_length") != trained_length:
        raise ConfigError(
            f"reader.engine.max_length={reader.engine.get('max_length')}, but the generator is "
            f"trained on pairs of joint.generator.max_length={trained_length} tokens. Set both "
            "alike."
        )
    return resolve_joint_models(project, training)
