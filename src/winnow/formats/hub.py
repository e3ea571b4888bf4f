"""Data sets that the `datasets` library reads: those of the Hugging Face hub, and local files in its formats."""

from collections.abc import Iterable, Mapping
from typing import Any

from winnow.identity import dataset_name


def load_hub_rows(path: str, split: str, options: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Stream the rows of a data set.

    Args:
        path: Name on the hub ("owner/name@<commit>"), a folder, or a file format ("json").
        split: Split to load.
        options: Further arguments of `datasets.load_dataset`.

    """
    from datasets import load_dataset

    name = dataset_name(path)
    arguments = dict(options) if name is None or not name.revision else {"revision": name.revision, **options}
    rows: Iterable[dict[str, Any]] = load_dataset(
        path if name is None else name.name, split=split, streaming=True, **arguments
    )
    return rows
