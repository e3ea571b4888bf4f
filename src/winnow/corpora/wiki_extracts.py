"""Wikipedia extracts as WikiExtractor --json writes them: one JSON object per line, with id, title and text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.corpora.plain_text import split_words
from winnow.formats.text import files_below, json_lines
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class WikiExtracts:
    """Yields non-overlapping passages of `words` words per page; pages without text (redirects) have none."""

    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    pattern: str = "wiki_*"
    words: int = 100

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages of all files below the path, page by page."""
        for file in files_below(Path(self.path), self.pattern):
            for _, page in json_lines(file, {"id": (str, int), "title": str, "text": str}):
                for number, text in enumerate(split_words(iter(page["text"].split()), self.words)):
                    yield Passage(f"{page['id']}#{number}", page["title"], text)
