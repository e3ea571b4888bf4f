"""Build the contexts of a question from its ranking, which may be reranked by log-odds, and mark the gold passages."""

from collections.abc import Mapping, Sequence
from typing import Literal

from winnow.artifacts.rankings import RankedHit, Rankings
from winnow.contexts.gold import mark_gold
from winnow.metrics.ranking import has_answers
from winnow.records import Context, Passage, Question

RankBy = Literal["retriever", "estimator"]


def build_ranked_contexts(rankings: Rankings, question: Question, rank_by: RankBy = "retriever") -> tuple[Context, ...]:
    """Build the contexts of a question from stored rankings, best first, with gold passages marked.

    Args:
        rankings: Stored rankings with their passages and, if they were scored, their log-odds.
        question: Question to which the contexts belong.
        rank_by: Order of the contexts (see `build_contexts`).

    """
    hits = rankings.hits[question.question_id]
    passage_ids = {hit.passage_id for hit in hits} | set(question.gold_passage_ids)
    log_odds = {
        passage_id: rankings.log_odds[question.question_id, passage_id]
        for passage_id in passage_ids
        if (question.question_id, passage_id) in rankings.log_odds
    }
    return build_contexts(question, hits, rankings.passages, log_odds, rank_by)


def build_contexts(
    question: Question,
    hits: Sequence[RankedHit],
    passages: Mapping[str, Passage],
    log_odds: Mapping[str, float],
    rank_by: RankBy = "retriever",
) -> tuple[Context, ...]:
    """Build the contexts of a question, best first, with gold passages marked.

    A gold passage that was not retrieved comes last, with rank 0.

    Args:
        question: Question to which the contexts belong.
        hits: Hits of the retriever, best first.
        passages: Passages by id.
        log_odds: Log-odds of the relevance estimator by passage id. They may cover only the first hits.
        rank_by: "retriever" keeps the order of the hits. "estimator" puts the hits with log-odds first, sorted by their
            log-odds, and keeps the order of the others.

    """
    if rank_by == "estimator":
        scored = [hit for hit in hits if hit.passage_id in log_odds]
        unscored = [hit for hit in hits if hit.passage_id not in log_odds]
        hits = [*sorted(scored, key=lambda hit: -log_odds[hit.passage_id]), *unscored]
    contexts = [
        Context(passages[hit.passage_id], rank, hit.score, hit.has_answer, log_odds=log_odds.get(hit.passage_id))
        for rank, hit in enumerate(hits, start=1)
    ]
    retrieved_ids = {hit.passage_id for hit in hits}
    for passage_id in question.gold_passage_ids:
        if passage_id not in retrieved_ids:
            passage = passages[passage_id]
            has_answer = any(has_answers([passage.text], question.answers))
            contexts.append(Context(passage, 0, None, has_answer, log_odds=log_odds.get(passage_id)))
    return mark_gold(question, contexts)
