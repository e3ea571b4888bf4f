"""Parser of passage files of one's own: JSON lines whose columns have any names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from winnow.errors import ConfigError, InputError, Place
from winnow.formats.columns import Column, read_columns
from winnow.identity.markers import InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class JsonlCorpus:
    """A parser that reads each line as a passage.

    Args:
        path: File of JSON lines, gzipped or not.
        text: Name of the column with the text.
        title: Name of the column with the title, or "" if passages have no titles.
        title_line: Whether the first line of the text is its title, in double quotes or not, as in
            FlashRAG's corpora.
        id: Name of the column with the id of the passage, or "" to number the lines. By default, it
            is id, _id, docid or passage_id if the first line has such a column.
    """

    revision: ClassVar[int] = 3

    path: Annotated[str, InputFile]
    text: Annotated[str, Column()] = "text"
    title: Annotated[str, Column(optional=True)] = ""
    title_line: bool = False
    id: Annotated[str | None, Column(optional=True, usual=("id", "_id", "docid", "passage_id"))] = (
        None
    )

    def __post_init__(self) -> None:
        if self.title and self.title_line:
            raise ConfigError(
                f"corpus.parser: set title={self.title!r} or title_line=true, not both."
            )

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        for row in read_columns(self, "corpus.parser"):
            passage_id = row.read_text("id", default=str(row.place.number))
            title, text = row.read_title("title"), row.read_text("text")
            if self.title_line:
                title, text = _divide(text, row.place)
            yield Passage(passage_id, title, text)


def _divide(text: str, place: Place) -> tuple[str, str]:
    """Return the title in the first line of a text, without quotes around it, and the rest."""
    title, _, rest = text.strip().partition("\n")
    title = title.strip()
    if not rest.strip():
        raise InputError(
            f"{place}: expected a title in the first line of the text, and the "
            f"passage below it; received {text[:80]!r}. Set corpus.parser.title_line=false if "
            "passages have no titles."
        )
    is_quoted = len(title) > 1 and title[0] == title[-1] == '"'
    return (title[1:-1] if is_quoted else title), rest.strip()
