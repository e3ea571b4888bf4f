"""Adaptive-RAG (Jeong et al. 2024): no passage, placed ones or many rounds, by question class."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.values import Template, check_values
from winnow.protocols import Strategy
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Generate, Likelihood, Message, Plan
from winnow.strategies.closed_book import ClosedBook
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.ircot import Ircot
from winnow.text.final import extract_final_text

By = Literal["likelihood", "reply"]
Classifier = Literal["reader", "verifier"]
_REPLY_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Adaptive:
    """A strategy that classifies a question and answers closed book, by concatenation or by IRCoT.

    Classes and what they lead to are the paper's. The class is the most likely label, as with the
    paper's T5 that was trained to classify, or the first one in a reply, for servers that score no
    texts. A reply without a label takes the middle class.

    Args:
        prompt: Templates of the prompts that answer.
        decoding: Generation settings.
        template: Prompt of the classification, with {question}.
        chain: Template of IRCoT's chain of thought.
        labels: Names of the classes: no passage, the placed passages, many rounds.
        by: "likelihood" or "reply".
        n: Number of passages that each search of IRCoT gives.
        classifier: Role of the model that classifies: "reader", or "verifier" for one that was
            trained for it.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    template: Annotated[str, Template("question")]
    chain: str
    labels: Sequence[str] = ("A", "B", "C")
    by: By = "likelihood"
    n: Annotated[int, Ge(1)] = 5
    classifier: Classifier = "reader"

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        if (
            len(self.labels) != 3
            or len({label.lower() for label in self.labels}) != 3
            or not all(self.labels)
        ):
            raise ConfigError(
                "strategy.plan.labels must be three different names; received "
                f"{list(self.labels)!r}."
            )

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request the class of the question, and then what its strategy does."""
        number = yield from self._classify(question)
        strategies: tuple[Strategy, ...] = (
            ClosedBook(self.prompt, self.decoding),
            Concatenation(self.prompt, self.decoding),
            Ircot(self.prompt, self.decoding, self.chain, n=self.n),
        )
        answer = yield from strategies[number].plan(question, contexts)
        return replace(answer, trace=(f"class: {self.labels[number]}", *answer.trace))

    def _classify(self, question: Question) -> Plan[int]:
        """Return the index of a question's class; of equally likely labels, the first counts."""
        messages = (Message("user", self.template.format(question=question.text).strip()),)
        if self.by == "likelihood":
            scores = yield [
                Likelihood(messages, label, include_eos=False, role=self.classifier)
                for label in self.labels
            ]
            values = [score.value for score in scores]
            return values.index(max(values))
        (reply,) = yield [
            Generate(messages, Decoding(max_new_tokens=_REPLY_TOKENS), role=self.classifier)
        ]
        names = "|".join(map(re.escape, self.labels))
        label, text = rf"(?<!\w)(?:{names})(?!\w)", extract_final_text(reply.text)
        # as it is written first: the article "a" is not the label A
        match = re.search(label, text) or re.search(label, text, re.IGNORECASE)
        return [label.lower() for label in self.labels].index(match[0].lower()) if match else 1
