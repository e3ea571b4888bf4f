"""Immutable records that stages exchange: passages, questions, contexts, requests, results and
predictions.

Requests and results are structs of msgspec, because a sweep creates millions of them, and a frozen
dataclass takes up to ten times as long to create. Requests of models compare by identity:
`winnow.keys.compute_request_key` tells whether two are equal.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from annotated_types import Ge
from msgspec import Struct, structs

from winnow.errors import ArtifactError, ConfigError
from winnow.text.final import extract_reasoning

T = TypeVar("T")

Provenance = Literal["annotated", "distant", "none"]
"""Source of a question's gold passage: annotation, distant supervision (best-ranked passage with an
answer), or none.
"""

Role = str
"""Purpose of an engine: "reader", "rewriter", "reranker", "judge", "verifier", "estimator", "nli",
"search" or "corpus".
"""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of the corpus with its title, a web page, or a text that a strategy made of such
    passages.

    `sources` are the ids of the passages that a strategy made it of, such as the passage of a
    strip; () for any other.
    """

    passage_id: str
    title: str
    text: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its accepted answers and, if the dataset annotates them, its gold passages.

    `answerable` tells whether the best passages of a retriever contain an answer, or is None if no
    retriever was asked. `meta` is a JSON object of further fields. `target` is the answer that
    training learns if the dataset names one (FiD's files).
    """

    question_id: str
    text: str
    answers: tuple[str, ...]
    gold_passage_ids: tuple[str, ...] = ()
    split: str = ""
    answerable: bool | None = False
    meta: str = "{}"
    target: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: a passage id and the retriever's score (higher is better), or None if it
    is not known.
    """

    passage_id: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Context:
    """A passage as retrieved for one question. `rank` starts at 1; it is 0 if the passage was not
    retrieved.

    `score` is None if the passage was not retrieved, or if the rankings have no scores.
    """

    passage: Passage
    rank: int
    score: float | None
    has_answer: bool
    is_gold: bool = False
    log_odds: float | None = None
    log_weight: float = 0.0
    """Log weight in votes and marginalization, up to a constant per question. By default, all
    contexts weigh the same.
    """
    substitute: str = ""
    """False answer that was put in the place of the accepted ones (`placement=counterfactual`); ""
    for any other context.
    """

    def get_retriever_score(self) -> float:
        """Return the retriever's score; raise ArtifactError if there is none."""
        if self.score is None:
            raise ArtifactError(
                f"Passage {self.passage.passage_id!r} (rank {self.rank}) has no retriever score. "
                "Files may lack them, as FiD's released ones do. Use a file with scores, a "
                "retriever that has them (bm25, dense or hybrid), or what needs none: "
                "weighting.by=none or estimator, 'evaluate_estimator.show=[table2]'."
            )
        return self.score


class Tool(Struct, frozen=True):
    """A function that a model may call before it answers. `parameters` is the JSON schema of its
    arguments, as text.
    """

    name: str
    description: str
    parameters: str


class ToolCall(Struct, frozen=True):
    """A call of a tool as a model wrote it. `arguments` need not be JSON, and servers that number
    no calls give no id.
    """

    name: str
    arguments: str
    call_id: str = ""


class Message(Struct, frozen=True):
    """One turn of a chat prompt.

    A turn of the role "tool" is the result of the call `call_id` of the turn of the assistant
    before it.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Generation settings.

    Attributes:
        max_new_tokens: Maximum number of generated tokens.
        temperature: Sampling temperature; 0 means greedy decoding.
        top_p: Probability mass of the tokens to sample from (nucleus sampling).
        seed: Seed of sampling. Greedy decoding ignores it.
        samples: Number of replies to each prompt, which vote (self-consistency).
        logprobs: Whether to request the log-probabilities of the generated tokens, from readers
            that support it.
        top_logprobs: Number of most probable tokens that are reported at each position, with the
            texts of the generated ones.
        stop: Texts before the first of which the reply ends, such as a line break.
            Log-probabilities include its tokens.

    """

    revision: ClassVar[int] = 1

    max_new_tokens: Annotated[int, Ge(1)] = 16
    temperature: float = 0.0
    top_p: float = 1.0
    seed: Annotated[int, Ge(0)] = 0
    samples: int = 1
    logprobs: bool = False
    top_logprobs: Annotated[int, Ge(0)] = 0
    stop: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raise ConfigError for settings that no engine can serve."""
        if isinstance(self.stop, str) or not all(self.stop):
            raise ConfigError(
                f"decoding.stop must be a list of texts that are not empty; received {self.stop!r}."
            )
        object.__setattr__(
            self, "stop", tuple(self.stop)
        )  # settings have a list, and a Decoding a hash
        if self.max_new_tokens < 1:
            raise ConfigError(
                f"decoding.max_new_tokens must be at least 1; received {self.max_new_tokens}."
            )
        if self.top_logprobs < 0 or (self.top_logprobs and not self.logprobs):
            raise ConfigError(
                "decoding.top_logprobs must be 0, or at least 1 with logprobs=true; received "
                f"{self.top_logprobs} with logprobs={self.logprobs}."
            )
        if self.temperature < 0:
            raise ConfigError(
                f"decoding.temperature must be 0 (greedy) or more; received {self.temperature}."
            )
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"decoding.top_p must be in (0, 1]; received {self.top_p}.")
        if self.samples < 1 or (self.samples > 1 and self.temperature == 0):
            raise ConfigError(
                "decoding.samples must be at least 1, and 1 at temperature 0, because greedy "
                f"samples are all equal; received {self.samples} at temperature "
                f"{self.temperature}. Use decoding=self_consistency to sample replies."
            )


class Usage(Struct, frozen=True, eq=False):
    """Token counts, with reasoning in `tokens_out`, and engine time of calls, which comparisons
    ignore and batches share.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_reasoning: int = 0
    seconds: float = 0.0

    def __eq__(self, other: object) -> bool:
        """Return whether the token counts are equal."""
        return isinstance(other, Usage) and structs.astuple(self)[:3] == structs.astuple(other)[:3]

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sums of tokens and time."""
        return Usage(*map(add, structs.astuple(self), structs.astuple(other)))


NO_USAGE = Usage()
"""Usage of results that took no tokens. They share this object to save memory."""


class Generate(Struct, frozen=True, eq=False):
    """Request a text from a language model. The result is a Generation.

    Attributes:
        messages: Chat prompt.
        decoding: Generation settings.
        sample: Index of this sample among the samples of the same prompt.
        role: Role of the engine that serves the request. The ledger's key contains the engine's
            identity instead.
        token_logprobs: Tokens whose log-probabilities are reported at every generated position.
            Each is a single token of the model's vocabulary (Self-RAG's reflection tokens, "true"
            and "false").
        tools: Tools that the model may call.
        passages: Passages in the prompt, in prompt order. The plan reads them; engines do not.
        may_fail: Whether the plan receives Failed if a server refuses the call. Otherwise a refused
            call ends the run.
        may_be_too_long: Whether the plan receives TooLong if a prompt does not fit. Otherwise it
            ends the run.
        shorter: Function that builds the request with one passage fewer, or returns None if only
            one passage is left (see `drop_passage`).

    """

    messages: tuple[Message, ...]
    decoding: Decoding
    sample: int = 0
    role: Role = "reader"
    token_logprobs: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    passages: tuple[Passage, ...] = ()
    may_fail: bool = False
    may_be_too_long: bool = False
    shorter: "Callable[[], Generate | None] | None" = None

    def drop_passage(self) -> "Generate | None":
        """Drop one passage of a prompt that exceeds the context length; return None if no passage
        can be dropped.
        """
        shorter = self.shorter() if self.shorter else None
        if shorter is None:
            return None
        return structs.replace(
            self, messages=shorter.messages, passages=shorter.passages, shorter=shorter.shorter
        )


class FusedGenerate(Generate, frozen=True, eq=False):
    """Request a text from a Fusion-in-Decoder model, which encodes each message separately; other
    readers do not serve it.
    """


class Likelihood(Struct, frozen=True, eq=False):
    """Request log P(continuation | prompt) from a language model. The result is a Score in nats.
    Fields as in Generate.

    With `per_token`, the score has the log-probability of each token of the continuation too.
    """

    messages: tuple[Message, ...]
    continuation: str
    include_eos: bool = True
    """Whether to score the end of the reply too. Without it, short answers that begin longer ones
    have too high a score.
    """
    per_token: bool = False
    role: Role = "reader"
    passages: tuple[Passage, ...] = ()


class Estimate(Struct, frozen=True, eq=False):
    """Request the log-odds that a passage or strip is relevant to a question (role "nli": entails
    it). Result: Score.
    """

    question: str
    text: str
    title: str = ""
    may_fail: bool = False  # whether the plan receives Failed if there is no score
    role: Role = "estimator"


class Search(Struct, frozen=True):
    """Request the `n` best web pages or passages from a search engine. The result is Pages or
    Failed.

    The vector of the query is averaged with those of the texts `averaged` (HyDE), which only dense
    retrievers serve.
    """

    query: str
    n: int
    averaged: tuple[str, ...] = ()
    role: Role = "search"


class Generation(Struct, frozen=True):
    """A text generated by a model.

    Attributes:
        text: Reply.
        finish: Why generation ended: "stop", "length" (cut at max_new_tokens), "content_filter",
            "tool_calls" or "empty".
        usage: Tokens and time of this call.
        dropped: Number of passages dropped to make the prompt fit.
        logprobs: Natural log-probabilities of the generated tokens, if requested and available.
        token_logprobs: Log-probabilities of each token named in the request, at every generated
            position.
        token_positions: Positions at which each of these tokens was generated. They stay in the
            text even if they are special.
        passages: Passages in the prompt if some were dropped, or () if the prompt contains those of
            the request.
        model: Name of the model that a server reports, or library and version of a local engine; ""
            if it is not known.
        tokens: Texts of the generated tokens, one for each log-probability, if
            `Decoding.top_logprobs` asks for them.
        top_logprobs: The most probable tokens at each position with their log-probabilities, as
            many as it asks for.
        reasoning: What a server returned beside the text as the reasoning before it. Local models
            write theirs into the text.
        tool_calls: Calls of tools, if the request has any.

    """

    text: str
    finish: str = "stop"
    usage: Usage = NO_USAGE
    dropped: int = 0
    logprobs: tuple[float, ...] | None = None
    token_logprobs: Mapping[str, tuple[float, ...]] | None = None
    token_positions: Mapping[str, tuple[int, ...]] | None = None
    passages: tuple[Passage, ...] = ()
    model: str = ""
    tokens: tuple[str, ...] = ()
    top_logprobs: tuple[Mapping[str, float], ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def thoughts(self) -> str:
        """Return the reasoning before the reply: what the server returned as such, or what tags in
        the text enclose.
        """
        return self.reasoning or extract_reasoning(self.text)

    @property
    def is_empty(self) -> bool:
        """Return whether the reply has neither text nor a call of a tool."""
        return not self.text.strip() and not self.tool_calls


class Score(Struct, frozen=True):
    """A log-likelihood in nats, or log-odds of relevance. `usage` is of language models; `model` as
    in Generation.

    `tokens` are those of the continuation with their `logprobs`, if the request asks for them.
    """

    value: float
    usage: Usage = NO_USAGE
    model: str = ""
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of a web page that a search found, at `retrieved` in UTC
    ("2026-11-24T05:30:00Z").

    `digest` is the SHA-256 of the bytes that were received, "" without any; `note` tells why the
    page's text is not used.
    """

    url: str
    retrieved: str
    digest: str = ""
    note: str = ""


class Pages(Struct, frozen=True):
    """Results of a search, best first, with a snapshot of each web page. A page that could not be
    read may have no passage.

    `scores` are those of the passages by the retriever; () if the search engine gives none.
    """

    passages: tuple[Passage, ...]
    snapshots: tuple[Snapshot, ...] = ()
    scores: tuple[float | None, ...] = ()


class Failed(Struct, frozen=True):
    """A search or call that failed without ending its plan. It is stored, so that later runs
    receive it too.
    """

    reason: str


BUDGET = "budget"
"""Reason of a search that was not made, because the budget of its question is spent."""


class TooLong(Struct, frozen=True):
    """A prompt exceeds the context length. It is not stored, because another context length would
    make it untrue.
    """

    reason: str


Request = Generate | Likelihood | Estimate | Search
Result = Generation | Score | Pages | Failed


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a strategy.

    Attributes:
        text: Answer.
        unknown: Whether the answer means "unknown".
        candidates: Candidate answers from which the answer was selected.
        used: Passages, parts of passages or web pages in the prompt that led to `reply`, in prompt
            order.
        reply: Final reply, or the reply that won a vote, as the model wrote it.
        trace: Short record of what only the strategy knows: actions, fallbacks, votes. The driver
            records the steps.
        stop: Why the plan ended, if that is not how its last replies ended, such as "max rounds".

    """

    text: str
    unknown: bool
    candidates: tuple[str, ...] = ()
    used: tuple[Passage, ...] = field(default=(), repr=False)
    reply: str = ""
    trace: tuple[str, ...] = ()
    stop: str = ""


Plan = Generator[Sequence[Request], Sequence[Any], T]
"""A generator for one question. It yields requests to be served together, receives their results in
order and returns a T.
"""
