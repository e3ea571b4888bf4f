"""Parser of a corpus that `datasets` streams from the Hugging Face Hub or from local files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from winnow.errors import InputError, Place
from winnow.formats.fields import read_title, require_text
from winnow.formats.hub import describe_source, load_hub_rows
from winnow.identity.markers import DatasetName, InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class HubCorpus:
    """A parser that reads each row of a Hugging Face data set as a passage.

    Args:
        path: Name on the Hub with its commit ("owner/name@<commit>"), a folder, or a file format
            with `data_files`.
        split: Split to load.
        id_column: Column with the passage id.
        title_column: Column with the title, or "" if there is none.
        text_column: Column with the text.
        options: Further arguments of `datasets.load_dataset`.
    """

    revision: ClassVar[int] = 3

    path: Annotated[str, DatasetName]
    split: str = "train"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    options: Annotated[dict[str, Any], InputFile("data_files", "data_dir")] = field(
        default_factory=dict
    )

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in the data set's order."""
        source = describe_source(self.path, self.options)
        rows = load_hub_rows(self.path, self.split, self.options)
        for row_number, row in enumerate(rows, start=1):
            place = Place(source, row_number, "row")
            columns = {self.id_column, self.text_column, *filter(None, [self.title_column])}
            missing_columns = columns - row.keys()
            if missing_columns:
                raise InputError(
                    f"{place}: there is no column {', '.join(sorted(missing_columns))}; "
                    f"the row has {sorted(row)}. Correct the column names in corpus.parser."
                )
            passage_id, text = (
                require_text(row[column], place, name)
                for column, name in ((self.id_column, "id"), (self.text_column, "passage"))
            )
            yield Passage(
                passage_id,
                read_title(row[self.title_column], place) if self.title_column else "",
                text,
            )
