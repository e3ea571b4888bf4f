"""The searches of plans under a cell's budget and with the cell's placement of their results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeGuard

from annotated_types import Ge
from msgspec import structs

from winnow.contexts.counterfactual import Counterfactual
from winnow.contexts.distractors import Distractors
from winnow.contexts.gold import mark_gold
from winnow.contexts.placed import PlacementRule
from winnow.contexts.placement import Placement
from winnow.identity.values import check_values
from winnow.records import Answer, Context, Passage, Question
from winnow.requests import (
    BUDGET,
    Failed,
    Generation,
    Pages,
    PlacedPages,
    Plan,
    Request,
    Score,
    Search,
)
from winnow.sweeps.rounds import intercept_rounds
from winnow.text.containment import has_answers


@dataclass(frozen=True, slots=True)
class SearchRules:
    """Rules for the searches of a question, which hold for every strategy.

    A search beyond the budget is not made. The plan receives `Failed` with the reason `BUDGET`, and
    ends by its own rules: an agent is told to answer, and other strategies answer from what they
    have. If found passages are placed, the distractors and the placement of the cell select and
    order the result of each search as they do the contexts of the first prompt: for example, a gold
    passage that was not found is inserted, or one that was found is removed and the next passage
    takes its place. Searches are then for twice as many passages. A position beyond the result of a
    search is its end.

    Args:
        max_searches: Maximum number of searches of a question, or None.
        max_tokens: Number of tokens that a question has used, in prompts and replies of all roles,
            from which no search is made, or None.
        placed: Whether found passages are placed.
    """

    revision: ClassVar[int] = 2

    max_searches: Annotated[int, Ge(0)] | None = None
    max_tokens: Annotated[int, Ge(0)] | None = None
    placed: bool = False

    def __post_init__(self) -> None:
        check_values("search.rules", self)

    def apply(
        self,
        plan: Plan[Answer],
        question: Question,
        known: Sequence[Context],
        pool: Sequence[Passage],
        distractors: Distractors,
        placement: PlacementRule,
    ) -> Plan[Answer]:
        """Run a plan, whose searches follow the rules.

        Args:
            plan: Plan of a strategy.
            question: Question of the plan.
            known: Contexts of the question's ranking, with gold passages marked, which are
                inserted.
            pool: Passages from which random distractors are drawn.
            distractors: Distractors of the cell.
            placement: Placement of the cell.
        """
        gold = [replace(context, rank=0, score=None) for context in known if context.is_gold]
        num_searches = num_tokens = num_placed = 0

        def serve(requests: Sequence[Request]) -> Plan[Sequence[Any]]:
            nonlocal num_searches, num_tokens, num_placed
            results: list[Any] = [Failed(BUDGET)] * len(requests)
            served_requests: dict[int, Request] = {}
            for index, request in enumerate(requests):
                if _is_search(request):
                    if self._is_spent(num_searches, num_tokens):
                        continue
                    num_searches += 1
                served_requests[index] = self._widen(request)
            if served_requests:
                for index, result in zip(
                    served_requests, (yield list(served_requests.values())), strict=True
                ):
                    results[index] = result
            num_tokens += sum(_count_tokens(result) for result in results)
            for index, request in enumerate(requests):
                if self.placed and _is_search(request) and isinstance(results[index], Pages):
                    num_placed += 1
                    search_question = replace(
                        question, question_id=f"{question.question_id}/search {num_placed}"
                    )
                    results[index] = _place(
                        results[index],
                        request.n,
                        search_question,
                        gold,
                        pool,
                        distractors,
                        placement,
                    )
            return results

        return intercept_rounds(plan, serve)

    def _is_spent(self, num_searches: int, num_tokens: int) -> bool:
        return (self.max_searches is not None and num_searches >= self.max_searches) or (
            self.max_tokens is not None and num_tokens >= self.max_tokens
        )

    def _widen(self, request: Request) -> Request:
        """Return a request for twice the passages if it is a search whose results are placed."""
        return (
            structs.replace(request, n=2 * request.n)
            if self.placed and _is_search(request)
            else request
        )


def _is_search(request: Request) -> TypeGuard[Search]:
    return isinstance(request, Search) and request.role == "search"


def _count_tokens(result: object) -> int:
    return (
        result.usage.tokens_in + result.usage.tokens_out
        if isinstance(result, Generation | Score)
        else 0
    )


def _place(
    pages: Pages,
    n: int,
    question: Question,
    gold: Sequence[Context],
    pool: Sequence[Passage],
    distractors: Distractors,
    placement: PlacementRule,
) -> Pages:
    """Return n of the found passages, selected and placed as the contexts of the first prompt are.

    Gold are the gold passages of the question's ranking. If none of them is annotated or found, it
    is the first passage that contains an answer. Random choices depend on the question's id, so
    that each search has its own.
    """
    scores = pages.scores or (None,) * len(pages.passages)
    matches = has_answers([passage.text for passage in pages.passages], question.answers)
    entries = zip(pages.passages, scores, matches, strict=True)
    results = [
        Context(passage, rank, score, match)
        for rank, (passage, score, match) in enumerate(entries, start=1)
    ]
    ids, gold_ids = ({context.passage.passage_id for context in one} for one in (results, gold))
    contexts: Sequence[Context] = [
        *results,
        *(context for context in gold if context.passage.passage_id not in ids),
    ]
    if question.gold_passage_ids or ids & gold_ids:
        contexts = [
            replace(context, is_gold=context.passage.passage_id in gold_ids) for context in contexts
        ]
    else:
        contexts = mark_gold(question, contexts)
    if isinstance(placement, Placement | Counterfactual) and isinstance(placement.order, int):
        placement = replace(placement, order=min(placement.order, n))
    if isinstance(placement, Placement) and placement.gold == "insert_all":
        n = max(n, sum(context.is_gold for context in contexts))
    contexts = distractors.replace_contexts(question, contexts, n, pool)
    placed_contexts = placement.place(question, contexts, n).contexts
    return PlacedPages(
        tuple(one.passage for one in placed_contexts),
        pages.snapshots,
        tuple(one.score for one in placed_contexts if pages.scores),
        ranks=tuple(_compute_ranks(placed_contexts)),
        gold=tuple(one.is_gold for one in placed_contexts),
    )


def _compute_ranks(contexts: Sequence[Context]) -> list[int]:
    """Return the rank of each context among them. Those that were not found rank last."""
    found_ranks = sorted(context.rank for context in contexts if context.rank)
    return [
        found_ranks.index(context.rank) + 1 if context.rank else len(contexts)
        for context in contexts
    ]
