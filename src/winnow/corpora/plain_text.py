"""Parser of plain text, split into non-overlapping passages, by default of 100 words as in DPR."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.formats.scripts import split_words
from winnow.formats.text import find_files, iter_lines
from winnow.identity.markers import InputFile
from winnow.identity.values import check_values
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class PlainText:
    """A parser that splits text files into passages. They have no title by default: a file name is
    seldom one.

    Args:
        path: Text file, or folder that is searched recursively.
        pattern: Glob pattern of the files, if `path` is a folder.
        words: Number of words in a passage; the last passage of a file may be shorter. A character
            of a script without spaces, such as Chinese or Thai, counts as a word. None makes each
            file a passage.
        title: What the title of a passage is: "none", the "first_line" of its file, which is then
            not part of the text, or the "file_name" without its suffix.
    """

    revision: ClassVar[int] = 4

    path: Annotated[str, InputFile]
    pattern: str = "*.txt"
    words: Annotated[int, Ge(1)] | None = 100
    title: Literal["none", "first_line", "file_name"] = "none"

    def __post_init__(self) -> None:
        check_values("corpus.parser", self)

    def __iter__(self) -> Iterator[Passage]:
        """Yield passages in path order. The id of a passage is its file's name with its number."""
        root = Path(self.path)
        for file in find_files(root, self.pattern, "corpus.parser.path and corpus.parser.pattern"):
            lines = (line for _, line in iter_lines(file))
            title = (
                next(lines, "").strip()
                if self.title == "first_line"
                else file.stem
                if self.title == "file_name"
                else ""
            )
            name = file.stem if root.is_file() else str(file.relative_to(root).with_suffix(""))
            for number, text in enumerate(split_words(lines, self.words)):
                yield Passage(f"{name}#{number}", title, text)
