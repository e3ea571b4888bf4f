"""Compose conf/ and overrides.yaml into params.yaml, which the DVC stages read. Do not edit params.yaml by hand.

python -m flows.compose
dvc exp run -S 'overrides.yaml:groups.retriever=dense'
"""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from flows._conf import compose
from flows._grid import resolve_option_names
from flows._overrides import check_overrides
from flows._renames import replace_former_names
from winnow.artifacts.files import atomic_write
from winnow.errors import ConfigError, WinnowError

OVERRIDES, PARAMS = Path("overrides.yaml"), Path("params.yaml")
_HEADER = "# Made from conf/ and overrides.yaml by `python -m flows.compose`; do not edit.\n"


def compose_params(overrides: Sequence[str]) -> str:
    """Return the text of params.yaml for these overrides, with every interpolation and every option name in `grid` resolved.

    Raises:
        ConfigError: If an override is not valid, or if a setting has no value.

    """
    overrides = replace_former_names(overrides)
    check_overrides(overrides)
    cfg = compose(overrides)
    without_hydra = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    resolved = resolve_option_names(without_hydra)
    missing = OmegaConf.missing_keys(resolved)
    if missing:
        raise ConfigError(f"These settings have no value: {sorted(missing)}. Set them in {OVERRIDES}.")
    return _HEADER + OmegaConf.to_yaml(resolved, resolve=True)


def load_overrides(path: Path) -> list[str]:
    """Read a file of the form {groups: {...}, set: {...}} and return its content as Hydra overrides.

    Raises:
        ConfigError: If the file has other keys.

    """
    body: Any = OmegaConf.to_container(OmegaConf.load(path)) if path.is_file() else {}
    unknown = set(body) - {"groups", "set"}
    if unknown:
        raise ConfigError(f"{path} may only have the keys `groups` and `set`, but it also has {sorted(map(str, unknown))}.")
    chosen = [f"{name}={value}" for name, value in (body.get("groups") or {}).items()]
    return chosen + [f"{name}={_quote(value)}" for name, value in (body.get("set") or {}).items()]


def _quote(value: Any) -> str:
    """Format a value in Hydra's override grammar; strings are quoted so that they may contain any character."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(_quote(item) for item in value)}]"
    if isinstance(value, str):
        escaped = value.replace("'", chr(92) + "'")
        return f"'{escaped}'"
    return str(value)


def main() -> None:
    """Write params.yaml, or with --check only check that it is up to date."""
    if {"--help", "-h"} & set(sys.argv):
        print(__doc__ or "")
        return
    try:
        text = compose_params(load_overrides(OVERRIDES))
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    old = PARAMS.read_text() if PARAMS.is_file() else ""
    if "--check" in sys.argv:
        diff = "\n".join(difflib.unified_diff(old.splitlines(), text.splitlines(), "params.yaml", "composed", lineterm=""))
        sys.exit(f"params.yaml is out of date. Run `python -m flows.compose` to update it.\n{diff}" if diff else 0)
    with atomic_write(PARAMS, required_bytes=2**20) as partial:
        partial.write_text(text)
    print(f"params.yaml: {'unchanged' if old == text else 'written'}")


if __name__ == "__main__":
    main()
