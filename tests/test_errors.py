"""Errors say what was wrong, the value, where, and what to do."""

import inspect
from typing import Literal

import pytest

from winnow import errors
from winnow.errors import (
    ConfigError,
    InputError,
    Place,
    WinnowError,
    check_choice,
    check_fields,
    suggest_name,
)


def test_one_root_and_a_standard_error_each() -> None:
    """Callers may catch either."""
    kinds = [
        k
        for _, k in inspect.getmembers(errors, inspect.isclass)
        if issubclass(k, WinnowError) and k is not WinnowError
    ]
    assert len(kinds) >= 9
    assert all(issubclass(kind, (ValueError, OSError, RuntimeError)) for kind in kinds)


def test_a_bad_line_is_cut_to_a_readable_length() -> None:
    """File, line, expectation; a long value is shortened."""
    message = str(InputError.at(Place("f.json", 7), received="x" * 500, expected="a list"))
    assert message.startswith("f.json, line 7: expected a list; received")
    assert len(message) < 250


def test_nearest_names_one_or_none() -> None:
    """A close name is offered, a far one is not."""
    assert suggest_name("retreiver", ["retriever", "reader"]) == " Did you mean 'retriever'?"
    assert suggest_name("Retriever", ["retriever", "reader"]) == " Did you mean 'retriever'?"
    assert suggest_name("xyz", ["retriever"]) == ""
    assert suggest_name("rouge", ["rounds"]) == ""


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{title}",
            r"x must have {text}, may have {title}, and no other field; received '{title}'",
        ),
        ("{text} {foo}", "and no other field"),
        ("{text} {}", "and no other field"),
        ("{text[0]}", "must have {text}"),
        ("{text", "x is not a template"),
    ],
)
def test_fields_of_templates(template: str, message: str) -> None:
    """Wrong ones are refused before a prompt is built with them; doubled braces are no field."""
    check_fields("x", "{text} {{foo}}", {"text"}, {"title"})
    with pytest.raises(ConfigError, match=message):
        check_fields("x", template, {"text"}, {"title"})


def test_a_value_that_is_no_choice_is_named_with_the_choices() -> None:
    """One of them is accepted."""
    check_choice("strategy.plan.by", "b", Literal["a", "b", "c"])
    with pytest.raises(ConfigError, match=r"strategy\.plan\.by must be a, b or c; received 'd'\."):
        check_choice("strategy.plan.by", "d", Literal["a", "b", "c"])
