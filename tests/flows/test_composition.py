"""Options of groups, as a grid reads them."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from flows.compose import _quote
from flows.settings import composition
from flows.settings.composition import (
    compose_config,
    list_groups,
    list_options,
    load_option,
    parse_overrides,
)
from winnow.errors import ConfigError


@pytest.mark.parametrize(
    "group", [group for group in list_groups() if group not in ("experiment", "runner")]
)
def test_an_option_is_what_hydra_composes(group: str) -> None:
    """The first three of each group, and all that build on others."""
    folder = composition.CONF / group
    built_on_others = [
        name
        for name in list_options(group)
        if "\ndefaults:" in (folder / f"{name}.yaml").read_text(encoding="utf-8")
    ]
    for name in {*list_options(group)[:3], *built_on_others}:
        composed = compose_config([], f"{group}/{name}")[group]
        assert load_option(group, name) == OmegaConf.to_container(composed, resolve=False)


def test_an_option_that_is_not_valid_yaml_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its file and the place in it."""
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy/own.yaml").write_text("_target_: [a\n")
    monkeypatch.setattr(composition, "CONF", tmp_path)
    load_option.cache_clear()
    with pytest.raises(ConfigError, match=r"conf/strategy/own.yaml: .*line 2"):
        load_option("strategy", "own")


@pytest.mark.parametrize(
    "text", ['"defaults":\n  - other\n', "{defaults: [other]}\n", "defaults :\n  - other\n"]
)
def test_other_spellings_of_what_an_option_builds_on(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hydra composes them, too."""
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy/other.yaml").write_text("a: 1\n")
    (tmp_path / "strategy/own.yaml").write_text(text)
    monkeypatch.setattr(composition, "CONF", tmp_path)
    load_option.cache_clear()
    composition._compose_options.cache_clear()
    assert load_option("strategy", "own") == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [
        "a'b",
        "a\\",
        "a\\'b",
        "x\\y",
        "\\'",
        "",
        {"a": [1, {"b": "c'd"}]},
        [{"model": "m", "input": 1.5}],
        {},
    ],
)
def test_a_value_of_a_yaml_is_what_hydra_reads(value: object) -> None:
    """Quotation marks, backslashes, lists of mappings."""
    (override,) = parse_overrides([f"k={_quote(value)}"])
    assert override.value() == value
