"""Immutable records that stages exchange: passages, questions, contexts, requests, results and
predictions.

Requests and results are structs of msgspec, because a sweep creates millions of them, and a frozen
dataclass takes up to ten times as long to create. Requests of models compare by identity:
`winnow.keys.compute_request_key` says whether two are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeVar

from annotated_types import Ge

from winnow.errors import ArtifactError, ConfigError

T = TypeVar("T")

Provenance = Literal["annotated", "distant", "none"]
"""A gold passage's source: annotation, distant supervision (best-ranked with an answer) or none."""

Role = str
"""Purpose of an engine: "reader", "rewriter", "reranker", "judge", "verifier", "estimator", "nli",
"search" or "corpus".
"""


@dataclass(frozen=True, slots=True)
class Passage:
    """A corpus passage with its title, a web page, or a text that a strategy made of such passages.

    `sources` are the ids of the passages that a strategy made it of, such as the passage of a
    strip; () for any other.
    """

    passage_id: str
    title: str
    text: str
    sources: tuple[str, ...] = ()

    @property
    def titled_text(self) -> str:
        """Return the text after the title, if it has one, in a line of its own."""
        return f"{self.title}\n{self.text}".strip()


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its accepted answers and, if the dataset annotates them, its gold passages.

    `answerable` says whether the best passages of a retriever contain an answer, or is None if no
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
    """One search result: a passage id and a score (higher is better), which is None if unknown."""

    passage_id: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Context:
    """A passage as retrieved for one question. `rank` starts at 1; it is 0 if not retrieved.

    `score` is None if the passage was not retrieved, or if the rankings have no scores.
    """

    passage: Passage
    rank: int
    score: float | None
    has_answer: bool
    is_gold: bool = False
    log_odds: float | None = None
    log_weight: float = 0.0
    """Log weight in votes and marginalization, up to a constant per question; equal by default."""
    substitute: str = ""
    """False answer in place of the accepted ones (`placement=counterfactual`), otherwise ""."""

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
