"""Scores of one answer, and the measures of a cell with their intervals."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.metrics.answer import accuracy, exact_match, f1
from winnow.metrics.intervals import Estimate, mean_interval
from winnow.records import Outcome, Placed, Prediction, Price, Question

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Measure:
    """One column of the report: its name, its value a question, and whether it is a share."""

    name: str
    title: str
    value: Callable[[Row], float]
    share: bool = True
    digits: int = 0
    """Decimals of a measure that is no share."""
    over: Callable[[Row], bool] = lambda _: True
    """Which rows it is a mean of."""

    def estimate(self, rows: Sequence[Row], seed: int = 0) -> Estimate:
        """Return the mean over its rows with the interval; over no row at all it is NaN."""
        values: NDArray[np.float64] = np.array([self.value(row) for row in rows if self.over(row)], dtype=np.float64)
        return mean_interval(values, seed=seed) if len(values) else Estimate(math.nan, math.nan, math.nan, 0)

    def show(self, estimate: Estimate) -> str:
        """Render an estimate of it, "-" where there was no row."""
        if not estimate.n:
            return "-"
        return estimate.percent() if self.share else estimate.plain(self.digits)


MEASURES = (
    Measure("em", "EM", lambda row: row["em"]),
    Measure("f1", "F1", lambda row: row["f1"]),
    Measure("accuracy", "Acc", lambda row: row["accuracy"]),
    Measure("unk", "%Unk", lambda row: row["unknown"]),
    Measure("nm", "%NM", lambda row: row["not_majority"]),
    Measure("nm_pool", "%NM of pools", lambda row: row["not_majority"], over=lambda row: row["pooled"]),
    Measure("tokens_in", "tokens in", lambda row: row["tokens_in"], share=False),
    Measure("tokens_out", "tokens out", lambda row: row["tokens_out"], share=False),
    Measure("calls", "calls", lambda row: row["calls"], share=False, digits=1),
    Measure("seconds", "seconds", lambda row: row["seconds"], share=False, digits=2),
    Measure("money", "$ / 1000", lambda row: 1000 * row["money"], share=False, digits=3, over=lambda row: "money" in row),
)


_TOKENS = Measure("tokens", "tokens", lambda row: row["tokens_in"] + row["tokens_out"], share=False, digits=1)


def by_name(name: str) -> Measure:
    """Return a measure of the report, or "tokens" for those read and written together."""
    return next(one for one in (*MEASURES, _TOKENS) if one.name == name)


def prediction(question: Question, placed: Placed, outcome: Outcome) -> Prediction:
    """Score one outcome; `not_majority` (NM): a right answer stood in the pool and the final one is wrong."""
    answer = outcome.answer
    em = exact_match(answer.text, question.answers)
    pooled = any(exact_match(candidate, question.answers) for candidate in answer.candidates)
    return Prediction(
        question_id=question.question_id,
        answer=answer.text,
        candidates=answer.candidates,
        unknown=answer.unknown,
        passage_ids=tuple(c.passage.passage_id for c in placed.contexts),
        gold_position=placed.gold_position,
        provenance=placed.provenance,
        em=em,
        f1=f1(answer.text, question.answers),
        accuracy=accuracy(answer.text, question.answers),
        pooled=pooled,
        not_majority=pooled and em == 0.0,
        tokens_in=outcome.usage.tokens_in,
        tokens_out=outcome.usage.tokens_out,
        seconds=outcome.usage.seconds,
        calls=outcome.calls,
        truncated_passages=outcome.dropped,
    )


def priced(rows: Iterable[Row], price: Price) -> list[Row]:
    """Return the rows with the dollars that each question's tokens cost."""
    return [{**row, "money": price.of(row["tokens_in"], row["tokens_out"])} for row in rows]


def measure(rows: Sequence[Row], seed: int = 0) -> dict[str, Estimate]:
    """Return every measure of a cell by name."""
    return {one.name: one.estimate(rows, seed) for one in MEASURES}
