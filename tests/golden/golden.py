"""What a golden output is: made from a component, stored by revision, compared with a tolerance."""

import hashlib
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins

from winnow.identity.code import get_revision
from winnow.records import Decoding
from winnow.strategies.prompt import Prompt

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
REPLIES = [line.replace("\\n", "\n") for line in (HERE / "replies.txt").read_text().splitlines()]
PROMPT = Prompt(
    "S {contexts} Q {question}",
    "Q {question}",
    "{contexts} C {candidates} Q {question}",
    "[{number}] {title}: {text}",
)
NOT_RESULTS = ("seconds", "shorter", "model", "sources", "stop")
"""Fields that describe a call or a text rather than what was computed."""
GREEDY, SAMPLED = Decoding(), Decoding(temperature=0.7, samples=3)


@dataclass(frozen=True)
class Golden:
    """A class with the function that makes its output in a folder; `tolerance` is for floats of
    models.
    """

    component: type
    output: Callable[[Path], Any]
    tolerance: float = 0.0

    @property
    def name(self) -> str:
        """The class's full name."""
        return f"{self.component.__module__}.{self.component.__qualname__}"


def plain(value: Any) -> Any:
    """Records as JSON, without what describes a call rather than its result: its time, and the
    model that a server reports.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return plain_fields(asdict(value))
    if isinstance(value, Struct):
        return plain_fields(
            {
                name: to_builtins(getattr(value, name))
                for name in value.__struct_fields__
                if name != "shorter"
            }
        )
    if isinstance(value, dict):
        kept = {
            name: inner
            for name, inner in value.items()
            if name != "sources" and (name, inner) != ("tokens_reasoning", 0)
        }
        return {str(name): plain(inner) for name, inner in kept.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return "nan" if math.isnan(value) else round(float(value), 6)
    return value


def plain_fields(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record, without those that were added later and have their defaults, and
    without what it was made of.
    """
    added_later = (
        ("target", ""),
        ("substitute", ""),
        ("snapshots", ()),
        ("snapshots", []),
        ("token_positions", None),
        ("reasoning", ""),
        ("tool_calls", ()),
        ("tool_calls", []),
        ("call_id", ""),
        ("tokens", ()),
        ("tokens", []),
        ("top_logprobs", 0),
        ("top_logprobs", ()),
        ("top_logprobs", []),
        ("per_token", False),
        ("logprobs", ()),
        ("logprobs", []),
        ("tools", ()),
        ("tools", []),
        ("scores", ()),
        ("scores", []),
        ("averaged", ()),
        ("averaged", []),
        ("sources", ()),
        ("sources", []),
    )
    fields = {name: inner for name, inner in values.items() if (name, inner) not in added_later}
    return {name: plain(inner) for name, inner in fields.items() if name not in NOT_RESULTS}


def made(golden: Golden) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        output = plain(golden.output(Path(folder)))
        text = json.dumps(output, sort_keys=True).replace(folder, "FOLDER")
    return json.loads(text)


def stored(golden: Golden, output: Any) -> dict[str, Any]:
    """What golden.json holds: a digest of exact outputs, the numbers of models."""
    if golden.tolerance:
        return {"revision": get_revision(golden.component), "output": output}
    digest = hashlib.sha256(json.dumps(output, sort_keys=True).encode()).hexdigest()
    return {"revision": get_revision(golden.component), "digest": digest}


def differs(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two outputs differ by more than a tolerance in a number, or in anything else."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) > tolerance * max(1.0, abs(one))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(
            differs(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() != other.keys() or any(
            differs(one[name], other[name], tolerance) for name in one
        )
    return bool(one != other)
