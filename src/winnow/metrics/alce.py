"""Long answers and lists of answers, as in ALCE (Gao et al. 2023): ASQA, QAMPARI and ELI5.

The parts of an answer that are looked for are in the metadata of the question: `qa_pairs` (ASQA),
`answers` (QAMPARI) and `claims` (ELI5). `winnow.formats.alce` reads them from ALCE's files. As in
ALCE's code, citations are removed, and texts are normalized as SQuAD's answers are. The whole
answer is read, and not its first line alone; ALCE's own prompts end there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeGuard

from winnow.metrics.base import JudgedMetric, MeanMetric, Sample
from winnow.metrics.metadata import build_error, read_list, read_texts
from winnow.records import Role
from winnow.requests import Estimate, Plan, Score
from winnow.text.citations import remove_citations
from winnow.text.normalization import normalize

ListMeasure = Literal["precision", "recall", "recall_5", "f1", "f1_5"]
_MOST = 5
"""Number of answers of a long list that a reader is asked for."""


@dataclass(frozen=True)
class ShortAnswerRecall(MeanMetric):
    """Share of a question's short answers that the long answer contains (STR-EM), or whether it
    contains all (STR-HIT).

    A short answer is contained if one of its spellings is a substring of the answer, even within a
    word. An answer "unknown" contains none. Undefined for questions without `qa_pairs`.

    Args:
        hit: Whether all short answers are needed.
    """

    revision: ClassVar[int] = 3

    hit: bool = False

    def score(self, sample: Sample) -> float | None:
        """Return the share of contained short answers, or whether it is 1."""
        pairs = read_list(sample.question, "qa_pairs")
        if not pairs:
            return None
        text = "" if sample.prediction.unknown else normalize(_read_answer(sample))
        spellings = [
            [spelling for one in _read_short_answers(sample, pair) if (spelling := normalize(one))]
            for pair in pairs
        ]
        matches = [any(spelling in text for spelling in own) for own in spellings]
        return float(all(matches)) if self.hit else sum(matches) / len(matches)


@dataclass(frozen=True)
class AnswerList(MeanMetric):
    """Precision, recall or F1 of a list of answers with commas between them (QAMPARI), by exact
    match of any spelling.

    An answer that is listed twice counts twice for the precision, as in ALCE's code. "recall_5" and
    "f1_5" ask for five right answers at most. Undefined for questions without `answers` in their
    metadata.

    Args:
        of: What is measured.
        dialect: "strict" leaves the precision of an empty list undefined; "alce" takes it for 0.
    """

    revision: ClassVar[int] = 4

    of: ListMeasure = "f1"
    dialect: Literal["strict", "alce"] = "strict"

    def score(self, sample: Sample) -> float | None:
        """Return the measure of a question."""
        answers = [set(map(normalize, names)) for names in _read_spellings(sample)]
        if not answers:
            return None
        text = "" if sample.prediction.unknown else _read_answer(sample).rstrip(".").rstrip(",")
        listed_names = [name for part in text.split(",") if (name := normalize(part))]
        if self.of == "precision" and not listed_names:
            return None if self.dialect == "strict" else 0.0
        num_right = sum(any(name in names for names in answers) for name in listed_names)
        num_found = sum(any(name in names for name in listed_names) for names in answers)
        precision = num_right / len(listed_names) if listed_names else 0.0
        most = _MOST if self.of.endswith("_5") else len(answers)
        recall = min(most, num_found) / min(most, len(answers))
        if self.of == "precision":
            return precision
        if self.of.startswith("recall"):
            return recall
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@dataclass(frozen=True)
class ClaimRecall(JudgedMetric):
    """Share of a question's claims that the answer entails, according to an NLI model (ELI5).

    Premise is the whole answer without citations. An answer "unknown" entails none. Undefined for
    questions without `claims`.
    """

    roles: ClassVar[tuple[Role, ...]] = ("nli",)
    revision: ClassVar[int] = 2

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Request whether the answer entails each claim."""
        claims = read_texts(sample.question, "claims")
        if not claims:
            return None
        premise = _read_answer(sample)
        if sample.prediction.unknown or not premise:
            return 0.0
        scores: Sequence[Score] = yield [Estimate(claim, premise, role="nli") for claim in claims]
        return sum(score.value > 0 for score in scores) / len(claims)


def _read_short_answers(sample: Sample, pair: Any) -> list[str]:
    """Return the spellings of a pair's short answer; raise InputError for one of another form."""
    spellings = pair.get("short_answers") if isinstance(pair, dict) else None
    if not _is_texts(spellings):
        expected = "a list of objects with a list short_answers"
        raise build_error(sample.question, "qa_pairs", pair, expected)
    return spellings


def _read_spellings(sample: Sample) -> list[list[str]]:
    """Return the spellings of each answer of the metadata; a text is an answer of one spelling.

    Raises:
        InputError: If the answers have another form.
    """
    answers = [
        [spellings] if isinstance(spellings, str) else spellings
        for spellings in read_list(sample.question, "answers")
    ]
    for spellings in answers:
        if not _is_texts(spellings):
            expected = "a list of texts, or of lists of spellings"
            raise build_error(sample.question, "answers", spellings, expected)
    return answers


def _is_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _read_answer(sample: Sample) -> str:
    """Return the whole answer without its citations."""
    return remove_citations(sample.whole_answer).strip()
