"""Values are checked against the annotations of the class."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from winnow.errors import ConfigError
from winnow.identity.markers import SpeedOnly
from winnow.identity.values import Template, check_values


@dataclass
class _Base:
    count: Annotated[int, Ge(1), SpeedOnly("it is a test")] = 1


@dataclass
class _Part(_Base):
    by: Literal["a", "b"] = "a"
    limit: Annotated[int, Ge(0)] | None = None
    size: Annotated[int | None, Ge(2)] = None
    share: Annotated[float, Gt(0), Le(1)] = 0.5
    rate: Annotated[float, Ge(0), Lt(1)] = 0.5
    order: Literal["first"] | int = "first"
    kind: Literal["x", "y"] | None = None
    text: str = ""
    prompt: Annotated[str, Template("question", optional=("n",))] = "{question}"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"limit": 0},
        {"size": 2},
        {"share": 1.0},
        {"rate": 0.0},
        {"order": 7},
        {"kind": "y"},
        {"prompt": "{n} {question}"},
    ],
)
def test_allowed_values(values: dict[str, Any]) -> None:
    """The ends of ranges are allowed, null where the annotation has it, and other types."""
    check_values("part", _Part(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"by": "c"}, "part.by must be a or b; received 'c'."),
        ({"by": None}, "part.by must be a or b; received None."),
        ({"kind": "z"}, "part.kind must be x or y; received 'z'."),
        (
            {"prompt": "{n}"},
            "part.prompt must have {question}, may have {n}, and no other field; received '{n}'.",
        ),
        ({"count": 0}, "part.count must be at least 1; received 0."),
        ({"limit": -1}, "part.limit must be at least 0, or null; received -1."),
        ({"size": 1}, "part.size must be at least 2, or null; received 1."),
        ({"share": 0.0}, "part.share must be above 0 and at most 1; received 0.0."),
        ({"share": 1.5}, "part.share must be above 0 and at most 1; received 1.5."),
        ({"rate": 1.0}, "part.rate must be at least 0 and below 1; received 1.0."),
        ({"rate": math.nan}, "part.rate must be at least 0 and below 1; received nan."),
    ],
)
def test_other_values(values: dict[str, Any], message: str) -> None:
    """The message names the setting, what it allows and the value, also of an inherited setting."""
    with pytest.raises(ConfigError) as error:
        check_values("part", _Part(**values))
    assert str(error.value) == message


class _Subclass(_Part):
    """A part of a script, with a constructor of its own."""

    def __init__(self, folder: str, other: Annotated[int, Ge(1)]) -> None:
        super().__init__()


def test_a_subclass_of_a_script_may_have_another_constructor() -> None:
    """Its path has no marker, without which settings could not name it; nor is it an attribute."""
    check_values("part", _Subclass("x", 0))
