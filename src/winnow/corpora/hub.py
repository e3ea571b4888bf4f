"""A corpus from the Hugging Face Hub, or from files that `datasets` can load, streamed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from winnow.errors import InputError
from winnow.formats.hub import load_hub_rows
from winnow.formats.text import require_text
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class HubCorpus:
    """Parses the rows of a Hugging Face data set into passages.

    Args:
        path: Name on the Hub with its commit ("owner/name@<commit>"), a folder, or a file format with `data_files`.
        split: Split to load.
        id_column: Column with the passage id.
        title_column: Column with the title.
        text_column: Column with the text.
        options: Further arguments of `datasets.load_dataset`.

    """

    revision: ClassVar[int] = 1
    dataset_names: ClassVar[tuple[str, ...]] = ("path",)
    input_files: ClassVar[tuple[str, ...]] = ("options.data_files", "options.data_dir")

    path: str
    split: str = "train"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    options: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in the data set's order."""
        rows = load_hub_rows(self.path, self.split, self.options)
        for number, row in enumerate(rows, start=1):
            missing = {self.id_column, self.title_column, self.text_column} - row.keys()
            if missing:
                raise InputError(f"{self.path}, row {number}: no column {sorted(missing)}; it has {sorted(row)}.")
            text = require_text(row[self.text_column], Path(self.path), number, "passage")
            yield Passage(str(row[self.id_column]), str(row[self.title_column]), text)
