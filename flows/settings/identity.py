"""Identifies components in artifact keys by their settings, file contents and model weights.

A class declares the settings that do not change its results (see `winnow.identity`); all other
settings are part of the key.
"""

import dataclasses
import glob
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.settings.components import import_component_class
from flows.settings.sections import Section
from winnow.artifacts.files import iter_files
from winnow.artifacts.provenance import compute_file_digest, compute_key
from winnow.assets import is_unchanged_asset
from winnow.downloads import Asset
from winnow.errors import ConfigError
from winnow.identity import hub, markers
from winnow.identity.code import get_revision
from winnow.identity.modules import is_in_winnow
from winnow.modeling.loading import compute_weights_digest

_MAX_SLUG = 150
"""Bytes of a name in a path. File systems allow 255, of which keys, temporary names and names of
two parts take some.
"""
_PINNED_ADDRESS = re.compile(r"^hf://[^@]+@[0-9a-f]{40}/")


@dataclass(frozen=True, slots=True)
class PinnedAssets:
    """The assets of a configuration whose content is pinned by a SHA-256 or a commit.

    Attributes:
        sources: Address, checksum and members of the assets, by the folder that they are unpacked
            to.
    """

    sources: Mapping[Path, Mapping[str, Any]]

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any]) -> "PinnedAssets":
        """Collect the pinned assets of settings, at any depth."""
        sources: dict[Path, Mapping[str, Any]] = {}
        for node in iter_asset_nodes(plain):
            if node.get("sha256") or str(node.get("address", "")).startswith("hf:"):
                asset = Asset(**node)
                first = sources.setdefault(Path(asset.path), asset.source)
                if first != asset.source:
                    raise ConfigError(
                        f"Two assets are unpacked to {asset.path}: {first['address']} and "
                        f"{asset.address} (or another checksum or members of it). Give one of them "
                        "another `asset.path`."
                    )
        return cls(sources)

    def compute_digest(self, path: str) -> str | None:
        """Return the digest of the asset that contains a path, with the path inside it.

        Returns None for a path outside all assets, and for files that were changed after they were
        unpacked. An asset that is not unpacked yet has the same digest as afterwards, so that keys
        do not depend on it.
        """
        for folder, source in self.sources.items():
            if not Path(path).is_relative_to(folder):
                continue
            inner_path = str(Path(path).relative_to(folder))
            if folder.is_dir() and not is_unchanged_asset(folder, source, inner_path):
                return None
            return f"{compute_key([compute_key(source)])}/{inner_path}"
        return None

    def covers(self, path: str) -> bool:
        """Return whether a path is inside the folder of a pinned asset."""
        return any(Path(path).is_relative_to(folder) for folder in self.sources)

    def identify_model(self, path: str) -> str:
        """Identify a model by its asset, the digest of its weights, or its commit on the hub.

        Raises:
            ConfigError: If it is a name on the hub without a commit.
        """
        name = None if self.covers(path) else hub.parse_model_name(path)
        if name is not None and not name.is_pinned:
            raise ConfigError(
                _describe_unpinned(str(name), f"If it is meant as a folder: {name} does not exist.")
            )
        return self.compute_digest(path) or compute_weights_digest(path)

    def identify_dataset(self, path: str) -> Any:
        """Identify a data set by the content of its files, or by its commit on the hub.

        Raises:
            ConfigError: If it is a name on the hub without a commit.
        """
        name = None if self.covers(path) else hub.parse_dataset_name(path)
        if name is not None and not name.is_pinned:
            raise ConfigError(_describe_unpinned(str(name), ""))
        return self.identify_files(path)

    def identify_files(self, path: Any) -> Any:
        """Identify files and folders, also in lists and mappings, by asset or content digest."""
        if isinstance(path, list):
            return [self.identify_files(item) for item in path]
        if isinstance(path, dict):
            return {name: self.identify_files(item) for name, item in path.items()}
        if not path:  # an optional file
            return path
        if digest := self.compute_digest(str(path)):
            return digest
        if "://" in str(path) and not _PINNED_ADDRESS.search(str(path)):
            raise ConfigError(
                f"{path} is an address, whose content may change while its name does not. Fetch "
                "the file with an `asset` (docs/data.md), or pin a file of the hub to its commit, "
                "as in hf://datasets/owner/name@<40 hexadecimal digits>/train.jsonl."
            )
        target = Path(path)
        if not target.exists() and glob.has_magic(str(path)):
            return [
                [name, self.identify_files(name)]
                for name in sorted(glob.glob(str(path), recursive=True))
            ]
        if target.is_dir():
            return [
                [str(file.relative_to(target)), compute_file_digest(file)]
                for file in sorted(iter_files(target))
            ]
        return compute_file_digest(target) if target.is_file() else path

    def identify_settings(self, value: Any) -> Any:
        """Return plain settings for a key, without speed-only ones and with contents for paths."""
        if isinstance(value, Section):
            value = value.plain
        if isinstance(value, list):
            return [self.identify_settings(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        target = value.get("_target_")
        if target:
            return self._identify_component(str(target), value)
        return {name: self.identify_settings(inner) for name, inner in value.items()}

    def _identify_component(self, target: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that identify a component, with the revision of its class."""
        component = import_component_class(target)
        plain = {name: value for name, value in settings.items() if name != "_target_"}
        plain = markers.resolve_component_settings(
            component, plain if is_in_winnow(target) else _add_defaults(component, plain)
        )
        for name in markers.get_speed_only_settings(component):
            plain.pop(name, None)
        contents: dict[str, Any] = {}
        for names, identify in (
            (markers.get_dataset_name_settings(component), self.identify_dataset),
            (markers.get_input_file_settings(component), self.identify_files),
            (markers.get_model_path_settings(component), self.identify_model),
        ):
            for name in names:
                value = _select(plain, name)
                if value is not None:
                    contents.setdefault(name, identify(value))
        plain |= {name: value for name, value in contents.items() if name in plain}
        nested_contents = {name: value for name, value in contents.items() if name not in plain}
        name = (
            target if is_in_winnow(target) else component.__qualname__
        )  # a module of one's own may move
        code = {"_target_": name, "revision": get_revision(component)}
        return {
            **code,
            **{name: self.identify_settings(value) for name, value in plain.items()},
            **nested_contents,
        }


def divide_search_settings(settings: Any) -> tuple[Any, dict[str, Any]]:
    """Divide a retriever's settings into index settings and, by dotted name, search-only ones."""
    if isinstance(settings, list):
        divided = [divide_search_settings(item) for item in settings]
        search_settings = {
            f"{n}.{name}": value
            for n, (_, inner) in enumerate(divided)
            for name, value in inner.items()
        }
        return [index_settings for index_settings, _ in divided], search_settings
    if not isinstance(settings, Mapping):
        return settings, {}
    target = settings.get("_target_")
    search_only = (
        markers.get_search_only_settings(import_component_class(str(target))) if target else ()
    )
    index_settings: dict[str, Any] = {}
    search_settings = {}
    for name, value in {str(name): value for name, value in settings.items()}.items():
        if name in search_only:
            search_settings[name] = value
        else:
            index_settings[name], inner = divide_search_settings(value)
            search_settings |= {f"{name}.{key}": inner_value for key, inner_value in inner.items()}
    return index_settings, search_settings


def iter_asset_nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the settings of every asset, at any depth."""
    if isinstance(node, Mapping):
        for name, inner in node.items():
            if name == "asset" and inner is not None:
                yield inner
            else:
                yield from iter_asset_nodes(inner)


def _add_defaults(component: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add a class's default files and models to its settings, to identify them by content too."""
    marked_names = {
        *markers.get_dataset_name_settings(component),
        *markers.get_input_file_settings(component),
        *markers.get_model_path_settings(component),
    }
    parameters = inspect.signature(component).parameters
    defaults = {
        name: parameters[name].default
        for name in marked_names
        if name in parameters and name not in settings
    }
    fields = dataclasses.fields(component) if dataclasses.is_dataclass(component) else ()
    defaults |= {
        field.name: field.default_factory()
        for field in fields
        if field.name in defaults and field.default_factory is not dataclasses.MISSING
    }
    values = {
        name: value
        for name, value in defaults.items()
        if value is not inspect.Parameter.empty and value is not None
    }
    return {
        **settings,
        **{
            name: str(value) if isinstance(value, Path) else value for name, value in values.items()
        },
    }


def _select(settings: Mapping[str, Any], name: str) -> Any:
    """Return a setting by its dotted name, or None if it is not set."""
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _describe_unpinned(name: str, hint: str) -> str:
    """Return the message for a name on the hub without a commit."""
    return (
        f"{name} is a name on the Hugging Face hub without a commit, which does not identify its "
        "content. Run `python -m flows.acquire` with the same settings, which records the commit "
        f"in hub.lock.json, or set the name to {name.partition('@')[0]}@<commit>. {hint}".strip()
    )


def slugify(name: str) -> str:
    """Return a path-safe name of at most 150 bytes, with only letters, digits and "._+-"."""
    slug = re.sub(r"[^\w.+-]+", "-", name).strip("-")
    return slug.encode()[:_MAX_SLUG].decode(errors="ignore") or "unnamed"
