"""Compose conf/ and overrides.yaml into params.yaml, which DVC's stages read; never edit params.yaml by hand.

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
from flows._renames import current_overrides
from winnow.artifacts.files import atomic_write
from winnow.errors import ConfigError, WinnowError

OVERRIDES, PARAMS = Path("overrides.yaml"), Path("params.yaml")
_HEAD = "# Made from conf/ and overrides.yaml by `python -m flows.compose`; do not edit.\n"


def composed(overrides: Sequence[str]) -> str:
    """Return the text of params.yaml for these overrides, every interpolation and grid name resolved."""
    overrides = current_overrides(overrides)
    check_overrides(overrides)
    cfg = compose(overrides)
    plain = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    full = resolve_option_names(plain)
    missing = OmegaConf.missing_keys(full)
    if missing:
        raise ConfigError(f"These settings have no value: {sorted(missing)}. Give them in {OVERRIDES}.")
    return _HEAD + OmegaConf.to_yaml(full, resolve=True)


def overrides_of(path: Path) -> list[str]:
    """Return overrides.yaml ({groups: {...}, set: {...}}) as Hydra overrides."""
    body: Any = OmegaConf.to_container(OmegaConf.load(path)) if path.is_file() else {}
    unknown = set(body) - {"groups", "set"}
    if unknown:
        raise ConfigError(f"{path} has the keys `groups` and `set`; received {sorted(map(str, unknown))}.")
    chosen = [f"{name}={value}" for name, value in (body.get("groups") or {}).items()]
    return chosen + [f"{name}={_quoted(value)}" for name, value in (body.get("set") or {}).items()]


def _quoted(value: Any) -> str:
    """Return a value in Hydra's override grammar, with strings quoted so that they may contain anything."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(_quoted(item) for item in value)}]"
    if isinstance(value, str):
        escaped = value.replace("'", chr(92) + "'")
        return f"'{escaped}'"
    return str(value)


def main() -> None:
    """Write params.yaml; with --check only check that it is current."""
    if {"--help", "-h"} & set(sys.argv):
        print(__doc__ or "")
        return
    try:
        text = composed(overrides_of(OVERRIDES))
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    old = PARAMS.read_text() if PARAMS.is_file() else ""
    if "--check" in sys.argv:
        diff = "\n".join(difflib.unified_diff(old.splitlines(), text.splitlines(), "params.yaml", "composed", lineterm=""))
        sys.exit(f"params.yaml is not current; run `python -m flows.compose`.\n{diff}" if diff else 0)
    with atomic_write(PARAMS, required_bytes=2**20) as partial:
        partial.write_text(text)
    print(f"params.yaml: {'unchanged' if old == text else 'written'}")


if __name__ == "__main__":
    main()
