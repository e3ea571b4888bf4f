"""Labels of cells: what a report calls them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flows.project.artifacts import Project
from flows.settings.composition import list_options, load_option
from flows.settings.typed import Settings
from winnow.sweeps.labels import SAMPLES, CellLabels
from winnow.sweeps.spec import CellSpec


def remove_seed_label(spec: CellSpec) -> CellSpec:
    """Return a cell without the label of its training seed, for cells that use no trained model."""
    return replace(spec, labels=replace(spec.labels, seed=""))


def name_prompts(specs: Sequence[CellSpec]) -> list[CellSpec]:
    """Add names from conf/prompt to the settings of cells whose prompts or training prompts differ.

    A prompt has no name of its own, so that a cell would be described by all its templates. A
    prompt that is not an option has no name; its cells are described by what differs.
    """
    columns = {
        "prompt": [repr(spec.config["prompt"]) for spec in specs],
        "trained on": [
            repr(spec.config["reader"].get("trained_on") or spec.config["prompt"]) for spec in specs
        ],
    }
    varying = {title: column for title, column in columns.items() if len(set(column)) > 1}
    if varying.get("trained on") == varying.get("prompt"):
        varying.pop("trained on", None)
    if not varying:
        return list(specs)
    names = {repr(load_option("prompt", name)): name for name in list_options("prompt")}
    return [
        replace(
            spec,
            settings={
                **spec.settings,
                **{title: names.get(column[at], "own") for title, column in varying.items()},
            },
        )
        for at, spec in enumerate(specs)
    ]


def build_labels(settings: Settings, project: Project) -> CellLabels:
    """Return the labels of the one cell that a configuration describes."""
    placement, distractors = settings.placement.rule.build(), settings.distractors.rule.build()
    searches = "search" in settings.strategy.engines
    mixes_gold = settings.retriever.engine.find_declaring("uses_gold") is not None
    is_damaged = searches and bool(settings.search.damage)
    placement_words = placement.words + (
        f", distractors {settings.distractors.name}" if distractors.uses_gold else ""
    )
    are_placed = bool(settings.k) or (searches and settings.search.rules.build().placed)
    return CellLabels(
        strategy=settings.strategy.name,
        k=settings.k,
        gold=_name_placement(settings),
        samples=settings.decoding.build().samples,
        rank_by=settings.rank_by,
        weight_by=settings.weighting.build().by,
        context=settings.context.name,
        questions="/".join(
            map(
                str,
                (project.questions.folder.name, settings.sweep.split, *_name_selection(settings)),
            )
        ),
        seed=", ".join(str(seed) for seed in settings.seeds or ()),
        uses_gold=(are_placed and (placement.uses_gold or distractors.uses_gold or mixes_gold))
        or is_damaged,
        moves_gold=bool(settings.k) and placement.moves_gold,
        placed=placement_words
        if settings.k
        else "on passages of its own searches"
        if searches
        else "",
    )


def _name_placement(settings: Settings) -> str:
    """Return the name of a placement: that of the option in conf/placement with its rule, with the
    position or share if that is a setting of its own, or else the chosen name with what differs.
    """
    name, rule = settings.placement.name, _drop_seed(settings.placement.rule)
    names = list_options("placement")
    options = {
        option: _drop_seed(load_option("placement", option)["rule"])
        for option in dict.fromkeys([*({name} & set(names)), *names])
    }
    if name not in options:
        numbers = [rule.get("order"), rule.get("share")]
        return "_".join([name, *(f"{one:g}" for one in numbers if isinstance(one, int | float))])
    for option, own in options.items():
        position, share = rule.get("order"), rule.get("share")
        if isinstance(position, int) and isinstance(own.get("order"), int):
            if {**own, "order": position} == rule:
                return f"{option}_{position}"
        elif share is not None and {**own, "share": share} == rule:
            return f"{option}_{share:g}"
        elif own == rule:
            return option
    own = options[name]
    differences = [f"{key}_{value}" for key, value in rule.items() if own.get(key) != value]
    return "_".join([name, *differences])


def _drop_seed(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if key != "seed"}


def _name_selection(settings: Settings) -> tuple[str, str]:
    """Return the limit on the questions and the filter by which they are selected."""
    limit = "none" if settings.sweep.limit is None else str(settings.sweep.limit)
    filter_name = "known" if settings.sweep.closed_book_keeps == "known" else "closed book"
    return limit, filter_name if settings.sweep.closed_book_filter else "none"


def describe_settings(settings: Settings) -> dict[str, str]:
    """Return the settings that the tables show as text if cells differ in them."""
    decoding = settings.decoding.build()
    sampling = f"T={decoding.temperature}" if decoding.temperature > 0 else "greedy"
    by = (settings.rank_by, settings.weighting.build().by)
    ranking, weighting = (
        f"{one} {settings.estimator.name}" if one == "estimator" else one for one in by
    )
    limit, question_filter = _name_selection(settings)
    return {
        "dataset": settings.dataset.name,
        "split": settings.sweep.split,
        "limit": limit,
        "filter": question_filter,
        "retriever": settings.retriever.name,
        "distractors": settings.distractors.name,
        "context": settings.context.name,
        "ranked by": ranking,
        "weighted by": weighting,
        "reader": settings.reader.name,
        "training": settings.training.name if settings.reader.tuned else "none",
        "decoding": sampling,
        SAMPLES: str(decoding.samples),
    }
