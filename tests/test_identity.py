"""Which settings identify a component."""

from collections.abc import Mapping
from typing import Any, ClassVar

from winnow import identity


class Base:
    """Declares two kinds."""

    speed_only: ClassVar[Mapping[str, str]] = {"batch_size": "batches"}
    input_files: ClassVar[tuple[str, ...]] = ("path",)


class Derived(Base):
    """Declares more, and resolves."""

    speed_only: ClassVar[Mapping[str, str]] = {"threads": "threads"}
    model_paths: ClassVar[tuple[str, ...]] = ("model",)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Resolve "auto"."""
        return {**settings, "dtype": "float32"}


class Silent:
    """Declares nothing."""


def test_declarations_add_up_along_the_bases() -> None:
    """A subclass keeps what its base declares; reasons come with the names."""
    assert identity.speed_only(Derived) == {"batch_size": "batches", "threads": "threads"}
    assert identity.speed_only(Base) == {"batch_size": "batches"}
    assert (identity.input_files(Derived), identity.model_paths(Derived)) == (("path",), ("model",))


def test_every_setting_counts_by_default() -> None:
    """A class without declarations leaves nothing out and resolves nothing."""
    assert (identity.speed_only(Silent), identity.input_files(Silent), identity.model_paths(Silent)) == ({}, (), ())
    assert identity.resolved(Silent, {"dtype": "auto"}) == {"dtype": "auto"}
    assert identity.resolved(Derived, {"dtype": "auto"}) == {"dtype": "float32"}
