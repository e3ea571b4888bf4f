"""Compose conf/ and overrides.yaml into params.yaml, which the DVC stages read. Do not edit params.yaml by hand.

python -m flows.compose
dvc exp run -S 'overrides.yaml:+set.grid.k=[1,7]'
"""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from flows._conf import compose
from flows._overrides import complete_overrides
from flows._renames import replace_former_names
from winnow.artifacts.files import atomic_write
from winnow.artifacts.provenance import compute_key, flatten
from winnow.errors import ConfigError, WinnowError

OVERRIDES, PARAMS = Path("overrides.yaml"), Path("params.yaml")
_HEADER = "# Made from conf/ and overrides.yaml by `python -m flows.compose`; do not edit.\n"
_OPTIONAL = ("rewriter", "judge", "verifier", "nli", "generator", "breakdown")
"""Groups that the settings lack if no option is chosen; params.yaml has them in any case."""
_DIGEST = "# Digest: "
"""Start of the line with the digest of the settings, by which an edited file is recognised."""


def compose_params(overrides: Sequence[str]) -> str:
    """Return the text of params.yaml for these overrides, with every interpolation and every option name in `grid` resolved.

    Raises:
        ConfigError: If an override is not valid, or if a setting has no value.

    """
    overrides = complete_overrides(replace_former_names(overrides))
    resolved = compose(overrides)
    missing = OmegaConf.missing_keys(resolved)
    if missing:
        raise ConfigError(f"These settings have no value: {sorted(missing)}. Set them in {OVERRIDES}.")
    with open_dict(resolved):
        for key in _OPTIONAL:  # DVC watches settings that are there
            resolved.setdefault(key, None)
    text = OmegaConf.to_yaml(resolved, resolve=True)
    return f"{_HEADER}{_DIGEST}{_compute_digest(text)}\n{text}"


def _compute_digest(text: str) -> str:
    return compute_key(OmegaConf.to_container(OmegaConf.create(text)))


def check_unedited(old: str, new: str) -> None:
    """Check that params.yaml was not edited since it was made, because the changes would be lost.

    Args:
        old: Present text of params.yaml.
        new: Text that is composed now.

    Raises:
        ConfigError: If it was edited. The message names the settings.

    """
    try:
        digest = _compute_digest(old)
    except (YAMLError, OmegaConfBaseException):  # such as the marks of a merge conflict; the file is written again
        return
    recorded = next((line.removeprefix(_DIGEST) for line in old.splitlines() if line.startswith(_DIGEST)), None)
    if recorded in (None, digest):
        return
    present, composed = (flatten(OmegaConf.to_container(OmegaConf.create(text))) for text in (old, new))
    changed = [name for name in {**present, **composed} if present.get(name) != composed.get(name)]
    name = next(iter(changed), "sweep.limit")
    is_axis = f"grid.{name}" in composed
    example = f"grid.{name}=[{present.get(name)}]" if is_axis else f"{name}={present.get(name)}"
    raise ConfigError(
        f"{PARAMS} was edited ({', '.join(changed[:5]) or 'its order'}), but it is made from conf/ and {OVERRIDES}. Write the "
        f"settings below `set` in {OVERRIDES}, with DVC as in `dvc exp run -S '{OVERRIDES}:+set.{example}'`, and restore "
        f"the file with `git checkout {PARAMS}`."
    )


def load_overrides(path: Path) -> list[str]:
    """Read a file of the form {groups: {...}, set: {...}} and return its content as Hydra overrides.

    Settings may be nested or named by dotted keys: `set: {decoding: {samples: 5}}` is `set: {decoding.samples: 5}`.

    Raises:
        ConfigError: If the file is not valid YAML or has other keys.

    """
    try:
        body: Any = OmegaConf.to_container(OmegaConf.load(path)) if path.is_file() else {}
    except (YAMLError, OmegaConfBaseException, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}. Correct the file.") from error
    if not isinstance(body, dict) or any(not isinstance(body.get(key) or {}, dict) for key in ("groups", "set")):
        raise ConfigError(
            f"{path} must map `groups` and `set` to settings, as in `set: {{k: 7}}`; received {str(body)[:100]!r}."
        )
    unknown = set(body) - {"groups", "set"}
    if unknown:
        raise ConfigError(f"{path} may only have the keys `groups` and `set`, but it also has {sorted(map(str, unknown))}.")
    choices = [f"{name}={value}" for name, value in (body.get("groups") or {}).items()]
    return choices + [f"{name}={_quote(value)}" for name, value in flatten(body.get("set") or {}).items()]


def _quote(value: Any) -> str:
    """Format a value in Hydra's override grammar; strings are quoted so that they may contain any character."""
    if value == {}:
        return "{}"
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
    old = PARAMS.read_text() if PARAMS.is_file() else ""
    try:
        text = compose_params(load_overrides(OVERRIDES))
        if "--check" not in sys.argv:
            check_unedited(old, text)
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    if "--check" in sys.argv:
        diff = "\n".join(difflib.unified_diff(old.splitlines(), text.splitlines(), "params.yaml", "composed", lineterm=""))
        sys.exit(f"params.yaml is out of date. Run `python -m flows.compose` to update it.\n{diff}" if diff else 0)
    with atomic_write(PARAMS, required_bytes=2**20) as partial:
        partial.write_text(text)
    print(f"params.yaml: {'unchanged' if old == text else 'written'}")


if __name__ == "__main__":
    main()
