"""A JSON object of article summaries ({title: {title, extract, ...}}), as the `vital` corpus comes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.text import load_json
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class SummariesJson:
    """Yields one passage per article, with its position in the file as the id; the file is read whole."""

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
