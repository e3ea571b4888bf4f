"""Parser of the passages in a FiD JSON file, for experiments with existing retrieval results."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import InputError
from winnow.formats.fid_json import read_fid
from winnow.identity.markers import InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class FidCorpus:
    """A parser of the distinct passages in a FiD file, or in a folder with one file per split."""

    revision: ClassVar[int] = 4

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Passage]:
        """Yield each passage once, in order of first appearance.

        Raises:
            InputError: If an id has two texts, as where contexts are numbered within each question.
        """
        digests: dict[str, bytes] = {}
        for row in read_fid(Path(self.path)):
            for passage, _ in row.contexts:
                digest = hashlib.blake2b(
                    f"{passage.title}\n{passage.text}".encode(), digest_size=8
                ).digest()
                if passage.passage_id not in digests:
                    digests[passage.passage_id] = digest
                    yield passage
                elif digests[passage.passage_id] != digest:
                    raise InputError(
                        f"{self.path}: the id {passage.passage_id!r} has two passages, the second "
                        f"at question {row.question.question_id!r} ({passage.text[:60]!r}). Ids "
                        "must be those of one corpus. If contexts are numbered within each "
                        "question, remove their ids; they get ids of question and position then."
                    )
