"""Article summaries in one JSON object, {title: {title, extract, ...}}, the format of the `vital` corpus."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.text import load_json
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class SummariesJson:
    """Parses each article's summary into a passage. Its id is the article's position in the file, which is read at once."""

    revision: ClassVar[int] = 1
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        articles = load_json(Path(self.path))
        if not isinstance(articles, dict):
            raise InputError(f"{self.path}: expected one object of articles; received a {type(articles).__name__}.")
        for number, (key, article) in enumerate(articles.items()):
            text = article.get("extract", "") if isinstance(article, dict) else ""
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"{self.path}, article {key!r}: expected a non-empty `extract`; received {article!r:.120}.")
            yield Passage(str(number), str(article.get("title", key)), " ".join(text.split()))
