"""Shards: parts of the questions or corpus for independent processes on one machine or several.

A question belongs to the shard that the hash of its id names, so that all calls that its cells
share are in one shard. Each shard stores its calls in a ledger of its own. The merged ledgers
contain what one process would have called, and a run without a shard then only replays.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from winnow.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` parts of the questions.

    Attributes:
        number: Number of the part, from 1 to `count`.
        count: Number of parts.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse a text such as "2/4".

        Raises:
            ConfigError: If it is no such text.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ConfigError(
                'shard must be like "2/4", the second of four parts of the questions; received '
                f"{text!r}."
            )
        return cls(int(match[1]), int(match[2]))

    @property
    def name(self) -> str:
        """Return the shard as a part of a file name, such as "2-of-4"."""
        return f"{self.number}-of-{self.count}"

    def contains(self, question_id: str) -> bool:
        """Return whether a question belongs to this shard."""
        digest = hashlib.sha256(question_id.encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number - 1

    def contains_block(self, number: int) -> bool:
        """Return whether a block of the corpus, counted from 0, belongs to this shard."""
        return number % self.count == self.number - 1

    def find_ledger(self, folder: Path) -> Path:
        """Return the path of the shard's ledger in the folder of all shards."""
        return folder / f"ledger-{self.name}.sqlite"


def list_ledgers(folder: Path) -> list[Path]:
    """Return the paths of the ledgers in the folder of all shards."""
    return sorted(folder.glob("ledger-*-of-*.sqlite"))
