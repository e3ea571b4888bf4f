"""Model weights, loaded only from safetensors files in the model's folder; none may be missing."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from winnow.errors import ModelError


def check_weight_files(folder: Path) -> None:
    """Check that a folder has safetensors weights, and that an index names only files among them.

    Raises:
        ModelError: If there are no safetensors files, or if an index is invalid or names a file of
            another kind, a file in another folder, or a file that does not exist.
    """
    if not list(folder.glob("*.safetensors")):
        raise ModelError(
            f"The model folder {folder} has no safetensors weights; pickled weights are not "
            "loaded. Save the model with model.save_pretrained(folder), which writes "
            "safetensors. For a model of the hub, name the commit of the pull request that adds "
            "them, if there is one (owner/name@<commit>)."
        )
    for index in sorted(folder.glob("*.safetensors.index.json")):
        _check_index(index)


def count_weight_bytes(path: str) -> int:
    """Return the size of a local model's weight files, or 0 for a hub name."""
    folder = Path(path)
    files = (
        [folder] if folder.is_file() else [*folder.glob("*.safetensors"), *folder.glob("*.gguf")]
    )
    return sum(file.stat().st_size for file in files)


def _check_index(index: Path) -> None:
    """Check one index, a JSON file that maps the name of each weight to its file."""
    try:
        weight_map = json.loads(index.read_text())["weight_map"]
        names = sorted({str(name) for name in weight_map.values()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{index} is not an index of weights ({type(error).__name__}: {error}). Download the "
            "model again."
        ) from error
    for name in names:
        if PurePosixPath(name).name != name or not name.endswith(".safetensors"):
            raise ModelError(
                f"{index} names the weights {name!r}. Only safetensors files in the same folder "
                "are loaded."
            )
        if not (index.parent / name).is_file():
            raise ModelError(
                f"{index} names the weights {name!r}, which do not exist. Download the model again."
            )


def load_pretrained(
    model_class: Any, source: str, *, may_lack: Sequence[str] = (), **options: Any
) -> Any:
    """Load a model with transformers, and check that its weights are complete.

    Without the check, transformers initializes missing weights at random and only warns.

    Args:
        model_class: Class of the model, such as `AutoModel`.
        source: Folder or hub name of the model.
        may_lack: Prefixes of weights that may be missing, because they will be trained or are not
            used.
        options: Further arguments of `from_pretrained`.

    Raises:
        ModelError: If the model cannot be loaded, or if weights are missing or no finite numbers.
            The message names the first.
    """
    with convert_errors(source):
        model, info = model_class.from_pretrained(source, output_loading_info=True, **options)
    prefix = f"{model.base_model_prefix}."
    missing_names = sorted(
        name
        for name in info["missing_keys"]
        if not name.removeprefix(prefix).startswith(tuple(may_lack))
    )
    if missing_names:
        more = f" and {len(missing_names) - 3} more" if len(missing_names) > 3 else ""
        raise ModelError(
            f"{source} lacks the weights {', '.join(missing_names[:3])}{more}, which would have "
            "random "
            "values. Check that it is a complete model of this architecture, and download it "
            "again."
        )
    _check_finite(model, source)
    return model


def _check_finite(model: Any, source: str) -> None:
    """Raise ModelError if a weight is NaN or infinite, which makes every reply meaningless."""
    import torch

    for name, weight in model.named_parameters():
        if (
            weight.is_floating_point()
            and not weight.is_meta
            and not bool(torch.isfinite(weight).all())
        ):
            raise ModelError(
                f"{source}: the weights {name} are not all finite numbers. The file is damaged; "
                "download it again."
            )


def load_tokenizer_or_config(part_class: Any, source: str, **options: Any) -> Any:
    """Load a tokenizer or configuration with transformers.

    Raises:
        ModelError: If the tokenizer or configuration cannot be loaded.
    """
    with convert_errors(source):
        return part_class.from_pretrained(source, **options)


@contextmanager
def convert_errors(source: str) -> Iterator[None]:
    """Convert loading errors of transformers to ModelError, except for out-of-memory errors."""
    try:
        yield
    except Exception as error:
        from torch import OutOfMemoryError  # imported here, because tokenizers need no PyTorch

        if isinstance(error, OutOfMemoryError):
            raise
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{source} cannot be loaded as this kind of model ({type(error).__name__}: {reason}). "
            "Check its config.json, tokenizer and weights, which must be safetensors or GGUF "
            "(docs/data.md converts pickles), or download it again."
        ) from error
