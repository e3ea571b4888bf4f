"""What identifies a component in the keys of artifacts: its settings, the content of its files, its models' weights.

Each class declares which of its settings do not count (`winnow.identity`); of every other class every setting counts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from winnow import identity
from winnow.artifacts.provenance import file_digest, key_of
from winnow.assets import Asset, is_unchanged_asset
from winnow.errors import ConfigError
from winnow.modeling.loading import weights_digest


@dataclass(frozen=True, slots=True)
class Pinned:
    """The assets of a configuration that are pinned by a SHA-256, by the folder they are unpacked to."""

    sources: Mapping[Path, Sequence[Mapping[str, Any]]]

    @classmethod
    def of(cls, cfg: DictConfig) -> "Pinned":
        """Return the pinned assets that a configuration names, wherever it does."""
        sources: dict[Path, list[Mapping[str, Any]]] = {}
        for node in _assets(cfg):
            if node.get("sha256"):
                plain: Any = OmegaConf.to_container(node, resolve=True)
                asset = Asset(**plain)
                sources.setdefault(Path(asset.path), []).append(asset.source)
        return cls(sources)

    def digest(self, path: str) -> str | None:
        """Return what identifies a path inside an asset; None for one outside, or with files that are not the asset's.

        An asset that is not unpacked yet is identified like an unpacked one, so that keys do not depend on it.
        """
        for folder, sources in self.sources.items():
            if Path(path) != folder and folder not in Path(path).parents:
                continue
            below = str(Path(path).relative_to(folder))
            if folder.is_dir() and not any(is_unchanged_asset(folder, source, below) for source in sources):
                return None
            return f"{key_of(sorted({key_of(source) for source in sources}))}/{below}"
        return None

    def model(self, path: str) -> str:
        """Return what identifies a model: its asset, or the digest of its weights."""
        return self.digest(path) or weights_digest(path)

    def files(self, path: str) -> Any:
        """Return what identifies a file or folder: its asset, or the digests of its content."""
        if pinned := self.digest(path):
            return pinned
        target = Path(path)
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
        for name in identity.input_files(component):
            if plain.get(name) is not None:
                plain[name] = self.files(str(plain[name]))
        for name in identity.model_paths(component):
            if plain.get(name) is not None:
                plain[name] = self.model(str(plain[name]))
        return {"_target_": target, **{name: self.settings(value) for name, value in plain.items()}}


def _assets(node: Any) -> Iterator[DictConfig]:
    if isinstance(node, DictConfig):
        for name in node:
            if name == "asset":
                yield node.asset
            else:
                yield from _assets(node._get_node(name))


def component_class(target: str) -> type:
    """Return the class that a `_target_` names."""
    try:
        return get_class(target)
    except Exception as error:
        raise ConfigError(f"_target_={target!r}: there is no such class ({error}). Correct it in the YAML.") from error


def slug(name: str) -> str:
    """Return a name as part of a path: letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^\w.+-]+", "-", name).strip("-") or "unnamed"
