"""A question's contexts from its ranking: reranked by log-odds if requested, gold passages added and marked."""

from collections.abc import Mapping, Sequence
from typing import Literal

from winnow.artifacts.rankings import Rankings
from winnow.contexts.gold import mark_gold
from winnow.metrics.ranking import has_answers
from winnow.records import Context, Passage, Question, RankedHit

RankBy = Literal["retriever", "estimator"]


def contexts_of(rankings: Rankings, question: Question, rank_by: RankBy = "retriever") -> tuple[Context, ...]:
    """Return a question's contexts from stored rankings."""
    hits = rankings.hits[question.question_id]
    ids = {hit.passage_id for hit in hits} | set(question.gold_passage_ids)
    log_odds = {
        passage_id: rankings.log_odds[key]
        for passage_id in ids
        if (key := (question.question_id, passage_id)) in rankings.log_odds
    }
    return build_contexts(question, hits, rankings.passages, log_odds, rank_by)


def build_contexts(
    question: Question,
    hits: Sequence[RankedHit],
    passages: Mapping[str, Passage],
    log_odds: Mapping[str, float],
    rank_by: RankBy = "retriever",
) -> tuple[Context, ...]:
    """Return a question's contexts, best first, gold passages marked; a gold passage not retrieved comes last, with rank 0.

    Args:
        question: whose contexts they are.
        hits: its ranking by the retriever.
        passages: the texts, by passage id.
        log_odds: the estimator's, by passage id; possibly of the first hits alone.
        rank_by: "estimator" puts the scored hits first, by log-odds, and the others behind them as retrieved.

    """
    if rank_by == "estimator":
        scored = [hit for hit in hits if hit.passage_id in log_odds]
        ids = {hit.passage_id for hit in scored}
        best = sorted(scored, key=lambda hit: -log_odds[hit.passage_id])
        hits = [*best, *(hit for hit in hits if hit.passage_id not in ids)]
    contexts = [
        Context(passages[hit.passage_id], rank, hit.score, hit.has_answer, log_odds=log_odds.get(hit.passage_id))
        for rank, hit in enumerate(hits, start=1)
    ]
    retrieved = {hit.passage_id for hit in hits}
    for passage_id in question.gold_passage_ids:
        if passage_id not in retrieved:
            passage = passages[passage_id]
            has_answer = any(has_answers([passage.text], question.answers))
            contexts.append(Context(passage, 0, 0.0, has_answer, log_odds=log_odds.get(passage_id)))
    return mark_gold(question, contexts)
