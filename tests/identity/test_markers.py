"""What the annotations of parameters declare, and what is refused because it would
declare nothing.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest

import winnow
from winnow.errors import ConfigError
from winnow.identity.markers import (
    DatasetName,
    InputFile,
    ModelName,
    NotAFile,
    SearchOnly,
    SpeedOnly,
    get_dataset_name_settings,
    get_input_file_settings,
    get_model_path_settings,
    get_search_only_settings,
    get_speed_only_settings,
    read_annotations,
    resolve_component_settings,
)

IGNORED = {
    "Dense": "nprobe* ef_search* gpu",
    "DenseOnDisk": "nprobe* candidates*",
    "Hybrid": "rrf_k*",
    "JsonSearchApi": "api_key_variable",
    "LocalEngine": "device batch_tokens batch_size capacity",
    "LocalReader": "converted cache_gb",
    "LocalSearch": "capacity",
    "LoopSettings": (
        "chunk_tokens gradient_caching gradient_checkpointing max_loss device save_steps "
        "logging_steps"
    ),
    "Mixture": "relevant* irrelevant* seemingly_relevant* seed*",
    "NeighborMaps": "neighbors* irrelevant* depth* exclude_answers* seed*",
    "OpenAIBatchReader": "state poll_seconds capacity patience",
    "OpenAIEngine": "base_url api_key_variable served_model model_change budget",
    "OpenAIReader": "samples_per_call pacing dialect",
    "PairEstimator": "batch_tokens",
    "PairModel": "device",
    "ServerProcess": "health folder timeout",
    "SftSettings": "device save_steps logging_steps",
    "Splade": "block_size",
    "Tantivy": "writer_megabytes",
    "TextEncoder": "device batch_tokens",
    "WebSearch": "max_concurrency max_failures",
}
"""Parameters that are not part of a key, by the class that declares them. Those with a * are not
part of an index's key, but of a search's.
"""


@dataclass
class Base:
    """Has markers."""

    path: Annotated[str, InputFile]
    batch_size: Annotated[int, SpeedOnly("batches")] = 1
    options: Annotated[Mapping[str, Any] | None, InputFile("data_files", "data_dir")] = None


@dataclass
class Derived(Base):
    """Has more, and resolves."""

    model: Annotated[str, ModelName] = ""
    base: Annotated[str | None, DatasetName] = None
    threads: Annotated[int, SpeedOnly("threads")] = 1
    nprobe: Annotated[int, SearchOnly] = 1
    log_folder: Annotated[str, NotAFile("a name")] = ""

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Resolve "auto"."""
        return {**settings, "dtype": "float32"}


class Silent:
    """Declares nothing."""


def test_markers_add_up_along_the_bases() -> None:
    """A subclass keeps what its base declares; reasons come with the names, entries of mappings
    with dots.
    """
    assert get_speed_only_settings(Derived) == {"batch_size": "batches", "threads": "threads"}
    assert get_speed_only_settings(Base) == {"batch_size": "batches"}
    assert get_input_file_settings(Derived) == ["path", "options.data_files", "options.data_dir"]
    assert (get_model_path_settings(Derived), get_dataset_name_settings(Derived)) == (
        ["model"],
        ["base"],
    )
    assert get_search_only_settings(Derived) == ["nprobe"]


def test_no_other_setting_is_left_out_of_keys() -> None:
    """A marker that leaves a setting out is a decision: results of two of its values are taken for
    the same.
    """
    ignored = {}
    for module in pkgutil.walk_packages(winnow.__path__, "winnow."):
        for name, component in vars(importlib.import_module(module.name)).items():
            if isinstance(component, type) and component.__module__ == module.name:
                annotations = {
                    key: str(value) for key, value in inspect.get_annotations(component).items()
                }
                names = [
                    f"{key}{'*' if 'SearchOnly' in text else ''}"
                    for key, text in annotations.items()
                    if "SpeedOnly" in text or "SearchOnly" in text
                ]
                ignored |= {name: " ".join(names)} if names else {}
    assert ignored == IGNORED, (
        "Add the parameters that you marked as SpeedOnly or SearchOnly to IGNORED, if two of their "
        "values really give the same results, or the same index."
    )


def test_every_setting_counts_by_default() -> None:
    """A class without markers leaves nothing out."""
    found = (
        get_speed_only_settings(Silent),
        get_input_file_settings(Silent),
        get_model_path_settings(Silent),
    )
    assert found == ({}, [], [])


def test_auto_is_resolved_or_refused() -> None:
    """Unless it changes only the speed."""
    assert resolve_component_settings(Derived, {"dtype": "auto"}) == {"dtype": "float32"}
    assert resolve_component_settings(Base, {"batch_size": "auto"}) == {"batch_size": "auto"}
    with pytest.raises(
        ConfigError, match=r"Silent: dtype=auto means something else on each machine"
    ):
        resolve_component_settings(Silent, {"dtype": "auto"})


def component(name: str, annotation: object) -> type:
    """A class with one parameter."""

    class Mine:
        """Has a parameter."""

    Mine.__init__ = lambda self: None  # type: ignore[method-assign,misc]
    import inspect

    parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    Mine.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    return Mine


@pytest.mark.parametrize(
    ("name", "annotation"),
    [
        ("path", str),
        ("file", str | None),
        ("qrels_file", str),
        ("paths", list[str]),
        ("folder", str),
        ("base", str),
        ("source", Path),
        ("sources", list[Path] | None),
        ("source", Annotated[Path | None, "something else"]),
        ("path", Annotated[str, SearchOnly]),
    ],
)
def test_a_path_without_a_marker_is_refused(name: str, annotation: object) -> None:
    """By its name or its type; the message says what to write."""
    with pytest.raises(
        ConfigError, match=rf"'{name}' looks like a path.*Annotated\[\.\.\., InputFile\]"
    ):
        read_annotations(component(name, annotation))


@pytest.mark.parametrize("annotation", [str, list[str], str | None])
def test_entries_are_those_of_a_mapping(annotation: Any) -> None:
    """A description in their place would leave the file's content out of the key."""
    with pytest.raises(ConfigError, match="names entries of a mapping, but the value is none"):
        read_annotations(component("path", Annotated[annotation, InputFile("the stop words")]))
    mapping = Annotated[dict[str, Any] | None, InputFile("data_files")]
    assert read_annotations(component("path", mapping)) == {"path": mapping}


def test_a_file_of_searches_counts_by_its_content() -> None:
    """As a file of the index does, which it names too."""
    annotation = Annotated[str, InputFile, SearchOnly]
    assert get_search_only_settings(component("path", annotation)) == []
    assert get_search_only_settings(component("n", Annotated[int, SearchOnly])) == ["n"]


@pytest.mark.parametrize(
    ("name", "annotation"),
    [("pathology", str), ("base", int), ("profile", str), ("path", Annotated[str, InputFile])],
)
def test_other_parameters_need_none(name: str, annotation: object) -> None:
    """Numbers, words that contain one of the names, and what is marked."""
    assert read_annotations(component(name, annotation)) == {name: annotation}


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Annotated[int, "SearchOnly"], "'seed': the marker 'SearchOnly' is a text"),
        (Annotated[int, "SpeedOnly('x')"], "is a text; write it without quotation marks"),
        (Annotated[int, SpeedOnly], r'SpeedOnly needs a reason, as in SpeedOnly\("why"\)'),
        (Annotated[str, NotAFile] | None, "the marker NotAFile needs a reason"),
    ],
)
def test_a_marker_that_is_not_one_is_refused(annotation: object, message: str) -> None:
    """It would have no effect."""
    with pytest.raises(ConfigError, match=message):
        read_annotations(component("seed", annotation))


@pytest.mark.parametrize(
    "name", ["input_files", "input_file", "speed_onl", "model_path", "revison", "resolve_setting"]
)
def test_a_misspelled_or_former_declaration_is_refused(name: str) -> None:
    """It would have no effect, and two files would have one key."""
    with pytest.raises(ConfigError, match=f"the class attribute '{name}' has no effect"):
        read_annotations(type("Mine", (), {name: ("path",), "__module__": "mine"}))


@dataclass
class Later:
    """Has an annotation that only type checkers could resolve."""

    data: "Missing"  # type: ignore[name-defined]  # noqa: F821
    revision: ClassVar[int] = 1


def test_an_annotation_that_cannot_be_read_is_refused() -> None:
    """It might hide a marker."""
    with pytest.raises(
        ConfigError, match="annotation 'Missing' of the parameter 'data' cannot be resolved"
    ):
        read_annotations(Later)
