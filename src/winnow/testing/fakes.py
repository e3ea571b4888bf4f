"""Fakes for tests: a scripted reader, plans with scripted replies, and small records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from winnow.metrics.base import Sample
from winnow.metrics.correctness import ExactMatch
from winnow.metrics.cost import Consumption
from winnow.metrics.majority import NotMajority, NotMajorityOfPools
from winnow.metrics.unknown import Unknown
from winnow.records import (
    Context,
    Generate,
    Generation,
    Passage,
    Plan,
    Prediction,
    Question,
    Request,
    Result,
    RoleUsage,
    T,
    Usage,
)
from winnow.reports.cells import CellResult
from winnow.sweeps.labels import CellLabels

Reply = Callable[[str], str]


@dataclass
class ScriptedReader:
    """An engine that replies by a function and records the prompts that it receives.

    Args:
        reply: Function from a prompt, the text of the last message, to the reply.
        identity: Identity under which the ledger stores results.
        capacity: Number of requests to submit at once.
        batch: Number of results that `collect` returns at once.
        context_length: Context length in characters.
        prompts: Prompts received so far.

    """

    revision: ClassVar[int] = 1

    reply: Reply = lambda _: "unknown"
    identity: str = "scripted"
    capacity: int = 64
    batch: int = 8
    context_length: int = 1_000_000
    prompts: list[str] = field(default_factory=list)
    _pending: list[Generate] = field(default_factory=list)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the only kind of request that it serves, Generate."""
        return (Generate,)

    def refusal(self, request: Request) -> str | None:
        """Return why a request cannot be served, or None if it can. Log-probabilities are not supported."""
        return "no log-probabilities" if isinstance(request, Generate) and request.token_logprobs else None

    def check(self) -> None:
        """Check nothing, because nothing can be missing."""

    def close(self) -> None:
        """Close nothing, because nothing is open."""

    def fits(self, request: Request) -> bool:
        """Return whether the prompt fits into the context length."""
        return self.size(request) <= self.context_length

    def size(self, request: Request) -> int:
        """Return the prompt's length in characters."""
        return sum(len(m.content) for m in request.messages) if isinstance(request, Generate) else 0

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests."""
        self._pending += [request for request in requests if isinstance(request, Generate)]

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (replies are computed at once)
        """Reply to up to `batch` requests."""
        batch, self._pending = self._pending[: self.batch], self._pending[self.batch :]
        return [(request, self._answer(request)) for request in batch]

    def _answer(self, request: Generate) -> Generation:
        prompt = request.messages[-1].content
        self.prompts.append(prompt)
        text = self.reply(prompt)
        return Generation(text, usage=Usage(len(prompt.split()), len(text.split())))


def play(plan: Plan[T], replies: Sequence[Sequence[str]]) -> tuple[T, list[list[str]]]:
    """Run a plan with scripted replies; return its result and the prompts of each round.

    Args:
        plan: Plan to run.
        replies: Replies of each round, in the order of the requests.

    """
    prompts: list[list[str]] = []
    rounds = iter(replies)
    try:
        requests = next(plan)
        while True:
            prompts.append([request.messages[-1].content for request in requests if isinstance(request, Generate)])
            requests = plan.send([Generation(text) for text in next(rounds)])
    except StopIteration as stop:
        return stop.value, prompts


def context(number: int, text: str, *, has_answer: bool = False, is_gold: bool = False, rank: int | None = None) -> Context:
    """Build a context with the passage id "p<number>" and the number as its default rank."""
    passage = Passage(f"p{number}", f"Title {number}", text)
    return Context(passage, number if rank is None else rank, 1.0 / max(number, 1), has_answer, is_gold)


def question(text: str = "Who wrote Emma?", answers: Sequence[str] = ("Jane Austen",), question_id: str = "q1") -> Question:
    """Build a question."""
    return Question(question_id, text, tuple(answers))


PASSAGES = (
    Passage("a", "Paris", "Paris is the capital of France on the Seine."),
    Passage("b", "Berlin", "Berlin is the capital of Germany."),
    Passage("c", "Seine", "The Seine is a river that flows through France."),
    Passage("d", "Dogs", "Dogs bark and cats meow."),
)
"""A corpus of four passages, for tests of retrievers."""


def sample(answer: str, number: int = 0, answers: Sequence[str] = ("x",), **fields: Any) -> Sample:
    """Build a question with its prediction.

    Args:
        answer: Predicted answer.
        number: Number of the question, from which its id is built.
        answers: Accepted answers.
        fields: Further fields of the prediction, and `calls`, `tokens_in` and `tokens_out` of the reader's usage.

    """
    question_id = f"q{number}"
    usage = (RoleUsage("reader", fields.pop("calls", 1), fields.pop("tokens_in", 100), fields.pop("tokens_out", 2), 0.5),)
    prediction = Prediction(question_id, answer, fields.pop("unknown", False), usage=usage, **fields)
    return Sample(question(answers=answers, question_id=question_id), prediction)


METRICS = (
    ExactMatch("em", "EM"),
    Unknown("unk", "%Unk"),
    NotMajority("nm", "%NM"),
    NotMajorityOfPools("nm_pool", "%NM of pools"),
    Consumption("tokens_in", "tokens in", "number", 0, of="tokens_in"),
    Consumption("tokens", "tokens", "number", 1, of="tokens"),
)
"""The metrics of `cell_result`."""


def cell_result(strategy: str, k: int, gold: str, ems: Sequence[float]) -> CellResult:
    """Build a cell with the given exact matches. Every second question has a gold passage, unless k is 0."""
    samples = []
    for n, em in enumerate(ems):
        candidate = "x" if em else "y"
        candidates = (candidate,) if strategy == "post_fusion" else ()
        provenance = "distant" if n % 2 and k else "none"
        fields: dict[str, Any] = {"unknown": not em, "candidates": candidates, "provenance": provenance}
        samples.append(sample("x" if em else "unknown", n, tokens_in=100 + n, calls=k or 1, **fields))
    return CellResult(CellLabels(strategy, k, gold), samples, METRICS)
