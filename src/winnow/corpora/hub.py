"""A corpus from the Hugging Face hub, or any files `datasets` reads, streamed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from winnow.errors import InputError
from winnow.formats.text import require_text
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class HubCorpus:
    """Yields passages from a `datasets` data set; `options` go to `datasets.load_dataset`."""

    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    split: str = "train"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    options: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in the data set's order."""
        from datasets import load_dataset

        rows = load_dataset(self.path, split=self.split, streaming=True, **self.options)
        for number, row in enumerate(rows, start=1):
            missing = {self.id_column, self.title_column, self.text_column} - row.keys()
            if missing:
                raise InputError(f"{self.path}, row {number}: no column {sorted(missing)}; it has {sorted(row)}.")
            text = require_text(row[self.text_column], Path(self.path), number, "passage")
            yield Passage(str(row[self.id_column]), str(row[self.title_column]), text)
