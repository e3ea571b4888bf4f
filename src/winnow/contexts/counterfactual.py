"""Counterfactual passages: a gold passage with a false answer, to test what a reader believes."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.contexts.placed import PlacedContexts
from winnow.contexts.placement import Order, Placement
from winnow.metrics.breakdowns import classify_answer
from winnow.records import Context, Passage, Question
from winnow.text.containment import has_answer, has_answers, replace_answers
from winnow.text.normalization import normalize


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A placement that replaces the answer in the gold passage with another of the same kind.

    The substitute is drawn among the answers of the data set that have the same kind ("name",
    "date", "year", "number" or "text"; see `classify_answer`; yes and no have none), as in the
    substitution by the corpus of Longpre et al. (2021). It neither contains an accepted answer nor
    is contained in one, and is neither in the question nor in the passage. Of several gold
    passages, the first one is changed that has the answer, and the others are left out. Every
    accepted answer is replaced in title and text. All other passages with an accepted answer in
    text or title are left out, and the next ones take their places.

    Where the passages have no gold one, or where some form of the answer is left in it, nothing is
    replaced, and the context has no `substitute`: metrics of conflicts are undefined for such a
    question.

    Args:
        order: Position of the gold passage; see `Placement`.
        seed: Seed of the draw, which also depends on the question.
        answers: Answers among which substitutes are drawn; the accepted ones of the data set if
            there are none.
    """

    revision: ClassVar[int] = 5

    order: Order = "first"
    seed: Annotated[int, Ge(0)] = 13
    answers: Sequence[str] = ()
    _placement: Placement = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_placement", Placement("insert", self.order, self.seed))

    @property
    def uses_gold(self) -> bool:
        """Return True, because the gold passage is changed."""
        return True

    @property
    def moves_gold(self) -> bool:
        """Return whether the position of the gold passage says nothing of its rank."""
        return self._placement.moves_gold

    @property
    def words(self) -> str:
        """Return the rule in words, which follow those for the passages of a prompt."""
        return f"{self._placement.words}, with a false answer in it"

    def place(self, question: Question, contexts: Sequence[Context], k: int) -> PlacedContexts:
        """Select k contexts (fewer if the ranking is shorter), with a false answer in the gold one.

        Raises:
            ConfigError: If `order` is a position beyond k.
        """
        changes = (
            (context, self._change(question, context)) for context in contexts if context.is_gold
        )
        gold, replacement = next(
            ((one, change) for one, change in changes if change is not None), (None, None)
        )
        if replacement is None:
            return self._placement.place(question, contexts, k)
        titles = has_answers([one.passage.title for one in contexts], question.answers)
        originals = [
            replacement if one is gold else one
            for one, in_title in zip(contexts, titles, strict=True)
            if one is gold or not (one.is_gold or one.has_answer or in_title)
        ]
        return self._placement.place(question, originals, k)

    def _change(self, question: Question, gold: Context) -> Context | None:
        """Return the gold context with a substitute for the answer, or None if none fits."""
        passage = gold.passage
        texts = (passage.title, passage.text)
        if not any(has_answers(texts, question.answers)):
            return None
        for substitute in self._iter_substitutes(question, passage):
            title, text = (replace_answers(one, question.answers, substitute) for one in texts)
            if any(has_answers((title, text), question.answers)) or not has_answer(
                f"{title}\n{text}", [substitute]
            ):
                continue
            return replace(
                gold,
                passage=replace(passage, title=title, text=text),
                has_answer=False,
                substitute=substitute,
            )
        return None

    def _iter_substitutes(self, question: Question, passage: Passage) -> Iterator[str]:
        """Yield answers of the same kind that may replace a question's answer, in random order."""
        own = list(question.answers)
        forms = [form for one in own if (form := normalize(one))]
        kind = classify_answer(own[0])
        candidates = _group_by_kind(tuple(self.answers)).get(kind, ()) if kind != "yes/no" else ()
        rng = random.Random(
            f"{self.seed}/counterfactual/{question.text}"
        )  # the same for all searches of a question
        for answer in rng.sample(candidates, len(candidates)):
            texts, form = (question.text, passage.title, passage.text), normalize(answer)
            if not form or any(
                form in one or one in form for one in forms
            ):  # metrics look for it in an answer by its letters
                continue
            if not any(
                (
                    has_answer(answer, own),
                    *has_answers(own, [answer]),
                    *has_answers(texts, [answer]),
                )
            ):
                yield answer


@lru_cache(maxsize=8)
def _group_by_kind(answers: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    """Return the distinct answers of each kind."""
    groups: dict[str, list[str]] = {}
    for answer in dict.fromkeys(answers):
        groups.setdefault(classify_answer(answer), []).append(answer)
    return groups
