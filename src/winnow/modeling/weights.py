"""Checks of model weights: only safetensors files inside the model's folder are loaded, and no weight may be missing."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from winnow.errors import ModelError


def check_weight_files(folder: Path) -> None:
    """Check that a folder has safetensors weights, and that an index of sharded weights names only such files in the folder.

    Raises:
        ModelError: If there are no safetensors files, or the index names another kind of file, a file elsewhere, or one that
            does not exist.

    """
    if not list(folder.glob("*.safetensors")):
        raise ModelError(f"The model folder {folder} has no safetensors weights; pickled weights are not loaded.")
    for index in sorted(folder.glob("*.safetensors.index.json")):
        _check_index(index)


def _check_index(index: Path) -> None:
    try:
        weight_map = json.loads(index.read_text())["weight_map"]
        names = sorted({str(name) for name in weight_map.values()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{index} is not an index of weights ({type(error).__name__}: {error}). Download it again."
        ) from error
    for name in names:
        if PurePosixPath(name).name != name or not name.endswith(".safetensors"):
            raise ModelError(f"{index} names the weights {name!r}. Only safetensors files in the same folder are loaded.")
        if not (index.parent / name).is_file():
            raise ModelError(f"{index} names the weights {name!r}, which do not exist. Download the model again.")


def load_pretrained(model_class: Any, source: str, *, may_lack: Sequence[str] = (), **options: Any) -> Any:
    """Load a model with transformers, and check that its weights are complete.

    transformers draws missing weights at random, with a warning only.

    Args:
        model_class: Class of the model, such as `AutoModel`.
        source: Folder, or name on the hub.
        may_lack: Prefixes of weights that may be missing, because they are trained or not used.
        options: Further arguments of `from_pretrained`.

    Raises:
        ModelError: If the model cannot be loaded, or if a weight is missing, naming the first ones.

    """
    with _named_errors(source):
        model, info = model_class.from_pretrained(source, output_loading_info=True, **options)
    prefix = f"{model.base_model_prefix}."
    missing = sorted(name for name in info["missing_keys"] if not name.removeprefix(prefix).startswith(tuple(may_lack)))
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ModelError(
            f"{source} lacks the weights {', '.join(missing[:3])}{more}, in whose place there would be random values. Check "
            "that it is a complete model of this architecture, and download it again."
        )
    return model


def load_part(part_class: Any, source: str, **options: Any) -> Any:
    """Load a tokenizer or configuration with transformers.

    Raises:
        ModelError: If it cannot be loaded.

    """
    with _named_errors(source):
        return part_class.from_pretrained(source, **options)


@contextmanager
def _named_errors(source: str) -> Iterator[None]:
    """Turn what transformers raises for a model that it cannot load into a ModelError; errors of memory and devices stay."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{source} cannot be loaded as this kind of model ({type(error).__name__}: {reason}). Check its config.json, "
            "tokenizer and weights, or download it again."
        ) from error
