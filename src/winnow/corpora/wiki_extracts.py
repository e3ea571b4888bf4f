"""Parser of `WikiExtractor --json` output: JSON lines with the id, title and text of a page."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.formats.scripts import split_words
from winnow.formats.text import find_files, read_json_lines
from winnow.identity.markers import InputFile
from winnow.identity.values import check_values
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class WikiExtracts:
    """A parser that splits pages into non-overlapping passages. Pages without text have none.

    Args:
        path: File, or folder that is searched recursively.
        pattern: Glob pattern of the files, if `path` is a folder.
        words: Number of words in a passage, as in PlainText; the last passage of a page may be
            shorter. None makes each page a passage.
    """

    revision: ClassVar[int] = 3

    path: Annotated[str, InputFile]
    pattern: str = "wiki_*"
    words: Annotated[int, Ge(1)] | None = 100

    def __post_init__(self) -> None:
        check_values("corpus.parser", self)

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages of all files below `path`, page by page."""
        for file in find_files(
            Path(self.path), self.pattern, "corpus.parser.path and corpus.parser.pattern"
        ):
            for _, page in read_json_lines(file, {"id": (str, int), "title": str, "text": str}):
                for number, text in enumerate(split_words([page["text"]], self.words)):
                    yield Passage(f"{page['id']}#{number}", page["title"], text)
