"""Exception classes raised by Winnow. All derive from `WinnowError`.

A message says what is wrong, where, which value was received, and what to do.
"""

from difflib import get_close_matches
from string import Formatter
from typing import TYPE_CHECKING, NamedTuple, get_args
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable


class WinnowError(Exception):
    """Base class of all exceptions raised by Winnow."""


class ConfigError(WinnowError, ValueError):
    """Raised when a setting is unknown, missing or out of range."""


class Place(NamedTuple):
    """A place in an input file, as messages name it.

    Attributes:
        file: File.
        number: Number of the line or record, starting at 1.
        unit: What the number counts: "line", "record" for the objects of a JSON array, or "row".
    """

    file: object
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        """Return file, unit and number."""
        return f"{self.file}, {self.unit} {self.number}"


class InputError(WinnowError, ValueError):
    """Raised when an input file violates its format."""

    @classmethod
    def at(cls, place: Place, *, received: str, expected: str) -> "InputError":
        """Build the error for a malformed line or record of a file.

        Args:
            place: Place of the line or record.
            received: Content that is malformed. The message shows its first characters.
            expected: Description of valid content.
        """
        excerpt = received if len(received) <= 120 else received[:117] + "..."
        return cls(
            f"{place}: expected {expected}; received {excerpt!r}. Correct that {place.unit} or "
            "remove it."
        )


class ArtifactError(WinnowError, ValueError):
    """Raised when an artifact, the output of a stage, violates its contract.

    Examples are a missing column, a duplicate id, a null, a NaN or a reference to an unknown
    passage id.
    """


class MissingArtifactError(WinnowError, FileNotFoundError):
    """Raised when a stage is run before the stage that it depends on.

    Attributes:
        stage: Name of the stage that writes the missing artifact, or "" if it is not known.
    """

    def __init__(self, message: str, stage: str = "") -> None:
        """Store the message and the stage."""
        super().__init__(message)
        self.stage = stage


class AssetError(WinnowError, OSError):
    """Raised when an asset file is unavailable or truncated, or does not match its SHA-256."""


class DownloadError(AssetError):
    """Raised when a download ended early; the same download may succeed later."""


class ModelError(WinnowError, ValueError):
    """Raised when a model cannot be used, for example because it lacks a tokenizer or weights."""


class PromptTooLongError(WinnowError, ValueError):
    """Raised when a prompt exceeds the model's context length even with a single passage."""


class ReaderError(WinnowError, RuntimeError):
    """Raised when a reader's server refuses all calls, keeps failing or sends malformed replies."""


class ServerUnavailableError(ReaderError):
    """Raised when a server keeps failing for as long as a run waits; the run may succeed later."""


class StoppedError(ReaderError):
    """Raised by a stopped engine once it has returned the results of the calls in flight."""


class NoScoreError(ModelError):
    """Raised when an estimator gives no number for a pair, although it works for others."""


class CallRefusedError(ReaderError):
    """Raised when a server permanently refuses a needed request, for example by moderation."""


class BudgetError(WinnowError, RuntimeError):
    """Raised when a run would exceed its budget."""


class LedgerError(WinnowError, OSError):
    """Raised when a ledger, the store of finished model calls, cannot be read or written."""


class DiskFullError(WinnowError, OSError):
    """Raised when the disk has too little free space for the output of a stage."""


def suggest_name(name: str, known: "Iterable[str]", least: float = 0.55) -> str:
    """Return " Did you mean 'x'?" with the closest known name, ignoring case, or "" without one.

    `least` is the least similarity, from 0 to 1 for equal names.
    """
    folded = {one.lower(): one for one in known}
    matches = get_close_matches(name.lower(), list(folded), n=1, cutoff=least)
    return f" Did you mean {folded[matches[0]]!r}?" if matches else ""


def find_fields(template: str) -> set[str]:
    """Return the names of a template's `str.format` fields; raise ValueError if it is malformed."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def check_choice(setting: str, value: object, choices: object) -> None:
    """Raise ConfigError if the value of a setting is not one of a `Literal`'s."""
    *others, last = map(str, get_args(choices))
    if value not in get_args(choices):
        raise ConfigError(f"{setting} must be {', '.join(others)} or {last}; received {value!r}.")


def check_address(setting: str, address: str, instead: str) -> None:
    """Raise ConfigError for an address that is not http(s), or has a user name, password or query.

    `instead` says where these belong.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{setting} must be an http(s) address; received {parts.scheme}://{parts.hostname}."
        )
    if parts.username or parts.password or parts.query:
        raise ConfigError(f"{setting} must not contain a user name, password or query. {instead}")


def check_fields(
    setting: str, template: str, required: "Iterable[str]", optional: "Iterable[str]" = ()
) -> None:
    """Check the fields of a template.

    Args:
        setting: Dotted name of the setting, for the error message.
        template: Template to check.
        required: Names of the fields that it must have.
        optional: Names of further fields that it may have.

    Raises:
        ConfigError: If the template is malformed, lacks a required field, or has another one.
    """
    required, optional = sorted(required), sorted(set(optional) - set(required))
    try:
        fields = find_fields(template)
    except ValueError as error:
        raise ConfigError(
            f"{setting} is not a template ({error}). Write {{{{ for a brace; received {template!r}."
        ) from None
    if set(required) <= fields <= {*required, *optional}:
        return
    must, may = (" and ".join(f"{{{name}}}" for name in names) for names in (required, optional))
    rules = [f"must have {must}"] * bool(required) + [f"may have {may}"] * bool(optional)
    raise ConfigError(
        f"{setting} {', '.join(rules) or 'must have no field'}, and no other field; received "
        f"{template!r}."
    )
