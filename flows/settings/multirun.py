"""Words of a multirun: values of axes, of which each combination is a job."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.errors import HydraException

from flows.settings.composition import parse_overrides
from winnow.errors import ConfigError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override


def split_multirun(overrides: Sequence[str]) -> list[list[str]]:
    """Return the overrides of each job of a multirun: all combinations of values, in Hydra's order.

    Raises:
        ConfigError: If an override is not valid, or names no list of values, as `k=interval(1,5)`
            does.
    """
    try:
        values = {
            one.get_key_element(): list_words(one) for one in parse_overrides(overrides)
        }  # the last of a key counts
        return [list(job) for job in itertools.product(*values.values())]
    except HydraException as error:
        raise ConfigError(
            f"{' '.join(overrides)}: the values cannot be listed ({error}). Write k=1,5 or "
            "k=range(1,5)."
        ) from error


def list_words(override: "Override") -> list[str]:
    """Return one override per value of a multirun override, or the override itself otherwise."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


def list_values(override: "Override") -> Sequence[Any]:
    """Return the values of an override; a multirun's has several."""
    value: Any = override.value()
    return list(value.list) if hasattr(value, "list") else [value]
