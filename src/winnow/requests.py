"""Requests of models and searches, their results, and the plans that yield them.

They are structs of msgspec, because a sweep creates millions of them, and a frozen dataclass takes
up to ten times as long to create. Requests of models compare by identity:
`winnow.keys.compute_request_key` says whether two are equal.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, ClassVar, Literal

from msgspec import Struct, structs

from winnow.records import Decoding, Passage, Role, T
from winnow.text.final import extract_reasoning


class Tool(Struct, frozen=True):
    """A function that a model may call before it answers; `parameters` is a JSON schema as text."""

    name: str
    description: str
    parameters: str


class ToolCall(Struct, frozen=True):
    """A tool call as a model wrote it; `arguments` need not be JSON, and `call_id` may be empty."""

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


class Usage(Struct, frozen=True, eq=False):
    """Token counts, with reasoning in `tokens_out`, and engine time, which batches share."""

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

    revision: ClassVar[int] = 1
    """Revision of this module, by which plans that import it are identified."""

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
        """Drop one passage of a prompt that is too long, or return None if none can be dropped."""
        shorter = self.shorter() if self.shorter else None
        if shorter is None:
            return None
        return structs.replace(
            self, messages=shorter.messages, passages=shorter.passages, shorter=shorter.shorter
        )


class FusedGenerate(Generate, frozen=True, eq=False):
    """Request a text that only Fusion-in-Decoder models serve, which encode messages separately."""


class Likelihood(Struct, frozen=True, eq=False):
    """Request log P(continuation | prompt) as a Score in nats, with fields as in Generate.

    With `per_token`, the score has the log-probability of each token of the continuation too.
    """

    messages: tuple[Message, ...]
    continuation: str
    include_eos: bool = True
    """Whether to score the reply's end; without it, prefixes of longer answers score too high."""
    per_token: bool = False
    role: Role = "reader"
    passages: tuple[Passage, ...] = ()


class Estimate(Struct, frozen=True, eq=False):
    """Request a Score: the log-odds that a text is relevant to (role "nli": entails) a question."""

    question: str
    text: str
    title: str = ""
    may_fail: bool = False  # whether the plan receives Failed if there is no score
    role: Role = "estimator"


class Search(Struct, frozen=True):
    """Request the `n` best web pages or passages of a search; the result is Pages or Failed.

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
        reasoning: What a server returned with the text as the reasoning before it. Local models
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
        """Return the reasoning before the reply, as the server returned it or tags enclose it."""
        return self.reasoning or extract_reasoning(self.text)

    @property
    def is_empty(self) -> bool:
        """Return whether the reply has neither text nor a call of a tool."""
        return not self.text.strip() and not self.tool_calls


class Score(Struct, frozen=True):
    """A log-likelihood in nats, or log-odds of relevance. `usage` is of language models; `model` as
    in Generation.

    `tokens` are the tokens of the continuation with their `logprobs`, if the request asks for them.
    """

    value: float
    usage: Usage = NO_USAGE
    model: str = ""
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A record of a web page that a search found at `retrieved` in UTC ("2026-11-24T05:30:00Z").

    `digest` is the SHA-256 of the bytes that were received, "" without any; `note` says why the
    page's text is not used.
    """

    url: str
    retrieved: str
    digest: str = ""
    note: str = ""


class Pages(Struct, frozen=True):
    """Search results, best first, with web page snapshots; unreadable pages may lack a passage.

    `scores` are the scores of the passages by the retriever; () if the search engine gives none.
    """

    passages: tuple[Passage, ...]
    snapshots: tuple[Snapshot, ...] = ()
    scores: tuple[float | None, ...] = ()


class PlacedPages(Pages, frozen=True, kw_only=True):
    """Results of a search in the order in which a cell places them. They are not stored.

    `ranks` are the ranks of the passages, and `gold` says which are gold passages.
    """

    ranks: tuple[int, ...]
    gold: tuple[bool, ...]


class Failed(Struct, frozen=True):
    """A failed search or call that does not end its plan, stored so that later runs receive it."""

    reason: str


BUDGET = "budget"
"""Reason of a search that was not made, because the budget of its question is spent."""


class TooLong(Struct, frozen=True):
    """A prompt that exceeds the context length; it is not stored because that length may change."""

    reason: str


Request = Generate | Likelihood | Estimate | Search


Result = Generation | Score | Pages | Failed


Plan = Generator[Sequence[Request], Sequence[Any], T]
"""A question's generator: it yields request batches, takes results in order and returns a T."""
