"""The frozen records that travel between stages; one class a word of the design's vocabulary."""

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from winnow.errors import ConfigError

Provenance = Literal["annotated", "distant", "none"]
"""How a question's gold passage is known: annotated, distantly (best-ranked that has_answer), not at all."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A titled piece of text of the corpus."""

    passage_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with every accepted answer and, where the data names them, its gold passages."""

    question_id: str
    text: str
    answers: tuple[str, ...]
    gold_passage_ids: tuple[str, ...] = ()
    split: str = ""
    answerable: bool = False
    meta: str = "{}"

    @property
    def stated(self) -> tuple[str, ...]:
        """Return the accepted answers that are no blanks."""
        return tuple(answer for answer in self.answers if answer.strip())


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: a passage id and the retriever's score, higher is better."""

    passage_id: str
    score: float


@dataclass(frozen=True, slots=True)
class Context:
    """A passage as retrieved for one question; `rank` starts at 1 and is 0 for one that was not retrieved."""

    passage: Passage
    rank: int
    score: float
    has_answer: bool
    is_gold: bool = False
    log_odds: float | None = None
    log_weight: float = 0.0
    """Its weight in votes and marginalisation, up to a constant of the question; alike for all where nothing weighs them."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the reader writes: temperature 0 is greedy; `seed` matters for sampling only.

    `samples` replies are drawn to every prompt (self-consistency), which vote; `logprobs` asks for token
    log-probabilities where the reader has them.
    """

    max_new_tokens: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    samples: int = 1
    logprobs: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that no engine can serve."""
        if self.max_new_tokens < 1:
            raise ConfigError(f"decoding.max_new_tokens must be at least 1; received {self.max_new_tokens}.")
        if self.temperature < 0:
            raise ConfigError(f"decoding.temperature must be 0 (greedy) or more; received {self.temperature}.")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"decoding.top_p must lie in (0, 1]; received {self.top_p}.")
        if self.samples < 1 or (self.samples > 1 and self.temperature == 0):
            raise ConfigError(
                f"decoding.samples={self.samples} at temperature {self.temperature}: it starts at 1, and more than one needs "
                "a temperature above 0, for greedy samples are all alike (decoding=self_consistency)."
            )


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written by one or more calls, and the reader's time for them, shared among what ran together."""

    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = field(default=0.0, compare=False)

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out, self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class Price:
    """What a reader costs, in dollars a million tokens."""

    input: float = 0.0
    output: float = 0.0

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """Return the dollars that these tokens cost."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Generate:
    """Ask the reader for a text; gives a Generation.

    `shorter` returns the same request with one passage fewer, or None when none is left to drop; the driver calls
    it when the prompt exceeds the reader's window.
    """

    messages: tuple[Message, ...]
    decoding: Decoding
    sample: int = 0
    shorter: "Callable[[], Generate | None] | None" = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Ask the reader for log P(continuation | prompt); gives a Score in nats."""

    messages: tuple[Message, ...]
    continuation: str
    ended: bool = True
    """Whether the end of the reply is scored too, so that "Paris" is not favoured for being the start of more."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Ask the relevance estimator for the log-odds of one passage or strip; gives a Score."""

    question: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """Ask a search engine for the best `n` pages or passages; gives Pages."""

    query: str
    n: int


@dataclass(frozen=True, slots=True)
class Generation:
    """What the reader wrote; `dropped` counts passages cut to fit.

    `finish` is "stop", "length" (cut at max_new_tokens), "content_filter" or "empty" (the server gave no choice).
    """

    text: str
    finish: str = "stop"
    usage: Usage = field(default_factory=Usage)
    dropped: int = 0
    logprobs: tuple[float, ...] | None = None
    """Natural log-probabilities of the written tokens, where asked for and offered."""


@dataclass(frozen=True, slots=True)
class Score:
    """One number: a log-likelihood in nats or a relevance log-odds."""

    value: float


@dataclass(frozen=True, slots=True)
class Pages:
    """The results of a search, best first."""

    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class TooLong:
    """A server's word that a prompt exceeds its window; the driver asks again with a passage fewer."""

    reason: str


Request = Generate | Likelihood | Estimate | Search
Result = Generation | Score | Pages


@dataclass(frozen=True, slots=True)
class Answer:
    """What a strategy ends with: the answer, whether it means "unknown", and the pool it was chosen from."""

    text: str
    unknown: bool
    candidates: tuple[str, ...] = ()


Plan = Generator[Sequence[Request], Sequence[Any], Answer]
"""A strategy at work on one question: yields requests to be met together, receives their results in order."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished plan: its answer and what it asked for, counted as if it had run alone; `tag` says whose it is."""

    tag: Hashable
    answer: Answer
    usage: Usage
    calls: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Placed:
    """The k contexts of one question in prompt order, and where the gold passage stands (from 1; 0 is absent)."""

    contexts: tuple[Context, ...]
    gold_position: int
    provenance: Provenance

    def with_position(self) -> "Placed":
        """Return a copy whose `gold_position` is read off the contexts."""
        found = next((n for n, context in enumerate(self.contexts, start=1) if context.is_gold), 0)
        return replace(self, gold_position=found)


@dataclass(frozen=True, slots=True)
class Prediction:
    """One row of a cell: the answer to one question, how it was come by, and its scores."""

    question_id: str
    answer: str
    candidates: tuple[str, ...]
    unknown: bool
    passage_ids: tuple[str, ...]
    gold_position: int
    provenance: Provenance
    em: float
    f1: float
    accuracy: float
    pooled: bool
    """Whether a right answer stands among the candidates."""
    not_majority: bool
    tokens_in: int
    tokens_out: int
    seconds: float
    calls: int
    truncated_passages: int
