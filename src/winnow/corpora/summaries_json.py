"""Parser of summaries in a JSON object {title: {title, extract, ...}}, as in the `vital` corpus."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import InputError, Place
from winnow.formats.fields import read_title
from winnow.formats.text import load_json
from winnow.identity.markers import InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class SummariesJson:
    """A parser that reads the summary of each article as a passage.

    The id of a passage is the position of the article in the file, starting at 0. The whole file is
    read into memory.
    """

    revision: ClassVar[int] = 2

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        articles = load_json(Path(self.path))
        if not isinstance(articles, dict):
            raise InputError(
                f"{self.path}: expected a JSON object with one article per key; received a "
                f"{type(articles).__name__}. Check corpus.parser.path."
            )
        for position, (key, article) in enumerate(articles.items()):
            text = article.get("extract", "") if isinstance(article, dict) else ""
            if not isinstance(text, str) or not text.strip():
                raise InputError(
                    f"{self.path}, article {key!r}: expected a non-empty `extract`; received "
                    f"{article!r:.120}. Correct that article or remove it."
                )
            yield Passage(
                str(position),
                read_title(article.get("title", key), Place(self.path, position + 1, "record")),
                " ".join(text.split()),
            )
