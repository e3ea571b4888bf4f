"""Every setting of the configuration has a type, a closed list of words or a range, and is refused
beyond it.
"""

import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from flows.settings.composition import list_groups, list_options
from flows.settings.door import compose
from flows.settings.sections import Dataset, Estimator, Section
from flows.settings.typed import Settings
from winnow.artifacts.provenance import flatten
from winnow.errors import ConfigError

ALL_METRICS = [f"metric=[{','.join(list_options('metric'))}]"]
_OPTIONS = {
    group: [f"{group}={option}" for option in list_options(group)]
    for group in list_groups()
    if group not in ("metric", "experiment")
}
CHOICES = [
    *([word for word in words if word] for words in itertools.zip_longest(*_OPTIONS.values())),
    ALL_METRICS,
    *(
        [f"experiment={name}"]
        for name in ("crag/published_biography", "rage/published_sft", "re_rag/published_table6")
    ),
]
"""Words with which each option of each group is composed once, and some experiments."""
_OTHER_MODELS = [
    "reader@verifier=openai", "reader@reranker=openai", "reader@closed_book.reader=openai",
    "joint@generator=rag", "prompt@reader.trained_on=plain",
]  # fmt: skip
TYPICAL = [
    [
        "joint=re_rag",
        "reader=openai",
        "retriever=hybrid",
        "estimator=t5",
        "breakdown=retrieval_score",
        *ALL_METRICS,
    ],
    [
        "joint=fid",
        "reader=openai_batch",
        "encoder=dpr",
        "estimator=cross_encoder",
        "prompt=re_rag",
        "strategy=pruning",
    ],
    [
        "experiment=quick_start",
        "estimator=causal",
        "estimator@nli=nli",
        "breakdown=gold_rank",
        "decoding=self_consistency",
    ],
]
"""Configurations that together have most settings."""
ANY_VALUE = {
    "_target_": "names a class",
    "grid": "is expanded into cells, which are checked",
    "question": "is an id, a text or a number",
    "seeds": "has a check of its own",
    "order": "is a word or a position",
    "extra": "has the fields that a server takes",
    "teacher": "is a reader, or null",
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("k=five", "k='five': expected a valid integer"),
        ("k=5.5", "k=5.5: expected a valid integer"),
        ("k=true", "k=True: expected a valid integer"),
        ("k=-1", "k=-1: expected greater than or equal to 0"),
        ("sweep.limit=-1", "sweep.limit=-1: expected greater than or equal to 1"),
        ("depth=null", "depth=None: expected a valid integer"),
        ("rank_by=estimater", "rank_by='estimater': expected one of retriever, estimator"),
        ("dry_run=maybe", "dry_run='maybe': expected a valid boolean"),
        ("decoding.temperature=nan", "decoding.temperature=nan: expected a finite number"),
        (
            "placement.rule.gold=first",
            "placement.rule.gold='first': expected one of keep, insert, insert_all, remove",
        ),
        (
            "reader=openai reader.engine.pacing.max_concurrency=1.5",
            "max_concurrency=1.5: expected a valid integer",
        ),
        ("+strategy.plan.vote_by=x", "strategy.plan.vote_by: Concatenation has no such setting"),
        ("corpus.parser._target_=winnow.nowhere.Nothing", "there is no such class"),
    ],
)
def test_what_was_accepted_silently_is_refused(words: str, message: str) -> None:
    """With the setting, the value received and what is expected."""
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        compose(words.split())


@pytest.mark.parametrize("words", TYPICAL, ids=lambda words: words[0])
def test_every_leaf_refuses_what_is_none_of_its_values(words: list[str]) -> None:
    """A mapping, NaN, and by its type: a word for a number, a number for a word, -1 for what
    counts, an unknown word.
    """
    plain = compose(words).plain
    accepted = [
        f"{key}={value!r}"
        for key, value in _wrong_values(plain)
        if not _is_refused(plain, key, value)
    ]
    assert accepted == []


def _wrong_values(plain: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in flatten(plain).items():
        if {key, key.partition(".")[0], key.rpartition(".")[2]} & set(ANY_VALUE):
            continue
        yield key, {"x": {"y": 1}}
        yield key, math.nan
        if isinstance(value, bool):
            yield key, "maybe"
        elif isinstance(value, int | float):
            yield from ((key, "many"), (key, True))
        elif isinstance(value, str):
            yield from ((key, 3), (key, ["a", {"b": 1}]))


def _is_refused(plain: dict[str, Any], key: str, value: Any) -> bool:
    changed = copy.deepcopy(plain)
    *parents, name = key.split(".")
    node = changed
    for parent in parents:
        node = node[parent]
    node[name] = value
    try:
        Settings.load(changed)
    except ConfigError:
        return True
    return False


def test_every_setting_of_a_section_is_used_by_some_choice() -> None:
    """A renamed setting leaves none behind; an unknown one is refused wherever settings
    are loaded.
    """
    used = {(Estimator, "asset"), (Dataset, "sources")}  # of users' own options
    for words in [*CHOICES, *TYPICAL, _OTHER_MODELS]:
        _collect_used(compose(words), used)
    known = {
        (section, name) for section in _list_sections(Settings) for name in section.model_fields
    }
    assert known - used == set()


def _collect_used(section: Section, used: set[tuple[Any, str]]) -> None:
    for name in section.model_fields_set:
        used.add((type(section), name))
        value = getattr(section, name)
        for inner in (
            value
            if isinstance(value, list)
            else value.values()
            if isinstance(value, dict)
            else [value]
        ):
            if isinstance(inner, Section):
                _collect_used(inner, used)


def _list_sections(section: type[Section]) -> set[type[Section]]:
    found = {section}
    kinds = [field.annotation for field in section.model_fields.values()]
    while kinds:
        kind = kinds.pop()
        kinds += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Section) and kind not in found:
            found.add(kind)
            kinds += [field.annotation for field in kind.model_fields.values()]
    return found


def test_unknown_names_are_refused_with_the_nearest() -> None:
    """In the YAML of a strategy, where a misspelt marker would have no effect; at the top; and
    inside a list.
    """
    plain = compose([]).plain
    wrong = {**plain, "strategy": {**plain["strategy"], "uses_passage": False}}
    with pytest.raises(
        ConfigError,
        match=r"There is no setting 'strategy.uses_passage'. Did you mean 'uses_passages'",
    ):
        Settings.load(wrong)
    with pytest.raises(
        ConfigError, match=r"There is no setting 'stratgy'. Did you mean 'strategy'"
    ):
        Settings.load({**plain, "stratgy": 1})
    with pytest.raises(ConfigError, match=r"prices\.table: the entry 0 lacks 'output'\."):
        Settings.load({**plain, "prices": {"table": [{"model": "x", "input": 1, "outptu": 2}]}})


def test_settings_without_a_group_are_refused_with_what_to_do() -> None:
    """All that are missing at once."""
    plain = {
        name: value for name, value in compose([]).plain.items() if name not in ("corpus", "reader")
    }
    with pytest.raises(
        ConfigError, match=r"The settings lack corpus, reader\. .*`--help` lists them"
    ):
        Settings.load(plain)


def test_only_additional_parameters_of_slurm_are_a_mapping() -> None:
    """They go to sbatch as they are (an account, a constraint); the message names another parameter
    that is one.
    """
    words = [
        "+shards.slurm.slurm_partition=gpu",
        "+shards.slurm.slurm_additional_parameters={account: lab, nice: 5}",
    ]
    compose(words)
    with pytest.raises(
        ConfigError, match=r"shards.slurm=.*: expected a text, number or list for timeout_min\."
    ):
        compose(["+shards.slurm.timeout_min={y: 1}"])
