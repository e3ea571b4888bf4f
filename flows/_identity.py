"""What identifies a component in the keys of artifacts: its settings, the content of its files, its models' weights.

Each class declares which of its settings do not count (`winnow.identity`); of every other class every setting counts.
"""

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from winnow import identity
from winnow.artifacts.provenance import compute_key, file_digest
from winnow.assets import Asset, is_unchanged_asset
from winnow.errors import ConfigError
from winnow.modeling.loading import weights_digest


@dataclass(frozen=True, slots=True)
class Pinned:
    """The assets of a configuration that are pinned by a SHA-256 or a commit, by the folder they are unpacked to."""

    sources: Mapping[Path, Sequence[Mapping[str, Any]]]

    @classmethod
    def of(cls, cfg: DictConfig) -> "Pinned":
        """Return the pinned assets that a configuration names, wherever it does."""
        sources: dict[Path, list[Mapping[str, Any]]] = {}
        for node in asset_nodes(cfg):
            if node.get("sha256") or str(node.get("address", "")).startswith("hf:"):
                plain: Any = OmegaConf.to_container(node, resolve=True)
                asset = Asset(**plain)
                sources.setdefault(Path(asset.path), []).append(asset.source)
        return cls(sources)

    def digest(self, path: str) -> str | None:
        """Return what identifies a path inside an asset; None for one outside, or with files that are not the asset's.

        An asset that is not unpacked yet is identified like an unpacked one, so that keys do not depend on it.
        """
        for folder, sources in self.sources.items():
            if not Path(path).is_relative_to(folder):
                continue
            below = str(Path(path).relative_to(folder))
            if folder.is_dir() and not any(is_unchanged_asset(folder, source, below) for source in sources):
                return None
            return f"{compute_key(sorted({compute_key(source) for source in sources}))}/{below}"
        return None

    def covers(self, path: str) -> bool:
        """Return whether a path is inside the folder of an asset."""
        return any(Path(path).is_relative_to(folder) for folder in self.sources)

    def model(self, path: str) -> str:
        """Return what identifies a model: its asset, the digest of its weights, or its commit on the hub.

        Raises:
            ConfigError: for a name on the hub without a commit.

        """
        name = None if self.covers(path) else identity.model_name(path)
        if name is not None and not name.is_pinned:
            raise ConfigError(_unpinned(str(name), f"Or is it a folder? There is none at {name}."))
        return self.digest(path) or weights_digest(path)

    def dataset(self, path: str) -> Any:
        """Return what identifies a data set: the content of its files, or its commit on the hub.

        Raises:
            ConfigError: for a name on the hub without a commit.

        """
        name = None if self.covers(path) else identity.dataset_name(path)
        if name is not None and not name.is_pinned:
            raise ConfigError(_unpinned(str(name), ""))
        return self.files(path)

    def files(self, path: Any) -> Any:
        """Return what identifies a file or folder: its asset, or the digests of its content; those of several in a list."""
        if isinstance(path, list):
            return [self.files(item) for item in path]
        if isinstance(path, dict):
            return {name: self.files(item) for name, item in path.items()}
        if pinned := self.digest(str(path)):
            return pinned
        target = Path(path)
        if not target.exists() and glob.has_magic(str(path)):
            return [[name, self.files(name)] for name in sorted(glob.glob(str(path), recursive=True))]
        if target.is_dir():
            files = sorted(file for file in target.rglob("*") if file.is_file())
            return [[str(file.relative_to(target)), file_digest(file)] for file in files]
        return file_digest(target) if target.is_file() else path

    def settings(self, value: Any) -> Any:
        """Return settings as plain values: components without what only changes their speed, files by their content."""
        if OmegaConf.is_config(value):
            value = OmegaConf.to_container(value, resolve=True)
        if isinstance(value, list):
            return [self.settings(item) for item in value]
        if not isinstance(value, dict):
            return value
        target = value.get("_target_")
        return self._component(str(target), value) if target else {k: self.settings(v) for k, v in value.items()}

    def _component(self, target: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        component = component_class(target)
        plain = {name: value for name, value in settings.items() if name != "_target_"}
        plain = identity.resolved(component, plain)
        for name in identity.speed_only(component):
            plain.pop(name, None)
        contents: dict[str, Any] = {}
        for names, identify in (
            (identity.dataset_names(component), self.dataset),
            (identity.input_files(component), self.files),
            (identity.model_paths(component), self.model),
        ):
            for name in names:
                value = _select(plain, name)
                if value is not None:
                    contents.setdefault(name, identify(value))
        plain |= {name: value for name, value in contents.items() if name in plain}
        nested = {name: value for name, value in contents.items() if name not in plain}
        code = {"_target_": target, "revision": identity.revision(component)}
        return {**code, **{name: self.settings(value) for name, value in plain.items()}, **nested}


def asset_nodes(node: Any) -> Iterator[DictConfig]:
    """Yield the settings of every asset in a configuration, at any depth."""
    if isinstance(node, DictConfig):
        for name in node:
            if name == "asset":
                yield node.asset
            else:
                yield from asset_nodes(node._get_node(name))


def _select(settings: Mapping[str, Any], name: str) -> Any:
    """Return a setting by its dotted name, None if it is not set."""
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _unpinned(name: str, hint: str) -> str:
    return (
        f"{name} is a name on the Hugging Face hub without a commit, which does not identify its content. Run "
        f"`python -m flows.acquire` with the same settings, which records the commit in hub.lock.json, or write "
        f"{name.partition('@')[0]}@<commit>. {hint}".strip()
    )


def component_class(target: str) -> type:
    """Return the class that a `_target_` names."""
    try:
        return get_class(target)
    except Exception as error:
        raise ConfigError(f"_target_={target!r}: there is no such class ({error}). Correct it in the YAML.") from error


def slug(name: str) -> str:
    """Return a name as part of a path: letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^\w.+-]+", "-", name).strip("-") or "unnamed"
