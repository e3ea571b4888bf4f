"""Quality of rankings: top-k accuracy by answers, and recall, nDCG@10, MRR and MAP by judged passages.

Papers on open-domain question answering often call top-k accuracy "recall@k" (RE-RAG, table 2). It is the share of questions
with at least one passage that contains an answer (DPR), whereas recall@k is the share of a question's relevant passages that
are among the first k.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from winnow.errors import InputError

RANK_MEASURES = {"nDCG@10": "nDCG@10", "MRR": "RR", "MAP": "AP"}
"""Measures of a whole ranking by heading, with their names in ir_measures."""


def top_k_accuracy(flags: Sequence[Sequence[bool]], k: int) -> NDArray[np.float64]:
    """Compute the top-k accuracy per question: 1.0 if any of its first k contexts contains an answer, else 0.0."""
    return np.array([float(any(row[:k])) for row in flags])


def judged_measures(
    relevant: Mapping[str, Collection[str]], ranked: Mapping[str, Sequence[str]], depths: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """Compute recall@k for each depth, nDCG@10, MRR and MAP per question, by ir_measures.

    Judgements are binary. A question without any retrieved relevant passage counts as 0.

    Args:
        relevant: Ids of the relevant passages by question; none may be empty.
        ranked: Ids of the retrieved passages by question, best first.
        depths: Values of k for recall@k.

    Returns:
        Vectors over the questions, in the order of `relevant`, by heading.

    Raises:
        InputError: If a question has no relevant passage.

    """
    import ir_measures

    empty = next((question_id for question_id, ids in relevant.items() if not ids), None)
    if empty is not None:
        raise InputError(f"Question {empty!r} has no judged passage, so that its recall is undefined.")
    headings = {f"recall@{k}": f"R@{k}" for k in depths} | RANK_MEASURES
    measures = {ir_measures.parse_measure(name): heading for heading, name in headings.items()}
    judgements = [ir_measures.Qrel(q, passage_id, 1) for q, ids in relevant.items() for passage_id in ids]
    run = [
        ir_measures.ScoredDoc(q, passage_id, float(-rank))
        for q in relevant
        for rank, passage_id in enumerate(ranked.get(q, ()))
    ]
    rows: dict[str, dict[str, float]] = {heading: dict.fromkeys(relevant, 0.0) for heading in headings}
    for value in ir_measures.iter_calc(list(measures), judgements, run):
        rows[measures[value.measure]][value.query_id] = value.value
    return {heading: np.array(list(values.values())) for heading, values in rows.items()}
