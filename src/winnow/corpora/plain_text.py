"""Parser of plain text files, which are split into non-overlapping passages, by default of 100 words as in DPR."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.formats.text import find_files, iter_lines
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class PlainText:
    """A parser that splits text files into passages. The title of a passage is the file name without its suffix.

    Args:
        path: Text file, or folder that is searched recursively.
        pattern: Glob pattern of the files, if `path` is a folder.
        words: Number of words in a passage; the last passage of a file may be shorter.

    """

    revision: ClassVar[int] = 1
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    pattern: str = "*.txt"
    words: int = 100

    def __post_init__(self) -> None:
        """Validate the passage length."""
        if self.words < 1:
            raise ConfigError(f"corpus.parser.words must be at least 1; received {self.words}.")

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages of all files, sorted by path. The id of a passage is its file's name with its number."""
        root = Path(self.path)
        for file in find_files(root, self.pattern):
            words = (word for _, line in iter_lines(file) for word in line.split())
            name = file.stem if root.is_file() else str(file.relative_to(root).with_suffix(""))
            for number, text in enumerate(split_words(words, self.words)):
                yield Passage(f"{name}#{number}", file.stem, text)


def split_words(words: Iterator[str], words_per_text: int) -> Iterator[str]:
    """Yield texts of `words_per_text` words; the last one may be shorter."""
    buffer: list[str] = []
    for word in words:
        buffer.append(word)
        if len(buffer) == words_per_text:
            yield " ".join(buffer)
            buffer = []
    if buffer:
        yield " ".join(buffer)
