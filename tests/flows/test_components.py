"""Components: classes that settings name, built from them."""

from pathlib import Path

import pytest

from flows.settings.components import (
    NOTHING,
    Component,
    import_component_class,
    iter_components,
)
from winnow.errors import ConfigError
from winnow.records import Decoding

DECODING = {"_target_": "winnow.records.Decoding", "max_new_tokens": 3}
DENSE = {
    "_target_": "winnow.retrievers.hybrid.Hybrid",
    "members": {
        "bm25": {"_target_": "winnow.retrievers.bm25.BM25"},
        "dense": {"_target_": "winnow.retrievers.bm25.BM25", "b": 0.5},
    },
}


def test_a_component_is_a_mapping_of_its_settings() -> None:
    """With the class's name, and other arguments in place of settings."""
    component = Component(DECODING)
    assert dict(component) == DECODING
    assert component.component_class is Decoding
    assert component.build() == Decoding(max_new_tokens=3)
    assert component.build(max_new_tokens=5, seed=2) == Decoding(max_new_tokens=5, seed=2)
    assert component == Component(dict(DECODING))


def test_components_inside_are_built_too() -> None:
    """And listed, each with its dotted name."""
    assert Component(DENSE).build().members["dense"].b == 0.5
    names = [
        name for name, _ in iter_components({"retriever": {"engine": DENSE}, "grid": {"x": DENSE}})
    ]
    assert names == [
        "retriever.engine",
        "retriever.engine.members.bm25",
        "retriever.engine.members.dense",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"_target_": "winnow.records.Decodings"}, "there is no such class"),
        (
            {"_target_": "winnow.records.Decoding", "most": 3},
            r"does not take these settings: .*most",
        ),
        ({"_target_": "winnow.retrievers.bm25.BM25", "b": 3.0}, "0 <= b <= 1"),
    ],
)
def test_what_a_class_refuses_is_an_error_of_the_settings(
    settings: dict[str, object], message: str
) -> None:
    """In one line."""
    with pytest.raises(ConfigError, match=message):
        Component(settings).build()


def test_null_names_no_class() -> None:
    """It is false, and says so when an object is wanted."""
    assert not NOTHING
    with pytest.raises(ConfigError, match="A class is needed where the setting is null"):
        NOTHING.build()


def test_a_module_that_cannot_be_imported_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The YAML is right, so that the message does not blame it."""
    (tmp_path / "with_a_mistake.py").write_text("from annotated_types import Gtt\nclass Mine: ...")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = r"with_a_mistake cannot be imported \(ImportError: cannot import name 'Gtt'.*\)\.$"
    with pytest.raises(ConfigError, match=message):
        import_component_class("with_a_mistake.Mine")


def test_what_a_class_declares_is_found_at_any_depth() -> None:
    """A mixture of documents inside another retriever has gold labels, too."""
    mixture = {"_target_": "winnow.retrievers.mixture.Mixture"}
    outer = Component({**DENSE, "members": {**DENSE["members"], "maps": mixture}})  # type: ignore[dict-item]
    assert outer.find_declaring("uses_gold") == Component(mixture)
    assert Component(mixture).find_declaring("uses_gold") == Component(mixture)
    assert Component(DENSE).find_declaring("uses_gold") is None
