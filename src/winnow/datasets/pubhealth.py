"""Parser of PubHealth: claims about health that are true or false, in JSON lines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import InputError
from winnow.formats.fields import require_text
from winnow.formats.text import read_json_lines
from winnow.identity.markers import InputFile
from winnow.records import Question

LABELS = {"true": "true", "false": "false", "SUPPORTS": "true", "REFUTES": "false"}
"""Accepted answer for each published label; Self-RAG's and CRAG's files have FEVER's labels."""
_OTHER_LABELS = ("mixture", "unproven", "snopes", "NOT ENOUGH INFO")


@dataclass(frozen=True, slots=True)
class PubHealth:
    """A parser that reads each line as a claim with the answer "true" or "false".

    Claims that are neither (mixture, unproven) are left out, as in the papers that use PubHealth
    for two labels. `meta` stores the label of the file ("label"). The field of the id is "claim_id"
    or "id"; without one, the lines are numbered.
    """

    revision: ClassVar[int] = 1

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the claims in file order."""
        path = Path(self.path)
        for place, row in read_json_lines(path, {"label": str}):
            label = row["label"].strip()
            if label in _OTHER_LABELS:
                continue
            if label not in LABELS:
                expectation = f"a label among {', '.join((*LABELS, *_OTHER_LABELS))}"
                raise InputError.at(place, received=repr(label), expected=expectation)
            claim_id = require_text(row.get("claim_id", row.get("id", place.number)), place, "id")
            claim = require_text(row.get("claim", row.get("question")), place, "claim")
            yield Question(claim_id, claim, (LABELS[label],), meta=json.dumps({"label": label}))
