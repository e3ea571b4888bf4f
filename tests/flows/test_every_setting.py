"""Every setting of every configuration is part of a key, or is declared as one that changes no
result.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from flows.project.artifacts import Project
from flows.project.cells import resolve_cell_artifact, resolve_closed_book_artifact
from flows.project.models import resolve_joint_models, resolve_trained_reader
from flows.project.rankings import resolve_planned_rankings, resolve_relevance
from flows.settings.commits import find_references
from flows.settings.components import import_component_class
from flows.settings.composition import (
    Composed,
    compose_config,
    copy_unresolved,
    list_groups,
    list_options,
    load_option,
    resolve_settings,
)
from flows.settings.door import compose
from flows.settings.typed import Settings
from winnow.errors import WinnowError
from winnow.identity.markers import get_speed_only_settings

NO_RESULT = {
    "artifact": "names what flows.why explains",
    "breakdown": "groups stored predictions when they are read",
    "dry_run": "prints an estimate",
    "estimator.relevance_scale": (
        "a strategy or training that uses it has it in its settings (a test of its own)"
    ),
    "evaluate_estimator": "a page over stored scores",
    "evaluate_evaluator": "a page over stored estimates",
    "evaluator": "judges whose verdicts have keys of their own",
    "export": "a copy of rankings, which have keys of their own",
    "pipeline": "which stages are run, not what they compute",
    "export_maps": "a copy of maps, which have keys of their own",
    "facts": "has an artifact and a key of its own",
    "grid": "expands into cells, each with its own key",
    "hydra": "how Hydra runs",
    "method": "a training on rewards has it in its settings (a test of its own)",
    "metric": "computed from stored predictions when they are read",
    "paths": "where artifacts are",
    "power": "a page over stored predictions",
    "calibrate_judge": "compares stored verdicts with labels",
    "watch": "prints what is finished",
    "prices": "computed from stored usage when it is read",
    "seeds": "expands into configurations with other training seeds, each with its own keys",
    "question": "names what flows.show prints",
    "report": "a page over stored predictions",
    "rewriting": "a strategy that uses it has it in its settings (a test of its own)",
    "runner": "where jobs run",
    "shard": "makes calls alone; its parts make those of the whole (a test of its own)",
    "shards": "how many processes make the calls, and where",
    "sweep.name": "names a group of runs",
    "sweep.record_steps": "answers cells of earlier versions again, from the ledger",
    "sweep.retry_empty": (
        "requests replies without text again; the predictions' content digest says whether they "
        "changed"
    ),
    "thresholds": "a strategy that uses them has them in its settings",
    "tracking": "where runs are logged",
    "training.name": "names the choice",
    "strategy.uses_passages": "k and placement, which it removes, are part of the key",
    "strategy.uses_reader": "the training, which it removes, is part of the key",
    "reader.engine.start.version": "what it prints is part of the key",
    "rewriter": "a role that the strategy does not use",
    "reranker": "a role that only plans of retrievers use",
    "rank": "read by plans of retrievers; tests/flows/test_rankings.py changes it",
    "judge": "metrics are computed when they are read",
    "verifier": "a role that the strategy does not use",
    "search": "a role that the strategy does not use",
}
"""Settings outside components that change no artifact, with the reason."""
LABELS = {"name", "price_factor", "size"}
"""Names of choices, which head tables and folders, prices, and the disk space that an asset needs.
"""

STAGES: dict[str, Callable[[Project], Any]] = {
    "corpus": lambda p: p.corpus,
    "index": lambda p: p.resolve_index(),
    "questions": lambda p: p.questions,
    "retrieve": lambda p: p.rankings,
    "rank": resolve_planned_rankings,
    "score": resolve_relevance,
    "train_reader": lambda p: resolve_trained_reader(p, p.settings.reader, p.settings.prompt),
    "train_joint": resolve_joint_models,
    "closed_book": resolve_closed_book_artifact,
    "sweep": resolve_cell_artifact,
}
BEHIND = {
    "corpus": ("index", "questions", "retrieve", "score", "train_joint", "closed_book", "sweep"),
    "index": ("retrieve", "score", "train_joint", "sweep"),
    "questions": ("retrieve", "score", "train_joint", "closed_book", "sweep"),
    "retrieve": ("score", "train_joint", "sweep"),
    "train_joint": ("score", "sweep"),
    "rank": ("score", "sweep"),
    "score": ("sweep",),
    "closed_book": ("sweep",),
}
"""The stages whose keys change with a stage's key."""
BASES = {
    "trained estimator": ["estimator=cross_encoder", "rank_by=estimator", "retriever=dense"],
    "generator of another training": [
        "estimator=t5",
        "joint=re_rag",
        "joint@generator=rag",
        "reader=joint",
        "rank_by=estimator",
        "retriever=dense",
    ],
    "jointly trained reader": [
        "estimator=t5",
        "joint=re_rag",
        "reader=joint",
        "rank_by=estimator",
        "retriever=dense",
    ],
}


@pytest.fixture(autouse=True)
def _accept_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed value need not be one that its component takes, so that the key alone decides."""
    monkeypatch.setattr("flows.settings.components.check_parameters", lambda *_: None)


def names_of(plain: dict[str, Any]) -> set[str]:
    """The names on the hub."""
    return {str(reference.name) for reference in find_references(plain)}


def keys(plain: dict[str, Any], names: set[str] | None = None) -> dict[str, str]:
    """The key of every stage; a stage that these settings do not have, or refuse, has the message
    instead.

    Args:
        plain: Settings.
        names: Names on the hub that have a commit; by default all.
    """
    pinned = copy.deepcopy(plain)
    try:
        for reference in list(find_references(pinned)):
            if names is None or str(reference.name) in names:
                reference.node[reference.key] = f"{reference.name.name}@{'0' * 40}"
        project = Project(Settings.load(pinned))
    except WinnowError as error:
        return dict.fromkeys(STAGES, f"refused: {error}")
    found = {}
    for stage, artifact in STAGES.items():
        try:
            found[stage] = artifact(project).key
        except (WinnowError, AttributeError) as error:
            found[stage] = f"refused: {error}"
    return found


Leaf = tuple[str, type | None, bool]


def leaves(
    node: Any, path: str = "", component: type | None = None, exempt: bool = False
) -> Iterator[Leaf]:
    """Every leaf that has a value of its own, the component that it is of, and whether it is
    declared to change no result.
    """
    if not isinstance(node, DictConfig):
        return
    if "_target_" in node:
        component = import_component_class(str(node._target_))
    for key in map(str, node):
        inner, name = node._get_node(key), f"{path}.{key}" if path else key
        if OmegaConf.is_interpolation(node, key) or key == "_target_":
            continue
        declared = exempt or is_exempt(name, component)
        if isinstance(inner, DictConfig) and inner:
            yield from leaves(inner, name, component, declared)
        else:
            yield name, component, declared


def changed(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case None:
            return 1
        case dict():
            return {"other": 1}
        case list():
            return [*value, "other"]
    raise AssertionError(value)


def is_exempt(name: str, component: type | None) -> bool:
    if any(name == prefix or name.startswith(f"{prefix}.") for prefix in NO_RESULT):
        return True
    parts = name.split(".")
    if component is None:
        return parts[-1] in LABELS or parts[-2:] == ["asset", "path"]
    return parts[-1] in get_speed_only_settings(component)


def is_evaluation_of_replies(cfg: Composed, name: str) -> bool:
    """Whether a setting is of the evaluation of a training on replies, which is a table of the log
    and keeps no epoch.
    """
    training, _, rest = name.rpartition(".evaluation.")
    return (
        bool(rest)
        and training in ("training", "training.start")
        and "method" not in OmegaConf.select(cfg, training)
    )


SEEN: set[tuple[str, type]] = set()
"""Settings of components that were changed in some choice; another choice of the same class is
identified alike.
"""


def unnoticed(cfg: Composed, group: str = "") -> list[str]:
    """The settings that no key notices, and those that a stage notices but not every stage behind
    it.

    Args:
        cfg: Settings.
        group: Group whose settings are changed, those of components that were not seen yet; by
            default, all are.
    """
    OmegaConf.set_struct(cfg, False)
    plain = resolve_settings(cfg)
    before, names, faults = keys(plain), names_of(plain), []
    absent = set() if cfg.rank_by == "estimator" else {("train_joint", "score"), ("score", "sweep")}
    for name, component, exempt in leaves(cfg):
        if (
            exempt
            or not name.startswith(group and f"{group}.")
            or is_evaluation_of_replies(cfg, name)
        ):
            continue
        if group and component is not None:
            if (name, component) in SEEN:
                continue
            SEEN.add((name, component))
        value = OmegaConf.select(cfg, name)
        plain = (
            OmegaConf.to_container(value, resolve=False) if OmegaConf.is_config(value) else value
        )
        OmegaConf.update(cfg, name, changed(plain), merge=False)
        after = keys(resolve_settings(cfg), names)
        OmegaConf.update(cfg, name, value, merge=False)
        stages = [stage for stage in STAGES if after[stage] != before[stage]]
        if not stages:
            faults.append(name)
        faults += [
            f"{name}: {stage} but not {b}"
            for stage in stages
            for b in BEHIND.get(stage, ())
            if b not in stages and (stage, b) not in absent
        ]
    return faults


@pytest.mark.parametrize("base", BASES)
def test_every_setting_is_part_of_a_key(base: str) -> None:
    """Changing it changes the key of the stage that reads it and of every stage behind that."""
    assert unnoticed(compose_config(BASES[base])) == []


COMPONENTS = [
    g
    for g in list_groups()
    if g
    in (
        "corpus",
        "dataset",
        "encoder",
        "retriever",
        "estimator",
        "reader",
        "prompt",
        "decoding",
        "strategy",
        "placement",
        "distractors",
        "context",
        "training",
        "joint",
    )
]


@pytest.mark.parametrize(
    ("group", "choice"),
    [(group, choice) for group in COMPONENTS for choice in list_options(group)],
)
def test_every_setting_of_every_choice_is_part_of_a_key(group: str, choice: str) -> None:
    """Each choice of each group that a stage reads."""
    base = BASES["trained estimator"] if group != "estimator" else ["rank_by=estimator"]
    words = [word for word in base if not word.startswith(f"{group}=")]
    if choice in ("joint", "fid") and group == "reader":
        words += ["joint=re_rag", "estimator=t5"]
    if group == "joint" and choice in ("rag", "fid"):  # their estimator is not trained
        words = ["reader=joint"]
    cfg = copy_unresolved(compose_config(words))
    cfg[group] = OmegaConf.create(load_option(group, choice))  # as a grid does
    if choice == "vllm":
        cfg.reader.program = "env"  # an installed program that prints a version
    assert unnoticed(cfg, group) == []


def test_the_scale_of_relevance_is_part_of_the_keys_of_what_uses_it() -> None:
    """Corrective retrieval and the training of its evaluator."""
    words = [
        "strategy=crag",
        "joint=crag_evaluator",
        "estimator=t5_regression",
        "retriever=dense",
        "rank_by=estimator",
    ]
    scaled = "estimator.relevance_scale=tanh"
    before, after = (keys(compose([*words, *more]).plain) for more in ([], [scaled]))
    assert not any(
        key.startswith("refused")
        for one in (before, after)
        for stage, key in one.items()
        if stage != "rank"
    )
    assert {stage for stage in STAGES if after[stage] != before[stage]} == {
        "train_joint",
        "score",
        "sweep",
    }
    others = [word for word in words if word != "joint=crag_evaluator"] + ["rank_by=retriever"]
    before, after = (keys(compose([*others, *more]).plain) for more in ([], [scaled]))
    assert after["sweep"] != before["sweep"]


def test_the_method_is_part_of_the_keys_of_trainings_on_rewards() -> None:
    """And of no other."""
    for training, is_part in (
        ("cite_sft_rewarded", True),
        ("cite_rewarded", True),
        ("cite", False),
        ("sft", False),
    ):
        words = [f"training={training}", "prompt=rage_short", "reader=smollm2_tuned"]
        first, other = (keys(compose([*words, f"method={name}"]).plain) for name in ("ppo", "grpo"))
        clipped = keys(compose([*words, "method.clip=0.3"]).plain)
        assert [first[stage] != other[stage] for stage in ("train_reader", "sweep")] == [
            is_part
        ] * 2
        assert [first[stage] != clipped[stage] for stage in ("train_reader", "sweep")] == [
            is_part
        ] * 2
