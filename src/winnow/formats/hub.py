"""Loading of datasets with the `datasets` library from the Hugging Face Hub or local files."""

import csv
import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from winnow.errors import InputError, WinnowError
from winnow.formats.text import open_text
from winnow.identity.hub import parse_dataset_name

_SIMPLE_OPTIONS = frozenset({"data_files", "delimiter", "sep", "quotechar"})
"""Options with which a CSV file is read as Python's module csv reads it."""


def load_hub_rows(path: str, split: str, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Stream the rows of a dataset.

    Values of CSV files that `data_files` names here are texts as they are in the file: "007" is not
    a number, and "NA" a text. With other options than a separator, and for files without distinct
    column names, the library decides.

    Args:
        path: Name on the hub ("owner/name@<commit>"), a local folder, or a file format such as
            "json".
        split: Split to load.
        options: Additional arguments of `datasets.load_dataset`.

    Raises:
        InputError: If the library cannot read the dataset.
    """
    try:
        yield from _stream_rows(path, split, options)
    except WinnowError:
        raise
    except Exception as error:  # the library passes on what any of its formats raises
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(
            f"{describe_source(path, options)}, split {split}, cannot be read ({reason}). Check "
            "the name, the split and the files."
        ) from error


def describe_source(path: str, options: Mapping[str, Any]) -> str:
    """Return the name of a dataset for messages, with its files if they are named apart."""
    return f"{path} ({options['data_files']})" if options.get("data_files") else path


def _stream_rows(path: str, split: str, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    from datasets import Features, Value, load_dataset

    hub_name = parse_dataset_name(path)
    name = path if hub_name is None else hub_name.name
    arguments = dict(options)
    if hub_name is not None and hub_name.revision:
        arguments = {"revision": hub_name.revision, **options}
    columns = _read_csv_columns(options) if name == "csv" else ()
    if columns:
        features = Features({column: Value("string") for column in columns})
        arguments = {"features": features, "keep_default_na": False, **options}
    yield from load_dataset(name, split=split, streaming=True, **arguments)


def _read_csv_columns(options: Mapping[str, Any]) -> Sequence[str]:
    """Return the columns of local CSV files, or none if their first line is not a plain header."""
    files = options.get("data_files")
    while isinstance(files, Mapping | list | tuple) and files:
        files = next(iter(files.values())) if isinstance(files, Mapping) else files[0]
    paths = sorted(glob.glob(files, recursive=True)) if isinstance(files, str) else []
    separator = options.get("delimiter") or options.get("sep") or ","
    if not paths or not options.keys() <= _SIMPLE_OPTIONS or len(separator) != 1:
        return ()
    try:
        with open_text(Path(paths[0])) as file:
            columns = next(
                csv.reader(file, delimiter=separator, quotechar=options.get("quotechar", '"')), []
            )
    except (UnicodeDecodeError, OSError, EOFError, csv.Error):
        return ()  # the library names what is wrong
    return columns if all(columns) and len(set(columns)) == len(columns) else ()
