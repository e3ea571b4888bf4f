"""Every error that Winnow raises on purpose, under one root.

A message says what was wrong, the value received, where, and what to do.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class WinnowError(Exception):
    """Root of all errors that Winnow raises on purpose."""


class ConfigError(WinnowError, ValueError):
    """A setting that is unknown, missing or out of range."""


class InputError(WinnowError, ValueError):
    """An input file that violates its format."""

    @classmethod
    def at(cls, where: object, line: int, *, received: str, expected: str) -> "InputError":
        """Build the message for one bad line of a file."""
        excerpt = received if len(received) <= 120 else received[:117] + "..."
        return cls(f"{where}, line {line}: expected {expected}; received {excerpt!r}. Correct that line or remove it.")


class ArtifactError(WinnowError, ValueError):
    """An artifact with a missing column, a duplicate id, a null, a NaN or a dangling passage id."""


class MissingArtifactError(WinnowError, FileNotFoundError):
    """A stage that was run before the stage it depends on."""


class AssetError(WinnowError, OSError):
    """An asset that cannot be fetched, is truncated or differs from its SHA-256."""


class ModelError(WinnowError, ValueError):
    """A model that cannot be used (no tokenizer, no weights, wrong architecture)."""


class PromptTooLongError(WinnowError, ValueError):
    """A prompt that exceeds the model's context length even with a single passage."""


class ReaderError(WinnowError, RuntimeError):
    """A model server that refuses every call, fails repeatedly, or sends unreadable replies."""


class CallRefusedError(ReaderError):
    """A prompt that a server refuses permanently, for example by moderation; plans with `may_fail` continue without it."""


class BudgetError(WinnowError, RuntimeError):
    """A run that would spend more than its budget."""


class LedgerError(WinnowError, OSError):
    """A ledger file that cannot be read or written."""


class DiskFullError(WinnowError, OSError):
    """Too little free space for what a stage needs to write."""


def nearest(name: str, known: "Iterable[str]") -> str:
    """Return " Did you mean 'x'?" for the closest known name, or "" where none is close."""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {matches[0]!r}?" if matches else ""
