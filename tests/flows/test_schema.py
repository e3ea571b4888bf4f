"""Every setting of the configuration has a type, a closed list of words or a range, and is refused beyond it."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
from omegaconf import OmegaConf

from flows._conf import _list_default_keys, compose, list_groups, list_options
from flows._schema import SETTINGS, SUFFIXES, check_settings
from winnow.artifacts.provenance import flatten
from winnow.errors import ConfigError

ALL_METRICS = [f"metric=[{','.join(list_options('metric'))}]"]
CHOICES = [[f"{group}={option}"] for group in list_groups() if group != "metric" for option in list_options(group)] + [
    ALL_METRICS
]
TYPICAL = [
    ["joint=re_rag", "reader=openai", "retriever=hybrid", "estimator=t5", "breakdown=retrieval_score", *ALL_METRICS],
    ["joint=fid", "reader=openai_batch", "encoder=dpr", "estimator=cross_encoder", "prompt=re_rag", "strategy=pruning"],
    ["experiment=quick_start", "estimator=causal", "estimator@nli=nli", "breakdown=gold_rank", "decoding=self_consistency"],
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
        ("placement.rule.gold=first", "placement.rule.gold='first': expected one of keep, insert, insert_all, remove"),
        ("reader=openai reader.engine.pacing.max_concurrency=1.5", "max_concurrency=1.5: expected a valid integer"),
        ("+strategy.plan.vote_by=x", "strategy.plan.vote_by: Concatenation has no such setting"),
        ("corpus.parser._target_=winnow.nowhere.Nothing", "there is no such class"),
    ],
)
def test_what_was_accepted_silently_is_refused(words: str, message: str) -> None:
    """With the setting, the value received and what is expected."""
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        check_settings(compose(words.split()))


@pytest.mark.parametrize("words", TYPICAL, ids=lambda words: words[0])
def test_every_leaf_refuses_what_is_none_of_its_values(words: list[str]) -> None:
    """A mapping, NaN, and by its type: a word for a number, a number for a word, -1 for what counts, an unknown word."""
    plain: Any = OmegaConf.to_container(compose(words), resolve=True)
    accepted = [f"{key}={value!r}" for key, value in _wrong_values(plain) if not _is_refused(plain, key, value)]
    assert accepted == []


def _wrong_values(plain: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in flatten({name: node for name, node in plain.items() if name != "hydra"}).items():
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
    group = key.partition(".")[0]
    changed = OmegaConf.create({group: plain[group]})
    OmegaConf.update(changed, key, value, merge=False)
    try:
        check_settings(changed)  # type: ignore[arg-type]
    except ConfigError:
        return True
    return False


def test_every_setting_of_the_schema_exists_and_every_leaf_is_in_it() -> None:
    """A renamed setting leaves no rule behind, and a new one needs a rule."""
    ruled: set[str] = set()
    unruled: set[str] = set()
    for words in [*CHOICES, *TYPICAL]:
        plain: Any = OmegaConf.to_container(compose(words), resolve=True)
        for key in flatten({name: node for name, node in plain.items() if name not in ("grid", "hydra")}):
            rule = next((name for name in SETTINGS if key == name or key.startswith(f"{name}.")), None)
            rule = rule or next((name for name in SUFFIXES if key.endswith(f".{name}")), None)
            ruled.update([rule] if rule else [])
            if rule is None and key.rpartition(".")[2] not in ANY_VALUE and not _is_of_a_component(plain, key):
                unruled.add(key)
    assert unruled == set()
    assert {*SETTINGS, *SUFFIXES} - ruled == set()


def _is_of_a_component(plain: Any, key: str) -> bool:
    node = plain
    for part in key.split("."):
        if isinstance(node, dict) and "_target_" in node:
            return True
        node = node[part]
    return ".asset." in key  # a parameter of winnow.assets.Asset


def test_the_keys_of_the_default_settings_are_those_that_hydra_composes() -> None:
    """They are read from the file, without Hydra."""
    assert set(_list_default_keys()) == {str(key) for key in compose([]) if key != "hydra"}


def test_only_additional_parameters_of_slurm_are_a_mapping() -> None:
    """They go to sbatch as they are (an account, a constraint); the message names another parameter that is one."""
    words = ["+shards.slurm.slurm_partition=gpu", "+shards.slurm.slurm_additional_parameters={account: lab, nice: 5}"]
    check_settings(compose(words))
    with pytest.raises(ConfigError, match=r"shards.slurm=.*: expected a text, number or list for timeout_min\."):
        check_settings(compose(["+shards.slurm.timeout_min={y: 1}"]))
