"""Steps: what a plan requested and received per round, as the driver records it, and its outcome.

A strategy writes nothing for them. Requests of a round that agree in everything that a step records
are one step, so that ten samples of a prompt, or the estimates of fifty strips, take the room of
one.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic

from msgspec import Struct

from winnow.predictions import RoleUsage
from winnow.records import Answer, Passage, Role, T
from winnow.requests import (
    Estimate,
    Failed,
    Generate,
    Generation,
    Likelihood,
    Pages,
    Request,
    Result,
    Score,
    Search,
    TooLong,
)
from winnow.text.final import find_control_tokens

READER: Role = "reader"
"""Role whose prompts count as shown; a judge, rewriter or estimator does not write the answer."""
WITH_CONTROL_TOKENS = " with control tokens"
"""End of the finish of replies with control tokens, as from a wrong chat template or stop token."""
TOO_LONG = "too long"
"""Finish of a prompt that exceeded the context length, so that no model read it."""
NO_REQUEST = "no request"
"""Stop reason of a plan that requested nothing."""
_KINDS = {Likelihood: "likelihood", Estimate: "estimate", Search: "search"}


class Step(Struct, frozen=True):
    """Requests of one round of a plan that agree in all fields but their number.

    Attributes:
        round: Number of the round, from 1.
        kind: "generate", "likelihood", "estimate" or "search".
        role: Role of the engine.
        passages: Passages that the prompt showed, in prompt order, or that the search found, best
            first.
        query: Query of a search.
        finish: How the reply ended (see `Generation.finish`), with `WITH_CONTROL_TOKENS` if it had
            any; "found" or "nothing found" for a search, "failed", or "too long".
        model: Name of the model that the server reported, or library and version of a local engine.
        calls: Number of requests.
    """

    round: int
    kind: str
    role: Role
    passages: tuple[Passage, ...] = ()
    query: str = ""
    finish: str = ""
    model: str = ""
    calls: int = 1

    @property
    def is_prompt(self) -> bool:
        """Return whether this is a prompt that the reader read to write or score an answer."""
        return (
            self.kind in ("generate", "likelihood")
            and self.role == READER
            and self.finish != TOO_LONG
        )


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The outcome of a plan.

    Attributes:
        tag: Value that identifies the plan.
        result: What the plan returned.
        usage: Calls, tokens and time by role.
        dropped: Number of passages that were dropped from prompts to make them fit.
        steps: What the plan requested and received, round by round.
        stop: Why the plan ended (see `describe_stop`).
    """

    tag: Hashable
    result: T
    usage: tuple[RoleUsage, ...] = ()
    dropped: int = 0
    steps: tuple[Step, ...] = ()
    stop: str = ""


def describe_round(
    number: int, requests: Sequence[Request], results: Sequence[Result | TooLong | None]
) -> list[Step]:
    """Return the steps of a round, in the order of the requests.

    Args:
        number: Number of the round, from 1.
        requests: Requests as they were served, which may have fewer passages than the plan gave
            them.
        results: Result of each request.
    """
    counts: dict[tuple[str, Role, tuple[Passage, ...], str, str, str], int] = {}
    for request, result in zip(requests, results, strict=True):
        model = ""
        passages = request.passages if isinstance(request, Generate | Likelihood) else ()
        query = request.query if isinstance(request, Search) else ""
        if isinstance(result, Generation):
            finish, model = result.finish, result.model
            finish += WITH_CONTROL_TOKENS if _has_control_tokens(request, result.text) else ""
        elif isinstance(result, Pages):
            passages, finish = result.passages, "found" if result.passages else "nothing found"
        else:
            finish = (
                "failed"
                if isinstance(result, Failed)
                else TOO_LONG
                if isinstance(result, TooLong)
                else ""
            )
            model = result.model if isinstance(result, Score) else ""
        fields = (
            _KINDS.get(type(request), "generate"),
            request.role,
            passages,
            query,
            finish,
            model,
        )
        counts[fields] = counts.get(fields, 0) + 1
    return [Step(number, *fields, calls) for fields, calls in counts.items()]


def _has_control_tokens(request: Request, reply: str) -> bool:
    """Return whether a reply contains control tokens of a chat template. Those that the prompt or
    the stop strings name belong to the strategy.
    """
    tokens = find_control_tokens(reply)
    if not tokens or not isinstance(request, Generate):
        return bool(tokens)
    texts = [*(message.content for message in request.messages), *request.decoding.stop]
    return not all(any(token in text for text in texts) for token in tokens)


def describe_stop(steps: Sequence[Step], result: object) -> str:
    """Return why a plan ended: `Answer.stop` if given, or else how its last requests ended."""
    reason = result.stop if isinstance(result, Answer) else ""
    if reason or not steps:
        return reason or NO_REQUEST
    last = [step for step in steps if step.round == steps[-1].round]
    return ", ".join(dict.fromkeys(step.finish or step.kind for step in last))
