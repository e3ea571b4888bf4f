"""Top-k accuracy from answers, and recall, nDCG@10, MRR and MAP from annotated relevant passages.

Papers on open-domain question answering often call top-k accuracy "recall@k" (RE-RAG, table 2). It
is the share of questions with at least one passage that contains an answer (DPR), whereas recall@k
is the share of a question's relevant passages that are among the first k.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from winnow.errors import InputError

RANK_MEASURES = {"nDCG@10": "nDCG@10", "MRR": "RR", "MAP": "AP"}
"""Names in ir_measures of the measures of a whole ranking, by column heading."""


def top_k_accuracy(flags: Sequence[Sequence[bool]], k: int) -> NDArray[np.float64]:
    """Return for each question 1.0 if any of its first k contexts contains an answer, else 0.0.

    Args:
        flags: Whether each context contains an answer, best context first, for each question.
        k: Number of contexts to consider.
    """
    return np.array([float(any(question_flags[:k])) for question_flags in flags])


def compute_ranking_measures(
    relevant: Mapping[str, Collection[str]],
    ranked: Mapping[str, Sequence[str]],
    depths: Sequence[int],
) -> dict[str, NDArray[np.float64]]:
    """Compute recall@k for each depth, nDCG@10, MRR and MAP of each question with ir_measures.

    Relevance is binary. All measures of a question are 0 if none of its relevant passages was
    retrieved.

    Args:
        relevant: Ids of the relevant passages by question id. Each question needs at least one.
        ranked: Ids of the retrieved passages by question id, best first.
        depths: Values of k for recall@k.

    Returns:
        Vectors of the questions' values, in the order of `relevant`, by column heading.

    Raises:
        InputError: If a question has no relevant passage.
    """
    import ir_measures

    lacking_id = next(
        (question_id for question_id, passage_ids in relevant.items() if not passage_ids), None
    )
    if lacking_id is not None:
        raise InputError(
            f"Question {lacking_id!r} has no relevant passage, so that its recall is undefined. "
            "Leave the question out."
        )
    headings = {f"recall@{k}": f"R@{k}" for k in depths} | RANK_MEASURES
    measures = {ir_measures.parse_measure(name): heading for heading, name in headings.items()}
    qrels = [
        ir_measures.Qrel(question_id, passage_id, 1)
        for question_id, passage_ids in relevant.items()
        for passage_id in passage_ids
    ]
    run = [
        ir_measures.ScoredDoc(question_id, passage_id, float(-rank))
        for question_id in relevant
        for rank, passage_id in enumerate(ranked.get(question_id, ()))
    ]
    columns: dict[str, dict[str, float]] = {
        heading: dict.fromkeys(relevant, 0.0) for heading in headings
    }
    for result in ir_measures.iter_calc(list(measures), qrels, run):
        columns[measures[result.measure]][result.query_id] = result.value
    return {heading: np.array(list(values.values())) for heading, values in columns.items()}
