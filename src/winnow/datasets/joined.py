"""Several data sets as one, each with splits of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.datasets.split import Split
from winnow.protocols import DatasetParser
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class JoinedDataset:
    """The questions of several data sets, whose splits are assigned within each.

    The name of a question's data set begins its id and the ids of its gold passages: "nq/test3". A
    joined corpus of the same names has these gold passages.

    Args:
        parts: Parser of each data set by name.
        split: Assignment of each data set's questions to splits: RAGE withholds 250 questions of NQ
            and 250 of HotpotQA.
    """

    revision: ClassVar[int] = 1

    parts: Mapping[str, DatasetParser]
    split: Split

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions, data set by data set, with their splits."""
        for name, parser in self.parts.items():
            for question in self.split.assign(parser):
                gold = tuple(f"{name}/{passage_id}" for passage_id in question.gold_passage_ids)
                yield replace(
                    question, question_id=f"{name}/{question.question_id}", gold_passage_ids=gold
                )
