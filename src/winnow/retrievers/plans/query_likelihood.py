"""Ranking by the likelihood of the question given each passage (UPR, Sachan et al., 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import Template, check_values
from winnow.records import Context, Hit, Question
from winnow.requests import Likelihood, Message, Plan
from winnow.retrievers.plans.results import cut
from winnow.text.templates import fill_passage


@dataclass(frozen=True, slots=True)
class QueryLikelihood:
    """A plan that ranks by a language model's log P(question | passage), which is each hit's score.

    The paper divides by the number of the question's tokens, which is the same for all passages and
    leaves the order as it is.

    Args:
        template: Prompt with {text}, and {title} if it is to be shown.
        top: Number of passages that are ordered; the others follow as they are, without scores.
        max_words: Number of words that a passage shows.
    """

    revision: ClassVar[int] = 2

    template: Annotated[str, Template("text", optional=("title",))]
    top: Annotated[int, Ge(1)] = 100
    max_words: Annotated[int, Ge(1)] = 300

    def __post_init__(self) -> None:
        check_values("retriever.plan", self)

    def plan(self, question: Question, contexts: Sequence[Context], depth: int) -> Plan[list[Hit]]:
        """Request the question's likelihood given each passage, with ties left in their order."""
        scored_passages, rest = (
            [cut(context.passage, self.max_words) for context in contexts[: self.top]],
            contexts[self.top :],
        )
        prompts = [
            fill_passage(self.template, passage.title, passage.text) for passage in scored_passages
        ]
        scores = yield [
            Likelihood(
                (Message("user", prompt),),
                question.text,
                include_eos=False,
                role="reranker",
                passages=(passage,),
            )
            for prompt, passage in zip(prompts, scored_passages, strict=True)
        ]
        hits = [
            Hit(passage.passage_id, score.value)
            for passage, score in zip(scored_passages, scores, strict=True)
        ]
        hits.sort(key=lambda hit: -(hit.score or 0.0))
        return [*hits, *(Hit(context.passage.passage_id, None) for context in rest)][:depth]
