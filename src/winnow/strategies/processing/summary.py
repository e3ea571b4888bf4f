"""Summaries: RECOMP's abstractive compression (Xu et al. 2024), or by any language model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from winnow.errors import ConfigError
from winnow.identity.values import Template, check_values
from winnow.records import Context, Decoding, Question
from winnow.requests import Generate, Generation, Message, Plan
from winnow.strategies.processing.derived import derive_context
from winnow.strategies.prompt import drop_lowest
from winnow.text.final import extract_final_text
from winnow.text.templates import fill_passage

Of = Literal["all", "each"]


@dataclass(frozen=True, slots=True)
class Summary:
    """A context processor that replaces the contexts by what the rewriter writes about them.

    An empty summary leaves its contexts out, as in RECOMP, whose model writes nothing where they do
    not help; one that is empty because it was cut or filtered keeps them as they are.

    Args:
        template: Template of the prompt, with the fields {contexts} and {question}.
        decoding: Generation settings.
        of: "all" writes one summary of all contexts, "each" one of each context, under its title.
        passage: Template of a context in the prompt, with the field {text}, and {title} if it is to
            be shown.
    """

    revision: ClassVar[int] = 2

    template: Annotated[str, Template("contexts", "question")]
    decoding: Decoding
    of: Of = "all"
    passage: Annotated[str, Template("text", optional=("title",))] = "{text}"

    def __post_init__(self) -> None:
        check_values("context.plan", self)
        if self.decoding.samples > 1:
            raise ConfigError(
                f"context.plan.decoding.samples={self.decoding.samples}: a summary is one text; "
                "set it to 1."
            )

    def process(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[Context, ...]]:
        """Request the summaries, and return those that are not empty."""
        if not contexts:
            return ()
        parts: list[tuple[Context, ...]] = [tuple(contexts)]
        if self.of == "each":
            parts = [(context,) for context in contexts]
        replies: Sequence[Generation] = yield [
            self._build_request(question, part) for part in parts
        ]
        summaries: list[Context] = []
        for part, reply in zip(parts, replies, strict=True):
            text = extract_final_text(reply.text).strip()
            if text:
                source_contexts = (
                    [one for one in part if one.passage in reply.passages]
                    if reply.dropped
                    else part
                )
                summaries.append(
                    derive_context(
                        question,
                        source_contexts,
                        text,
                        part[0].passage.title if self.of == "each" else "",
                    )
                )
            elif reply.finish in ("length", "content_filter"):
                summaries += part
        return tuple(summaries)

    def _build_request(self, question: Question, contexts: Sequence[Context]) -> Generate:
        """Build a summary request, which drops lowest-ranked contexts first, gold passages last."""
        passages = tuple(context.passage for context in contexts)
        passages_text = "\n".join(
            fill_passage(self.passage, passage.title, passage.text) for passage in passages
        )
        prompt = self.template.format(contexts=passages_text, question=question.text)
        return Generate(
            (Message("user", prompt),),
            self.decoding,
            role="rewriter",
            passages=passages,
            shorter=(
                (lambda: self._build_request(question, drop_lowest(contexts)))
                if len(contexts) > 1
                else None
            ),
        )
