"""Interfaces of components: a class without what the code behind the settings uses is refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest

from flows.settings.door import compose
from flows.settings.interfaces import explain_mismatch, get_item_interface
from winnow.errors import ConfigError


class Named(Protocol):
    """A protocol with an attribute, a method and a special method."""

    @property
    def name(self) -> str:
        """Return the name."""
        ...

    def act(self) -> None:
        """Act."""
        ...

    def __iter__(self) -> Iterator[int]: ...


class _Acting:
    def act(self) -> None: ...

    def __iter__(self) -> Iterator[int]: ...


class _Property(_Acting):
    @property
    def name(self) -> str:
        return ""


@dataclass
class _Field(_Acting):
    name: str


class _Attribute(_Acting):
    def __init__(self) -> None:
        self.name = ""


class _Later(_Acting):
    def __init__(self) -> None:
        self._prepare()

    def _prepare(self) -> None:
        self.name = ""


class _Proxy:
    def __getattr__(self, name: str) -> str:
        return name


class _Loop:
    name = ""

    def __iter__(self) -> Iterator[int]: ...


@pytest.mark.parametrize("component", [_Property, _Field, _Attribute, _Later, _Proxy])
def test_a_class_has_what_it_defines_annotates_or_sets(component: type) -> None:
    """Each is a way to have an attribute."""
    assert not explain_mismatch(component, Named)


def test_what_is_missing_is_named() -> None:
    """With the protocol that asks for it; a class that is no protocol is derived from."""
    name = f"{__name__}.Named asks for"
    assert explain_mismatch(_Acting, Named) == f"lacks name, which {name}"
    assert explain_mismatch(_Loop, Named) == f"lacks act, which {name}"
    assert explain_mismatch(int, Named) == f"lacks __iter__, act, name, which {name}"
    assert explain_mismatch(_Loop, _Acting) == f"is not derived from {__name__}._Acting"
    assert not explain_mismatch(_Field, _Acting)


def test_the_items_of_a_list_or_mapping_have_the_last_argument() -> None:
    """Without markers and None; of several kinds, none is known."""
    for annotation in (
        list[_Loop],
        list[_Loop] | None,
        Annotated[list[_Loop] | None, "marked"],
        tuple[_Loop, ...],
        dict[str, _Loop],
    ):
        assert get_item_interface(annotation) is _Loop
    for annotation in (list, None, int, list[_Loop] | dict[str, int]):
        assert get_item_interface(annotation) is Any


def test_one_class_of_a_union_is_enough() -> None:
    """And an annotation that names no class says nothing."""
    assert not explain_mismatch(_Loop, Annotated[_Acting | _Loop, "marked"])
    assert not explain_mismatch(_Loop, list[int] | _Loop)
    assert explain_mismatch(_Loop, _Acting | None).startswith("is not derived from")
    for annotation in (Any, None, "unresolved"):
        assert not explain_mismatch(_Loop, annotation)


def test_settings_refuse_a_class_of_another_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a section of its own, inside another component, and in a list."""
    (tmp_path / "half_a_rule.py").write_text(
        "class HalfARule:\n    words = 'x'\n    uses_gold = False\n    def place(self): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        ConfigError,
        match=r"placement\.rule\._target_='half_a_rule\.HalfARule': .* lacks moves_gold",
    ):
        compose(["~placement.rule", "+placement.rule={_target_: half_a_rule.HalfARule}"])
    with pytest.raises(
        ConfigError, match=r"retriever\.engine\.members\.x\._target_=.*lacks build, open"
    ):
        compose(
            ["retriever=hybrid", "+retriever.engine.members.x={_target_: half_a_rule.HalfARule}"]
        )
    with pytest.raises(ConfigError, match=r"training\.metrics\.0\._target_=.*MeanMetric\."):
        compose(
            [
                "training=cite_sft_rewarded",
                "training.metrics=[{_target_: winnow.metrics.citation.CitationF1OfMeans}]",
            ]
        )
