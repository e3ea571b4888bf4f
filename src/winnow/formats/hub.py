"""Loading of datasets with the `datasets` library, from the Hugging Face hub or from local files."""

from collections.abc import Iterable, Mapping
from typing import Any

from winnow.identity.hub import parse_dataset_name


def load_hub_rows(path: str, split: str, options: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Stream the rows of a dataset.

    Args:
        path: Name on the hub ("owner/name@<commit>"), a local folder, or a file format such as "json".
        split: Split to load.
        options: Additional arguments of `datasets.load_dataset`.

    """
    from datasets import load_dataset

    hub_name = parse_dataset_name(path)
    name = path if hub_name is None else hub_name.name
    arguments = dict(options)
    if hub_name is not None and hub_name.revision:
        arguments = {"revision": hub_name.revision, **options}
    rows: Iterable[dict[str, Any]] = load_dataset(name, split=split, streaming=True, **arguments)
    return rows
