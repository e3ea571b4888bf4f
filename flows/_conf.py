"""Composes conf/, and lists its groups, choices and keys."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from winnow.errors import ConfigError

CONF = Path(__file__).resolve().parent.parent / "conf"


def compose(overrides: Sequence[str]) -> DictConfig:
    """Compose conf/ with overrides, outside a Hydra run or within one."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException

    try:
        running = GlobalHydra.instance().is_initialized()
        with nullcontext() if running else initialize_config_dir(str(CONF), version_base="1.3"):
            return hydra_compose("config", overrides=list(overrides))
    except HydraException as error:
        raise ConfigError(f"conf/ cannot be composed with {list(overrides)}: {error}") from error


REQUIRED = {
    "corpus": ("name", "parser"),
    "dataset": ("name", "parser", "split"),
    "retriever": ("name", "engine"),
    "estimator": ("name", "engine"),
    "reader": ("name", "tuned", "base", "engine"),
    "strategy": ("name", "plan"),
}
"""The keys that every choice of a group has."""


def check_choices(cfg: DictConfig) -> None:
    """Check that the chosen components have the keys of their groups.

    Raises:
        ConfigError: with the group and the keys that its YAML lacks.

    """
    for group, keys in REQUIRED.items():
        if group in cfg and (missing := [key for key in keys if key not in cfg[group]]):
            chosen = cfg[group].get("name", "unnamed")
            raise ConfigError(f"conf/{group}/ ({chosen}): the YAML lacks {', '.join(missing)}. Add it, as in its neighbours.")
    for name, node in cfg.get("metric", {}).items():
        if not isinstance(node, DictConfig) or "_target_" not in node:
            raise ConfigError(
                f"conf/metric/: {name!r} is no metric. The first line of a metric's YAML is `# @package metric.<name>`; "
                f"received {node!r}."
            )


def copy_unresolved(cfg: DictConfig) -> DictConfig:
    """Return a copy of a composed configuration that can be changed; interpolations stay as they are."""
    copied = OmegaConf.create(OmegaConf.to_container(cfg, resolve=False))
    assert isinstance(copied, DictConfig)
    return copied


def groups() -> list[str]:
    """Return the names of the folders of conf/."""
    return sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())


def options(group: str) -> list[str]:
    """Return the choices of a group."""
    return sorted(str(file.relative_to(CONF / group).with_suffix("")) for file in (CONF / group).rglob("*.yaml"))


def is_group(key: str) -> bool:
    """Return whether a key names a folder of conf/."""
    return (CONF / key).is_dir()


def flat_keys(cfg: Any, prefix: str = "") -> list[str]:
    """Return every dotted key of a config, inner nodes included."""
    if isinstance(cfg, ListConfig):
        return [f"{prefix}.{n}" for n in range(len(cfg))]
    if not isinstance(cfg, DictConfig):
        return []
    keys: list[str] = []
    for name in cfg:
        key = ".".join([prefix, str(name)] if prefix else [str(name)])
        keys += [key, *flat_keys(cfg._get_node(name), key)]
    return keys
