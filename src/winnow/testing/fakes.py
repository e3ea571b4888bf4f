"""Test utilities without a model: a reader with scripted replies, a plan runner, and small records.

A plan is a generator that yields requests to a model and receives the replies. Strategies answer
questions by plans.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from winnow.metrics.base import Sample, Shown
from winnow.metrics.correctness import ExactMatch
from winnow.metrics.cost import Consumption
from winnow.metrics.majority import NotMajority, NotMajorityOfPools
from winnow.metrics.unknown import Unknown
from winnow.predictions import Prediction, RoleUsage
from winnow.readers.stops import end_reply
from winnow.records import Context, Hit, Passage, Question, T
from winnow.reports.cells import CellResult
from winnow.requests import Generate, Generation, Plan, Request, Result, Usage
from winnow.searchers.local import LocalSearch
from winnow.sweeps.labels import CellLabels

Reply = Callable[[str], str]
"""Function that returns the reply to a prompt."""


@dataclass
class ScriptedReader:
    """A reader that replies with the result of a function and records the prompts that it receives.

    Attributes:
        reply: Function that returns the reply to a prompt, which is the text of the last message.
        identity: Name under which the ledger stores results.
        capacity: Number of requests that the driver submits at once.
        batch_size: Maximum number of results that `collect` returns.
        context_length: Maximum length of a prompt in characters.
        prompts: Prompts that the reader has replied to, in order.
    """

    revision: ClassVar[int] = 1
    software: ClassVar[str] = ""
    reuses_prefixes: ClassVar[bool] = False

    reply: Reply = lambda _: "unknown"
    identity: str = "scripted"
    capacity: int = 64
    batch_size: int = 8
    context_length: int = 1_000_000
    prompts: list[str] = field(default_factory=list)
    _pending: list[Generate] = field(default_factory=list)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the types of requests that the reader serves, which is only `Generate`."""
        return (Generate,)

    def explain_refusal(self, request: Request) -> str | None:
        """Return why a request for log-probabilities cannot be served, or None for others."""
        return (
            "no log-probabilities"
            if isinstance(request, Generate) and request.token_logprobs
            else None
        )

    def check(self) -> None:
        """Do nothing, because the reader needs no model or server."""

    def close(self) -> None:
        """Do nothing, because the reader holds no resources."""

    def fits(self, request: Request) -> bool:
        """Return whether the prompt fits into the context length."""
        return self.count_tokens(request) <= self.context_length

    def count_tokens(self, request: Request) -> int:
        """Return the length of the prompt in characters."""
        return (
            sum(len(message.content) for message in request.messages)
            if isinstance(request, Generate)
            else 0
        )

    def submit(self, requests: Sequence[Request]) -> None:
        """Add requests to the queue."""
        self._pending += [request for request in requests if isinstance(request, Generate)]

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (replies are immediate)
        """Return the replies to the next `batch_size` requests of the queue."""
        batch, self._pending = self._pending[: self.batch_size], self._pending[self.batch_size :]
        return [(request, self._generate(request)) for request in batch]

    def _generate(self, request: Generate) -> Generation:
        prompt = request.messages[-1].content
        self.prompts.append(prompt)
        text, stop = self.reply(prompt), request.decoding.stop
        text = end_reply(text, "stop", stop)[0] if stop else text
        return Generation(text, usage=Usage(len(prompt.split()), len(text.split())))


@dataclass
class ScriptedServer(ScriptedReader):
    """A scripted reader that the driver takes for a server.

    Attributes:
        stopped: Whether the run ended with an error elsewhere.
    """

    stopped: bool = False

    def stop(self) -> None:
        """Send no further request."""
        self.stopped = True


@dataclass
class _ScriptedIndex:
    """An index in which a function finds passages."""

    find: Callable[[str], Sequence[Passage]]
    passages: dict[str, Passage] = field(default_factory=dict)

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the passages that the function finds for each question."""
        rankings = [list(self.find(question.text))[:depth] for question in questions]
        self.passages |= {
            passage.passage_id: passage for passages in rankings for passage in passages
        }
        return [[Hit(passage.passage_id, None) for passage in passages] for passages in rankings]


def make_search(find: Callable[[str], Sequence[Passage]], identity: str = "search") -> LocalSearch:
    """Build a test search engine that finds the passages that `find` returns for a query."""
    index = _ScriptedIndex(find)
    return LocalSearch(lambda: index, lambda: index.passages, identity)


def run_scripted_plan(plan: Plan[T], replies: Sequence[Sequence[str]]) -> tuple[T, list[list[str]]]:
    """Run a plan with scripted replies.

    A round is one list of requests that the plan yields.

    Args:
        plan: Plan to run.
        replies: Replies of each round, in the order of the requests.

    Returns:
        Result of the plan, and the prompts of each round.
    """
    prompts: list[list[str]] = []
    rounds = iter(replies)
    try:
        requests = next(plan)
        while True:
            prompts.append(
                [
                    request.messages[-1].content
                    for request in requests
                    if isinstance(request, Generate)
                ]
            )
            requests = plan.send([Generation(text) for text in next(rounds)])
    except StopIteration as stop:
        return stop.value, prompts


def make_context(
    number: int,
    text: str,
    *,
    has_answer: bool = False,
    is_gold: bool = False,
    rank: int | None = None,
) -> Context:
    """Build a context for a test.

    Args:
        number: Number of the passage. Its id is "p<number>", and its retriever score decreases with
            the number.
        text: Text of the passage.
        has_answer: Whether the passage contains an answer.
        is_gold: Whether the passage is the gold passage.
        rank: Rank of the passage, or None for its number.
    """
    passage = Passage(f"p{number}", f"Title {number}", text)
    return Context(
        passage, number if rank is None else rank, 1.0 / max(number, 1), has_answer, is_gold
    )


def make_question(
    text: str = "Who wrote Emma?",
    answers: Sequence[str] = ("Jane Austen",),
    question_id: str = "q1",
) -> Question:
    """Build a question for a test."""
    return Question(question_id, text, tuple(answers))


PASSAGES = (
    Passage("a", "Paris", "Paris is the capital of France on the Seine."),
    Passage("b", "Berlin", "Berlin is the capital of Germany."),
    Passage("c", "Seine", "The Seine is a river that flows through France."),
    Passage("d", "Dogs", "Dogs bark and cats meow."),
)
"""A corpus of four passages for tests of retrievers."""


def make_sample(
    answer: str,
    number: int = 0,
    answers: Sequence[str] = ("x",),
    *,
    contexts: Sequence[Context] = (),
    **fields: Any,
) -> Sample:
    """Build a question with its prediction for a test.

    Args:
        answer: Predicted answer.
        number: Number of the question, whose id is "q<number>".
        answers: Accepted answers.
        contexts: Contexts that were placed, and that one prompt showed.
        fields: Other fields of the prediction, and `calls`, `tokens_in` and `tokens_out` of the
            usage of the reader.
    """
    question_id = f"q{number}"
    calls = fields.pop("calls", 1)
    usage = (
        RoleUsage(
            "reader",
            calls,
            fields.pop("tokens_in", 100),
            fields.pop("tokens_out", 2),
            0.5,
            replies=calls,
        ),
    )
    prediction = Prediction(
        question_id, answer, fields.pop("unknown", False), usage=usage, **fields
    )
    shown_contexts = Shown(tuple(contexts), tuple(contexts), (tuple(contexts),))
    return Sample(
        make_question(answers=answers, question_id=question_id),
        prediction,
        contexts,
        shown=shown_contexts,
    )


METRICS = (
    ExactMatch("em", "EM"),
    Unknown("unk", "%Unk"),
    NotMajority("nm", "%NM"),
    NotMajorityOfPools("nm_pool", "%NM of pools"),
    Consumption("tokens_in", "tokens in", "number", 0, of="tokens_in"),
    Consumption("tokens", "tokens", "number", 1, of="tokens"),
)
"""Metrics of the cells that `make_cell_result` builds."""


def make_cell_result(strategy: str, k: int, gold: str, ems: Sequence[float]) -> CellResult:
    """Build a cell for a test. Every second question has a gold passage, unless k is 0.

    Args:
        strategy: Name of the strategy.
        k: Number of contexts, or 0 for a closed-book cell.
        gold: Name of the placement of the gold passage. If it begins with "gold_", it uses the gold
            labels.
        ems: Exact match of each question, 0.0 or 1.0.
    """
    samples = []
    moves_gold = bool(k) and gold.startswith("gold_")
    for number, em in enumerate(ems):
        candidate = "x" if em else "y"
        candidates = (candidate,) if strategy == "post_fusion" else ()
        provenance = "distant" if number % 2 and k else "none"
        fields: dict[str, Any] = {
            "unknown": not em,
            "candidates": candidates,
            "provenance": provenance,
        }
        fields["passage_ids"] = tuple(f"p{rank}" for rank in range(1, k + 1))
        answer = "x" if em else "unknown"
        samples.append(make_sample(answer, number, tokens_in=100 + number, calls=k or 1, **fields))
    return CellResult(
        CellLabels(strategy, k, gold, uses_gold=moves_gold, moves_gold=moves_gold),
        samples,
        METRICS,
    )
