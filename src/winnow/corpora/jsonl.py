"""Parser of passage files of one's own: JSON lines whose columns have any names."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import ConfigError, InputError, Place
from winnow.formats.columns import choose_id_column, read_columns
from winnow.identity.markers import InputFile
from winnow.records import Passage

_ID_COLUMNS = ("id", "_id", "docid", "passage_id")


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
    text: str = "text"
    title: str = ""
    title_line: bool = False
    id: str | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError if the title is said to be in two places."""
        if self.title and self.title_line:
            raise ConfigError(
                f"corpus.parser: set title={self.title!r} or title_line=true, not both."
            )

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        path = Path(self.path)
        columns = {
            "id": choose_id_column(path, self.id, _ID_COLUMNS, "corpus.parser.id"),
            "title": self.title,
            "text": self.text,
        }
        for row in read_columns(path, columns, "corpus.parser", optional=("id", "title")):
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
