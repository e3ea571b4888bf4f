"""RAGChecker (Ru et al. 2024): contributions of retrieval and reader, from verdicts on claims."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from winnow.metrics.base import Sample
from winnow.metrics.claim_checks import (
    ClaimMetric,
    ask_for_claims,
    ask_for_verdicts,
    read_claims,
    read_verdicts,
)
from winnow.requests import Generation, Plan

Measure = Literal[
    "precision", "recall", "f1", "claim_recall", "context_precision", "context_utilization",
    "noise_relevant", "noise_irrelevant", "hallucination", "self_knowledge", "faithfulness",
]  # fmt: skip
Matrix = NDArray[np.bool_]
_NEEDS: dict[str, tuple[str, ...]] = {
    "precision": ("answer",),
    "recall": ("response",),
    "f1": ("answer", "response"),
    "claim_recall": ("gold",),
    "context_precision": ("gold",),
    "context_utilization": ("gold", "response"),
    "noise_relevant": ("retrieved", "answer", "gold"),
    "noise_irrelevant": ("retrieved", "answer", "gold"),
    "hallucination": ("retrieved", "answer"),
    "self_knowledge": ("retrieved", "answer"),
    "faithfulness": ("retrieved",),
}
"""Verdicts that each measure needs: whether the accepted answer entails the reply's claims
("answer"), the reply those of the accepted answer ("response"), each passage the reply's claims
("retrieved") or those of the accepted answer ("gold")."""


@dataclass(frozen=True)
class RagChecker(ClaimMetric):
    """One of RAGChecker's measures of an answer.

    The judge lists the claims of the reply and of the accepted answer, the first one, and decides
    which claims are entailed by the other text and by each passage that the reader saw. All
    measures of a cell make the same requests, once. Prompts are our own; the formulas follow
    the published code (`compute_measure`).

    In the dialect "strict", a measure without claims, passages or a complete list of verdicts is
    undefined, and so are those of the reply where the answer is "unknown". In the dialect
    "ragchecker" they are 0, verdicts that a reply lacks are neutral, and every answer counts, as in
    the published code.

    Args:
        of: The measure. "noise_relevant" and "noise_irrelevant" are the shares of wrong claims that
            come from passages with a claim of the accepted answer, and from others.
        dialect: Rules for what is missing.
        claims: Number of claims of a request for verdicts (published: 5).
    """

    revision: ClassVar[int] = 5

    of: Measure = "precision"
    dialect: Literal["strict", "ragchecker"] = "strict"
    claims: Annotated[int, Ge(1)] = 5

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Request the claims, then the verdicts that the measure needs."""
        question, prediction = sample.question, sample.prediction
        is_strict = self.dialect == "strict"
        is_abstention = is_strict and prediction.unknown and _NEEDS[self.of] != ("gold",)
        needs_answer = _NEEDS[self.of] != ("retrieved",)
        if sample.shown is None or (needs_answer and not question.answers) or is_abstention:
            return None
        response, accepted_answer = sample.whole_answer, next(iter(question.answers), "")
        passages = [context.passage.titled_text for context in sample.shown.contexts]
        sources = {
            "answer": (response, [accepted_answer]),
            "response": (accepted_answer, [response]),
            "retrieved": (response, passages),
            "gold": (accepted_answer, passages),
        }
        required_sources = {name: sources[name] for name in _NEEDS[self.of]}
        texts = list(dict.fromkeys(text for text, _ in required_sources.values()))
        lists: Sequence[Generation] = yield [
            ask_for_claims(self.extract_template, question.text, text, self.max_new_tokens)
            for text in texts
        ]
        claims = {
            text: read_claims(reply, is_strict=is_strict)
            for text, reply in zip(texts, lists, strict=True)
        }
        if is_strict and None in claims.values():
            return None  # the judge listed nothing
        requests = {
            name: ask_for_verdicts(
                self.check_template, question.text, claims[text] or [], references, self.claims
            )
            for name, (text, references) in required_sources.items()
        }
        all_requests = [request for own in requests.values() for request in own]
        replies: Sequence[Generation] = (yield all_requests) if all_requests else []
        reply_iterator = iter(replies)
        matrices: dict[str, Matrix] = {}
        for name, (text, references) in required_sources.items():
            own = [next(reply_iterator) for _ in requests[name]]
            size = len(claims[text] or []), len(references)
            verdicts = read_verdicts(own, *size, self.claims, is_padded=not is_strict)
            if any(verdict is None for row in verdicts for verdict in row):
                return None  # the judge gave too few or too many verdicts
            matrices[name] = np.array(verdicts, dtype=np.bool_).reshape(size)
        value = compute_measure(self.of, **matrices)
        return 0.0 if value is None and not is_strict else value


def compute_measure(
    measure: Measure,
    *,
    answer: Matrix | None = None,
    response: Matrix | None = None,
    retrieved: Matrix | None = None,
    gold: Matrix | None = None,
) -> float | None:
    """Compute a measure from verdicts as in RAGChecker's code, or return None where that returns 0.

    Precision and both noises and hallucination add up to 1, and so do faithfulness, hallucination
    and self-knowledge.

    Args:
        measure: Name of the measure.
        answer: (claims of the reply, 1) Whether the accepted answer entails them.
        response: (claims of the accepted answer, 1) Whether the reply entails them.
        retrieved: (claims of the reply, passages) Whether a passage entails them.
        gold: (claims of the accepted answer, passages) Whether a passage entails them.
    """
    texts = {"answer": answer, "response": response, "retrieved": retrieved, "gold": gold}
    matrices = {name: matrix for name in _NEEDS[measure] if (matrix := texts[name]) is not None}
    assert len(matrices) == len(_NEEDS[measure]), f"{measure} needs {', '.join(_NEEDS[measure])}."
    if not all(matrix.size for matrix in matrices.values()):
        return None
    by_claim = {name: _any(matrix, 1) for name, matrix in matrices.items()}
    match measure:
        case "precision" | "recall" | "claim_recall" | "faithfulness":
            (entailed,) = by_claim.values()
            return float(entailed.mean())
        case "f1":
            precision, recall = (float(entailed.mean()) for entailed in by_claim.values())
            return 2 * precision * recall / (precision + recall) if precision and recall else 0.0
        case "context_precision":
            return float(_any(matrices["gold"], 0).mean())
        case "context_utilization":
            recalled = by_claim["gold"]
            return (
                float((recalled & by_claim["response"]).sum() / recalled.sum())
                if recalled.any()
                else None
            )
        case "hallucination":
            return float((~by_claim["retrieved"] & ~by_claim["answer"]).mean())
        case "self_knowledge":
            return float((~by_claim["retrieved"] & by_claim["answer"]).mean())
        case "noise_relevant" | "noise_irrelevant":
            is_relevant = _any(matrices["gold"], 0)
            from_relevant = _any(matrices["retrieved"][:, is_relevant], 1)
            source = (
                from_relevant
                if measure == "noise_relevant"
                else by_claim["retrieved"] & ~from_relevant
            )
            return float((source & ~by_claim["answer"]).mean())


def _any(matrix: Matrix, axis: int) -> Matrix:
    return np.asarray(matrix.any(axis=axis), dtype=np.bool_)
