"""Shards of a stage: which questions a process treats, where it stores its calls, and which shards are finished."""

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig, open_dict

from flows._models import list_readers, list_teachers
from winnow.artifacts.files import write_texts
from winnow.artifacts.provenance import compute_key
from winnow.errors import ConfigError
from winnow.ledger.stores import is_server
from winnow.sweeps.shards import Shard

_LIMITS = {
    "budget": ("money", "tokens"),
    "pacing": ("requests_per_minute", "tokens_per_minute", "max_concurrency"),
}
"""Settings of an engine that all shards share."""
_WHOLE = ("tokens", "max_concurrency")
"""Those of them that are whole numbers, of which every shard has at least 1."""


def get_shard(cfg: DictConfig) -> Shard | None:
    """Return the shard of the settings, or None if this process answers all questions."""
    return None if cfg.get("shard") is None else Shard.parse(str(cfg.shard))


def get_folder(cfg: DictConfig) -> Path:
    """Return the folder of the shards' ledgers and markers."""
    return Path(cfg.paths.data) / "shards"


def divide_limits(configs: Sequence[DictConfig], shard: Shard) -> list[DictConfig]:
    """Return copies of the settings whose budgets and rate limits are divided by the number of shards."""
    divided = [cfg.copy() for cfg in configs]
    for cfg in divided:
        for engine in _list_engines(cfg):
            for group, names in _LIMITS.items():
                for name in names:
                    value = (engine.get(group) or {}).get(name)
                    if value is not None:
                        with open_dict(engine):
                            part = value / shard.count
                            engine[group][name] = max(1, int(part)) if name in _WHOLE else part
    return divided


def _list_engines(cfg: DictConfig) -> list[DictConfig]:
    """Return the settings of the engines of all roles, and those of the trainings' teachers."""
    nodes = [*list_readers(cfg), *(teacher.reader for teacher in list_teachers(cfg))]
    return [node.engine for node in nodes]


@contextmanager
def hold(cfg: DictConfig, shard: Shard, stage: str) -> Iterator[None]:
    """Keep other processes from running the same shard.

    Raises:
        ConfigError: If another process runs it.

    """
    folder = get_folder(cfg)
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / f"{stage}-{shard.name}.lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise ConfigError(
            f"shard={shard.number}/{shard.count}: another process is running this shard of {stage}. Wait for it, or stop it."
        ) from None
    try:
        yield
    finally:
        os.close(file)


def compute_digest(keys: Sequence[str]) -> str:
    """Compute a digest of what a stage is to make, by the keys of its artifacts."""
    return compute_key("shard", sorted(set(keys)))


def is_finished(cfg: DictConfig, shard: Shard, stage: str, digest: str) -> bool:
    """Return whether a shard is finished, and its ledger is still there."""
    has_ledger = is_server(str(cfg.paths.ledger)) or shard.find_ledger(get_folder(cfg)).is_file()
    marker = _find_marker(cfg, shard, stage, digest)
    return has_ledger and marker.is_file() and json.loads(marker.read_text()).get("ledger") == _name_ledger(cfg)


def finish(cfg: DictConfig, shard: Shard, stage: str, digest: str) -> None:
    """Record that a shard is finished, and with which words of the command line."""
    marker = _find_marker(cfg, shard, stage, digest)
    words = [word for word in sys.argv[1:] if not word.startswith("shard=")]
    write_texts(
        marker.parent,
        {marker.name: json.dumps({"finished": time.time(), "ledger": _name_ledger(cfg), "words": words}, indent=1) + "\n"},
    )


def find_finished(cfg: DictConfig, stage: str, digest: str) -> list[Shard]:
    """Return the finished shards of these settings, whatever their number."""
    names = [file.stem.removeprefix(f"{stage}-{digest}-") for file in get_folder(cfg).glob(f"{stage}-{digest}-*-of-*.json")]
    shards = [Shard.parse(name.replace("-of-", "/")) for name in names]
    return sorted((s for s in shards if is_finished(cfg, s, stage, digest)), key=lambda shard: (shard.count, shard.number))


def _name_ledger(cfg: DictConfig) -> str:
    """Return where a shard's calls are: in the database of all shards, or in a file of its own."""
    return str(cfg.paths.ledger) if is_server(str(cfg.paths.ledger)) else "sqlite"


def describe_other_settings(cfg: DictConfig, shard: Shard, stage: str) -> str | None:
    """Return the words with which a shard was run last, with whatever settings, or None if it was not."""
    markers = sorted(get_folder(cfg).glob(f"{stage}-*-{shard.name}.json"), key=lambda file: file.stat().st_mtime)
    return " ".join(json.loads(markers[-1].read_text()).get("words", [])) if markers else None


def _find_marker(cfg: DictConfig, shard: Shard, stage: str, digest: str) -> Path:
    return get_folder(cfg) / f"{stage}-{digest}-{shard.name}.json"
