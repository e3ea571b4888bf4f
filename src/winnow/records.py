"""The frozen records that travel between stages, one class for each term of the design's vocabulary."""

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

from winnow.errors import ConfigError

T = TypeVar("T")

Provenance = Literal["annotated", "distant", "none"]
"""How a question's gold passage is known: annotated, distantly (the best-ranked that has_answer), or not at all."""

Role = str
"""What a model is used for: "reader", "rewriter", "judge", "verifier"; "estimator" and "search" for their own requests."""


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
    def nonblank_answers(self) -> tuple[str, ...]:
        """Return the accepted answers that are not blank."""
        return tuple(answer for answer in self.answers if answer.strip())


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: a passage id and the retriever's score, higher is better."""

    passage_id: str
    score: float


@dataclass(frozen=True, slots=True)
class RankedHit:
    """One row of a stored ranking; `rank` starts at 1."""

    passage_id: str
    rank: int
    score: float
    has_answer: bool


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
    """Its weight in votes and marginalization, up to a constant of the question; equal for all without a weighting."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the reader generates: temperature 0 is greedy; `seed` matters for sampling only.

    `samples` replies are drawn for every prompt and vote (self-consistency); `logprobs` requests the log-probabilities
    of the generated tokens from readers that have them.
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
            raise ConfigError(f"decoding.top_p must be in (0, 1]; received {self.top_p}.")
        if self.samples < 1 or (self.samples > 1 and self.temperature == 0):
            raise ConfigError(
                f"decoding.samples={self.samples} at temperature {self.temperature}: it starts at 1, and more than one needs "
                "a temperature above 0, because greedy samples are all equal (decoding=self_consistency)."
            )


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written by one or more calls, and the engine's time for them, shared equally within a batch."""

    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = field(default=0.0, compare=False)

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out, self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """Return the dollars that these tokens cost."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Generate:
    """Request a text from a language model; the result is a Generation.

    Attributes:
        messages: the chat prompt.
        decoding: how the reply is generated.
        sample: the number of this sample among those of the same prompt.
        role: which of the run's models serves the request. It is not part of the key: the engine's identity is.
        token_logprobs: tokens whose log-probabilities are reported at every generated position, each a single token of
            the model's vocabulary (Self-RAG's reflection tokens, "true" and "false").
        passages: what the prompt shows, in its order; for the plan's own use.
        may_fail: whether the plan handles a refused call: it then receives Failed, and the run does not stop.
        shorter: returns the prompt with one passage fewer, or None when only one is left; see `shortened`.

    """

    messages: tuple[Message, ...]
    decoding: Decoding
    sample: int = 0
    role: Role = field(default="reader", compare=False)
    token_logprobs: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = field(default=(), compare=False, repr=False)
    may_fail: bool = field(default=False, compare=False)
    shorter: "Callable[[], Generate | None] | None" = field(default=None, compare=False, repr=False)

    def shortened(self) -> "Generate | None":
        """Return this request with one passage fewer, for a prompt beyond the context length; None if none can go."""
        shorter = self.shorter() if self.shorter else None
        if shorter is None:
            return None
        return replace(self, messages=shorter.messages, passages=shorter.passages, shorter=shorter.shorter)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Request log P(continuation | prompt) from a language model; the result is a Score in nats."""

    messages: tuple[Message, ...]
    continuation: str
    include_eos: bool = True
    """Whether the end of the reply is scored too, so that "Paris" is not favoured for being a prefix of longer answers."""
    role: Role = field(default="reader", compare=False)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Request the log-odds that one passage or strip is relevant to a question; the result is a Score."""

    role: ClassVar[Role] = "estimator"

    question: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """Request the best `n` pages or passages from a search engine; the result is Pages, or Failed."""

    role: ClassVar[Role] = "search"

    query: str
    n: int


@dataclass(frozen=True, slots=True)
class Generation:
    """The text that a model generated.

    Attributes:
        text: the reply.
        finish: "stop", "length" (cut at max_new_tokens), "content_filter" or "empty" (the server returned no choice).
        usage: tokens and time of this call.
        dropped: how many passages the driver left out of the prompt to make it fit.
        logprobs: natural log-probabilities of the generated tokens, where requested and available.
        token_logprobs: of each token that the request names, its log-probability at every generated position.
        passages: what the prompt showed where passages were dropped; otherwise the request's own count.

    """

    text: str
    finish: str = "stop"
    usage: Usage = field(default_factory=Usage)
    dropped: int = 0
    logprobs: tuple[float, ...] | None = None
    token_logprobs: Mapping[str, tuple[float, ...]] | None = None
    passages: tuple[Passage, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Score:
    """One number: a log-likelihood in nats or a relevance log-odds."""

    value: float


@dataclass(frozen=True, slots=True)
class Pages:
    """The results of a search, best first."""

    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The result of a search or call that failed without ending its plan; it is recorded, so that replays agree."""

    reason: str


@dataclass(frozen=True, slots=True)
class TooLong:
    """A server's refusal of a prompt beyond its context length; the driver retries with one passage fewer."""

    reason: str


Request = Generate | Likelihood | Estimate | Search
Result = Generation | Score | Pages | Failed


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a strategy.

    Attributes:
        text: the answer.
        unknown: whether it means "unknown".
        candidates: the pool that it was chosen from.
        used: passages, strips or pages in the order in which the final prompt showed them.
        reply: the final reply as the model wrote it.
        trace: what the strategy did, briefly: actions, fallbacks, votes.

    """

    text: str
    unknown: bool
    candidates: tuple[str, ...] = ()
    used: tuple[Passage, ...] = field(default=(), repr=False)
    reply: str = ""
    trace: tuple[str, ...] = ()


Plan = Generator[Sequence[Request], Sequence[Any], T]
"""A plan for one question: yields requests to be served together, receives their results in order, returns a T."""


@dataclass(frozen=True, slots=True)
class RoleUsage:
    """What a plan requested of one role: how many calls, and their tokens and time, counted as if it had run alone."""

    role: Role
    calls: int
    tokens_in: int
    tokens_out: int
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """A finished plan: its result, its usage by role, and how many passages were dropped; `tag` identifies the job."""

    tag: Hashable
    result: T
    usage: tuple[RoleUsage, ...] = ()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class PlacedContexts:
    """The k contexts of one question in prompt order, and the gold passage's position (from 1; 0 means absent)."""

    contexts: tuple[Context, ...]
    gold_position: int
    provenance: Provenance

    def with_position(self) -> "PlacedContexts":
        """Return a copy whose `gold_position` is read off the contexts."""
        position = next((n for n, context in enumerate(self.contexts, start=1) if context.is_gold), 0)
        return replace(self, gold_position=position)


@dataclass(frozen=True, slots=True)
class Prediction:
    """One row of a cell: the answer to one question and how it came about. Metrics are computed from it when it is read."""

    question_id: str
    answer: str
    unknown: bool
    candidates: tuple[str, ...] = ()
    reply: str = ""
    trace: tuple[str, ...] = ()
    passage_ids: tuple[str, ...] = ()
    """The placed contexts, in prompt order."""
    used_ids: tuple[str, ...] = ()
    """What the final prompt showed, in its order."""
    gold_position: int = 0
    provenance: Provenance = "none"
    truncated_passages: int = 0
    usage: tuple[RoleUsage, ...] = ()

    @property
    def calls(self) -> int:
        """Return how many calls were requested, of all roles."""
        return sum(part.calls for part in self.usage)

    @property
    def tokens_in(self) -> int:
        """Return the tokens read, by all roles."""
        return sum(part.tokens_in for part in self.usage)

    @property
    def tokens_out(self) -> int:
        """Return the tokens written, by all roles."""
        return sum(part.tokens_out for part in self.usage)

    @property
    def seconds(self) -> float:
        """Return the engines' time, of all roles."""
        return sum(part.seconds for part in self.usage)


def prediction(question: Question, placed: PlacedContexts, outcome: Outcome[Answer]) -> Prediction:
    """Return the row that a finished plan leaves."""
    answer = outcome.result
    return Prediction(
        question_id=question.question_id,
        answer=answer.text,
        unknown=answer.unknown,
        candidates=answer.candidates,
        reply=answer.reply,
        trace=answer.trace,
        passage_ids=tuple(context.passage.passage_id for context in placed.contexts),
        used_ids=tuple(passage.passage_id for passage in answer.used),
        gold_position=placed.gold_position,
        provenance=placed.provenance,
        truncated_passages=outcome.dropped,
        usage=outcome.usage,
    )
