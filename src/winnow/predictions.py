"""Predictions: the answers of a cell (one setting of a sweep), what they used, and model prices."""

from dataclasses import dataclass, field

from winnow.records import Provenance, Role


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model in dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0

    def compute_cost(self, tokens_in: float, tokens_out: float) -> float:
        """Compute the cost of these tokens in dollars."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class RoleUsage:
    """Calls, tokens and time that a plan requested of one role, in full if shared, with the numbers
    of its replies (calls that write a text), and of those that were cut or empty.

    `tokens_out` includes `tokens_reasoning`, the tokens of the reasoning before replies.
    """

    role: Role
    calls: int
    tokens_in: int
    tokens_out: int
    seconds: float = field(default=0.0, compare=False)
    cut: int = 0
    empty: int = 0
    tokens_reasoning: int = 0
    replies: int = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one question in a cell and how it was obtained. It contains no metrics."""

    question_id: str
    answer: str
    unknown: bool
    candidates: tuple[str, ...] = ()
    reply: str = ""
    trace: tuple[str, ...] = ()
    passage_ids: tuple[str, ...] = ()
    """Ids of the placed contexts, in prompt order."""
    used_ids: tuple[str, ...] = ()
    """Ids of the passages in the final prompt, in prompt order."""
    gold_position: int = 0
    provenance: Provenance = "none"
    truncated_passages: int = 0
    usage: tuple[RoleUsage, ...] = ()

    @property
    def calls(self) -> int:
        """Return the number of calls to all roles."""
        return sum(role_usage.calls for role_usage in self.usage)

    @property
    def tokens_in(self) -> int:
        """Return the number of tokens that all roles read."""
        return sum(role_usage.tokens_in for role_usage in self.usage)

    @property
    def tokens_out(self) -> int:
        """Return the number of tokens that all roles wrote."""
        return sum(role_usage.tokens_out for role_usage in self.usage)

    @property
    def tokens_reasoning(self) -> int:
        """Return the number of reasoning tokens of all roles, which `tokens_out` includes."""
        return sum(role_usage.tokens_reasoning for role_usage in self.usage)

    @property
    def seconds(self) -> float:
        """Return the engine time of all roles in seconds."""
        return sum(role_usage.seconds for role_usage in self.usage)
