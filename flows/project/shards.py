"""Shards of a stage: a process's questions, where it stores its calls, and the finished shards."""

import copy
import fcntl
import json
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.settings.typed import Settings
from winnow.artifacts.files import write_texts
from winnow.artifacts.provenance import compute_key
from winnow.errors import ConfigError
from winnow.ledger.layered import count_calls
from winnow.ledger.stores import is_server
from winnow.protocols import MODEL_ROLES
from winnow.sweeps.shards import Shard

_LIMITS = {
    "budget": ("money", "tokens"),
    "pacing": ("requests_per_minute", "tokens_per_minute", "max_concurrency"),
}
"""Settings of an engine that all shards share."""
_WHOLE = ("tokens", "max_concurrency")
"""Those of them that are whole numbers, of which every shard has at least 1."""


def get_shard(settings: Settings) -> Shard | None:
    """Return the shard of the settings, or None if this process answers all questions."""
    return None if settings.shard is None else Shard.parse(str(settings.shard))


def get_folder(settings: Settings) -> Path:
    """Return the folder of the shards' ledgers and markers."""
    return Path(settings.paths.data) / "shards"


def divide_limits(cells: Sequence[Settings], shard: Shard) -> list[Settings]:
    """Return the cells' settings with budgets and rate limits divided by the number of shards."""
    return [_divide_limits(settings, shard) for settings in cells]


def _divide_limits(settings: Settings, shard: Shard) -> Settings:
    plain = copy.deepcopy(settings.plain)
    for engine in _iter_engines(plain):
        for group, names in _LIMITS.items():
            for name in names:
                value = (engine.get(group) or {}).get(name)
                if value is not None:
                    part = value / shard.count
                    engine[group][name] = max(1, int(part)) if name in _WHOLE else part
    return Settings.load(plain, words=settings.words)


def _iter_engines(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the plain settings of the engines of all roles and of the trainings' teachers."""
    nodes = [plain.get(role) for role in MODEL_ROLES] + [plain["closed_book"].get("reader")]
    teachers = [(plain.get(name) or {}).get("teacher") for name in ("joint", "generator")]
    nodes += [teacher["reader"] for teacher in teachers if teacher]
    yield from (node["engine"] for node in nodes if node)


@contextmanager
def hold(settings: Settings, shard: Shard, stage: str) -> Iterator[None]:
    """Keep other processes from running the same shard.

    Raises:
        ConfigError: If another process runs it.
    """
    folder = get_folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / f"{stage}-{shard.name}.lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise ConfigError(
            f"shard={shard.number}/{shard.count}: another process is running this shard of "
            f"{stage}. Wait for it, or stop it."
        ) from None
    try:
        yield
    finally:
        os.close(file)


def compute_digest(keys: Sequence[str]) -> str:
    """Compute a digest of what a stage is to make, by the keys of its artifacts."""
    return compute_key("shard", sorted(set(keys)))


def is_finished(settings: Settings, shard: Shard, stage: str, digest: str) -> bool:
    """Return whether a shard is finished, and its ledger still has as many calls as then."""
    marker = _find_marker(settings, shard, stage, digest)
    record = json.loads(marker.read_text()) if marker.is_file() else {}
    if record.get("ledger") != _name_ledger(settings):
        return False
    file = shard.find_ledger(get_folder(settings))
    if is_server(str(settings.paths.ledger)):
        return True
    return file.is_file() and count_calls(file) >= record["calls"]


def finish(settings: Settings, shard: Shard, stage: str, digest: str) -> None:
    """Record that a shard is finished, with how many calls and which words of the command line."""
    file = shard.find_ledger(get_folder(settings))
    marker = _find_marker(settings, shard, stage, digest)
    words = [word for word in settings.words if not word.startswith("shard=")]
    write_texts(
        marker.parent,
        {
            marker.name: (
                json.dumps(
                    {
                        "finished": time.time(),
                        "ledger": _name_ledger(settings),
                        "calls": count_calls(file) if file.is_file() else 0,
                        "words": words,
                    },
                    indent=1,
                )
                + "\n"
            )
        },
    )


def find_finished(settings: Settings, stage: str, digest: str) -> list[Shard]:
    """Return the finished shards of these settings, whatever their number."""
    names = [
        file.stem.removeprefix(f"{stage}-{digest}-")
        for file in get_folder(settings).glob(f"{stage}-{digest}-*-of-*.json")
    ]
    shards = [Shard.parse(name.replace("-of-", "/")) for name in names]
    return sorted(
        (s for s in shards if is_finished(settings, s, stage, digest)),
        key=lambda shard: (shard.count, shard.number),
    )


def _name_ledger(settings: Settings) -> str:
    """Return where a shard's calls are: in the database of all shards, or in a file of its own."""
    return str(settings.paths.ledger) if is_server(str(settings.paths.ledger)) else "sqlite"


def describe_other_settings(settings: Settings, shard: Shard, stage: str) -> str | None:
    """Return the words of a shard's last run, with any settings, or None if it was not run."""
    markers = sorted(
        get_folder(settings).glob(f"{stage}-*-{shard.name}.json"),
        key=lambda file: file.stat().st_mtime,
    )
    return shlex.join(json.loads(markers[-1].read_text()).get("words", [])) if markers else None


def _find_marker(settings: Settings, shard: Shard, stage: str, digest: str) -> Path:
    return get_folder(settings) / f"{stage}-{digest}-{shard.name}.json"
