"""Compose conf/ and overrides.yaml into params.yaml, which the DVC stages read, and write these
stages into dvc.yaml.

Do not edit params.yaml by hand. Of dvc.yaml, the part between two marks is written.

python -m flows.compose
dvc exp run -S 'overrides.yaml:+set.grid.k=[1,7]'
"""

import difflib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.settings.composition import compose_config, format_yaml, parse_yaml
from flows.settings.door import check_values, open_settings
from flows.settings.overrides import COPIED, complete_overrides
from flows.settings.references import resolve_beside_grid
from flows.stages.registry import Stage, get_stage, list_ancestors, list_needed, list_stages
from winnow.artifacts.files import atomic_write
from winnow.artifacts.provenance import compute_key, flatten
from winnow.errors import ConfigError, WinnowError
from winnow.protocols import MODEL_ROLES

OVERRIDES, PARAMS, DVC = Path("overrides.yaml"), Path("params.yaml"), Path("dvc.yaml")
_HEADER = "# Made from conf/ and overrides.yaml by `python -m flows.compose`; do not edit.\n"
_OPTIONAL = (*MODEL_ROLES[1:], "nli", "generator", "breakdown")
"""Groups that the settings lack if no option is chosen; params.yaml has them in any case."""
_QUICK_START = (
    "acquire", "corpus", "index", "questions", "retrieve", "score", "train_reader", "closed_book",
    "sweep", "calls"
)  # fmt: skip
"""The stages of dvc.yaml that are written for any settings."""
_IF_NEEDED = ("rank",)
"""The stages that are written if the settings without their grid need them."""
_BEGIN, _END = (
    "  # Written by `python -m flows.compose` from the modules in flows/.\n",
    "  # Written by hand.\n",
)
_DIGEST = "# Digest: "
"""Start of the line with the digest of the settings, by which an edited file is recognized."""


def compose_params(overrides: Sequence[str]) -> str:
    """Return params.yaml for these overrides, with the settings of every option that `grid` names.

    References are resolved, but for those to what the grid changes, which mean another value in
    each cell.

    Raises:
        ConfigError: If an override or a setting is wrong.
    """
    cfg = compose_config(complete_overrides(overrides))
    open_settings(cfg)  # which checks them
    settings, copied_names = resolve_beside_grid(cfg)
    check_values(settings)  # those of the grid are resolved here
    text = format_yaml(
        {**settings, **{name: settings.get(name) for name in _OPTIONAL}}
    )  # DVC watches settings that are there
    digest = compute_key(parse_yaml(text))
    return f"{_HEADER}{_DIGEST}{digest}\n{COPIED}{' '.join(copied_names)}\n{text}"


def list_written_stages(overrides: Sequence[str]) -> list[str]:
    """Return the names of the stages written to dvc.yaml, each after the stages that it reads."""
    settings = open_settings(compose_config(complete_overrides(overrides)))
    needed_names = {name for name in _IF_NEEDED if name in list_needed("sweep", settings)}
    order = [
        stage.name
        for stage in list_stages()
        if stage.name in needed_names or stage.name in _QUICK_START
    ]
    return order if needed_names else list(_QUICK_START)


def write_stages(text: str, names: Sequence[str] = _QUICK_START) -> str:
    """Return dvc.yaml with these stages, as `flows` modules describe them, between its two marks.

    A stage runs again if its module or a setting changes that it or a stage before it reads;
    finished artifacts are kept.
    """
    before, mark, rest = text.partition(_BEGIN)
    _, also_found, after = rest.partition(_END)
    if not (mark and also_found):
        raise ConfigError(
            f"{DVC} lacks the lines {_BEGIN.strip()!r} and {_END.strip()!r}, between which its "
            "stages are written."
        )
    return (
        before
        + _BEGIN
        + "".join(_format_stage(get_stage(name), names) for name in names)
        + _END
        + after
    )


def _format_stage(stage: Stage, names: Sequence[str]) -> str:
    """Format a stage for dvc.yaml, which has the stages with these names."""
    left_out = {"acquire", *_IF_NEEDED}.difference(set(names) - {"acquire"})
    before = [one for one in list_ancestors(stage.name) if one.name not in left_out]
    params = dict.fromkeys(name for one in (*before, stage) for name in one.settings)
    deps = [
        f"flows/{stage.name}.py",
        *(f"tracked/{name}" for name in stage.reads if name in names),
    ]
    return (
        f"  {stage.name}:\n"
        f"    desc: {json.dumps(stage.summary)}\n"
        f"    cmd: python -m flows.{stage.name} --params {PARAMS} --track tracked/{stage.name}\n"
        f"    deps: [{', '.join(deps)}]\n"
        f"    params: [{', '.join(params)}]\n"
        f"    outs: [tracked/{stage.name}]\n"
    )


def check_unedited(old: str, new: str) -> None:
    """Check that params.yaml was not edited since it was made, because the changes would be lost.

    Args:
        old: Present text of params.yaml.
        new: Text that is composed now.

    Raises:
        ConfigError: If it was edited. The message names the settings.
    """
    try:
        digest = compute_key(parse_yaml(old))
    except ConfigError:  # such as the marks of a merge conflict; the file is written again
        return
    recorded_digest = next(
        (line.removeprefix(_DIGEST) for line in old.splitlines() if line.startswith(_DIGEST)), None
    )
    if recorded_digest in (None, digest):
        return
    present, new_settings = (flatten(parse_yaml(text)) for text in (old, new))
    changed_names = [
        name for name in {**present, **new_settings} if present.get(name) != new_settings.get(name)
    ]
    name = next(iter(changed_names), "sweep.limit")
    is_axis = f"grid.{name}" in new_settings
    example = f"grid.{name}=[{present.get(name)}]" if is_axis else f"{name}={present.get(name)}"
    raise ConfigError(
        f"{PARAMS} was edited ({', '.join(changed_names[:5]) or 'its order'}), but it is made from "
        "conf/ "
        f"and {OVERRIDES}. Write the settings below `set` in {OVERRIDES}, with DVC as in `dvc exp "
        f"run -S '{OVERRIDES}:+set.{example}'`, and restore the file with `git checkout "
        f"{PARAMS}`."
    )


def load_overrides(path: Path) -> list[str]:
    """Read a file of the form {groups: {...}, set: {...}} and return it as Hydra overrides.

    Settings may be nested or named by dotted keys: `set: {decoding: {samples: 5}}` is `set:
    {decoding.samples: 5}`.

    Raises:
        ConfigError: If the file is not valid YAML or has other keys.
    """
    try:
        body: Any = parse_yaml(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {' '.join(str(error).split())}. Correct the file."
        ) from error
    if not isinstance(body, dict) or any(
        not isinstance(body.get(key) or {}, dict) for key in ("groups", "set")
    ):
        raise ConfigError(
            f"{path} must map `groups` and `set` to settings, as in `set: {{k: 7}}`; received "
            f"{str(body)[:100]!r}."
        )
    unknown = set(body) - {"groups", "set"}
    if unknown:
        raise ConfigError(
            f"{path} may only have the keys `groups` and `set`, but it also has "
            f"{sorted(map(str, unknown))}."
        )
    choices = [f"{name}={value}" for name, value in (body.get("groups") or {}).items()]
    return choices + [
        f"{name}={_quote(value)}" for name, value in flatten(body.get("set") or {}).items()
    ]


def _escape_mark(match: re.Match[str]) -> str:
    """Double the backslashes, and escape the quotation mark after them if there is one."""
    backslashes = match[1] or match[3] or ""
    return 2 * backslashes + ("\\'" if match[2] else "")


def _quote(value: Any) -> str:
    """Format a value in Hydra's override grammar, with strings quoted to allow any character."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{name}:{_quote(inner)}' for name, inner in value.items())}}}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(_quote(item) for item in value)}]"
    if isinstance(value, str):
        # backslashes before a quotation mark, also the last one, would escape it
        escaped_value = re.sub(r"(\\*)(')|(\\+)$", _escape_mark, value)
        return f"'{escaped_value}'"
    return str(value)


def main() -> None:
    """Write params.yaml, or with --check only check that it is up to date."""
    if {"--help", "-h"} & set(sys.argv):
        print(__doc__ or "")
        return
    try:
        overrides = load_overrides(OVERRIDES)
        params = compose_params(overrides)
        if "--check" not in sys.argv:
            check_unedited(_read(PARAMS), params)
        texts = {
            PARAMS: params,
            **(
                {DVC: write_stages(_read(DVC), list_written_stages(overrides))}
                if DVC.is_file()
                else {}
            ),
        }
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    if "--check" in sys.argv:
        sys.exit("\n".join(filter(None, map(_describe_change, texts, texts.values()))) or 0)
    for file, text in texts.items():
        is_changed = text != _read(file)
        if is_changed:
            with atomic_write(file, required_bytes=2**20) as partial:
                partial.write_text(text)
        print(f"{file}: {'written' if is_changed else 'unchanged'}")


def _read(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def _describe_change(file: Path, text: str) -> str:
    """Return the differences of a file from what it should contain, or "" if there are none."""
    lines = difflib.unified_diff(
        _read(file).splitlines(), text.splitlines(), str(file), "composed", lineterm=""
    )
    diff = "\n".join(lines)
    return (
        f"{file} is out of date. Run `python -m flows.compose` to update it.\n{diff}"
        if diff
        else ""
    )


if __name__ == "__main__":
    main()
