"""Build contexts from a ranking, optionally reranked by log-odds, and mark the gold passages."""

from collections.abc import Mapping, Sequence
from typing import Literal

from winnow.artifacts.rankings import RankedHit, Rankings
from winnow.contexts.gold import mark_gold
from winnow.records import Context, Passage, Question
from winnow.text.containment import has_answers

RankBy = Literal["retriever", "estimator"]
_KEPT_QUESTIONS = 256
"""Number of questions whose contexts are kept, because a sweep's next cells place the same ones."""


def build_ranked_contexts(
    rankings: Rankings, question: Question, rank_by: RankBy = "retriever"
) -> tuple[Context, ...]:
    """Build the contexts of a question from stored rankings, best first, with gold passages marked.

    Args:
        rankings: Stored rankings with their passages and, if they were scored, their log-odds.
        question: Question to which the contexts belong.
        rank_by: Order of the contexts (see `build_contexts`).
    """
    key = (question.question_id, rank_by)
    if key not in rankings.built:
        if len(rankings.built) >= _KEPT_QUESTIONS:
            del rankings.built[next(iter(rankings.built))]
        rankings.built[key] = _build_ranked_contexts(rankings, question, rank_by)
    contexts: tuple[Context, ...] = rankings.built[key]
    return contexts


def _build_ranked_contexts(
    rankings: Rankings, question: Question, rank_by: RankBy
) -> tuple[Context, ...]:
    hits = rankings.hits[question.question_id]
    log_odds = rankings.log_odds.get(question.question_id, {})
    passages = rankings.get_passages(
        [*(hit.passage_id for hit in hits), *question.gold_passage_ids]
    )
    return build_contexts(question, hits, passages, log_odds, rank_by)


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
        log_odds: Log-odds of the relevance estimator by passage id. They may cover only the first
            hits.
        rank_by: "retriever" keeps the order of the hits. "estimator" puts the hits with log-odds
            first, sorted by their log-odds, and keeps the order of the others.
    """
    if rank_by == "estimator":
        scored_hits = [hit for hit in hits if hit.passage_id in log_odds]
        unscored_hits = [hit for hit in hits if hit.passage_id not in log_odds]
        hits = [*sorted(scored_hits, key=lambda hit: -log_odds[hit.passage_id]), *unscored_hits]
    contexts = [
        Context(
            passages[hit.passage_id],
            rank,
            hit.score,
            hit.has_answer,
            log_odds=log_odds.get(hit.passage_id),
        )
        for rank, hit in enumerate(hits, start=1)
    ]
    retrieved_ids = {hit.passage_id for hit in hits}
    for passage_id in question.gold_passage_ids:
        if passage_id not in retrieved_ids:
            passage = passages[passage_id]
            has_answer = any(has_answers([passage.text], question.answers))
            contexts.append(
                Context(passage, 0, None, has_answer, log_odds=log_odds.get(passage_id))
            )
    return mark_gold(question, contexts)
