"""Replay of a plan with the results in the ledger, without a model.

A plan is a generator that yields the requests of one question, round by round, and returns a
result. The ledger stores the result of every finished call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from msgspec import structs

from winnow.errors import LedgerError
from winnow.keys import compute_request_key
from winnow.predictions import Prediction, RoleUsage
from winnow.protocols import CallStore
from winnow.records import Answer, Role, T
from winnow.requests import (
    NO_USAGE,
    Generate,
    Generation,
    Message,
    Plan,
    Request,
    Result,
    Score,
    ToolCall,
    TooLong,
)
from winnow.steps import TOO_LONG, Step, describe_round


@dataclass(frozen=True, slots=True)
class Call:
    """A request with its result.

    Attributes:
        key: Key of the call in the ledger.
        request: Request as it was served.
        result: Stored result of the request; TooLong for a prompt that was too long.
        dropped: Number of passages that were dropped from the prompt to fit the context length.
    """

    key: bytes
    request: Request
    result: Result | TooLong
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Replay(Generic[T]):
    """A plan that was run to its end.

    Attributes:
        rounds: Calls of each round. The requests of a round are served together.
        result: Result of the plan.
    """

    rounds: Sequence[Sequence[Call]]
    result: T

    @property
    def steps(self) -> list[Step]:
        """Return the steps, as the driver records them."""
        return [
            step
            for number, calls in enumerate(self.rounds, start=1)
            for step in describe_round(
                number, [call.request for call in calls], [call.result for call in calls]
            )
        ]


def replay_plan(
    plan: Plan[T], identities: Mapping[Role, str], ledger: CallStore, recorded: Sequence[Step] = ()
) -> Replay[T]:
    """Run a plan to its end with stored results, and record its calls.

    Args:
        plan: Plan that has not been started.
        identities: Identity under which the ledger stores the results of each role.
        ledger: Open store.
        recorded: Steps that were recorded, which say in which rounds a prompt was too long; the
            ledger has no result of it.

    Raises:
        LedgerError: If the ledger lacks a call. The message names its round and the command to run.
    """
    too_long = {step.round for step in recorded if step.finish == TOO_LONG}
    rounds: list[list[Call]] = []
    results: list[Result | TooLong] | None = None
    while True:
        try:
            requests = next(plan) if results is None else plan.send(results)
        except StopIteration as stop:
            return Replay(rounds, stop.value)
        if not requests:
            results = []
            continue
        number = len(rounds) + 1
        rounds.append(
            [
                _find_call(request, identities, ledger, number, number in too_long)
                for request in requests
            ]
        )
        results = [_deliver(call) for call in rounds[-1]]


def _deliver(call: Call) -> Result | TooLong:
    """Return a result as the driver gives it, with the prompt's passages if some were dropped."""
    if call.dropped and isinstance(call.result, Generation) and isinstance(call.request, Generate):
        return structs.replace(call.result, dropped=call.dropped, passages=call.request.passages)
    return call.result


def count_usage(call: Call) -> RoleUsage:
    """Return what a call used, and whether its reply was cut or empty; failed calls and searches
    used no tokens, and no model read a prompt that was too long.
    """
    result = call.result
    call_usage = result.usage if isinstance(result, Generation | Score) else NO_USAGE
    is_reply, is_cut, is_empty = (
        (True, result.finish == "length", result.is_empty)
        if isinstance(result, Generation)
        else (False, False, False)
    )
    amounts = (
        call_usage.tokens_in,
        call_usage.tokens_out,
        call_usage.seconds,
        int(is_cut),
        int(is_empty),
        call_usage.tokens_reasoning,
        int(is_reply),
    )
    return RoleUsage(call.request.role, int(not isinstance(result, TooLong)), *amounts)


def is_same_answer(answer: Answer, prediction: Prediction) -> bool:
    """Return whether a replayed answer is the stored one."""
    stored_fields = (prediction.answer, prediction.unknown, prediction.candidates, prediction.reply)
    return (answer.text, answer.unknown, answer.candidates, answer.reply) == stored_fields


def describe_other_answer(answer: Answer, prediction: Prediction, folder: Path) -> str:
    """Say that the calls in the ledger now give another answer than the stored one, and why."""
    return (
        f"With the calls in the ledger, the strategy now answers {answer.text!r}, and "
        f"{prediction.answer!r} is stored. Its code has changed under the same revision, or calls "
        f"were made again. Remove {folder} and run `python -m flows.sweep` to recompute the cell."
    )


def _find_call(
    request: Request,
    identities: Mapping[Role, str],
    ledger: CallStore,
    round_number: int,
    was_too_long: bool,
) -> Call:
    """Find the stored call of a request or, if there is none, of its longest shortened version.

    The ledger stores a shortened version if the prompt exceeded the context length.
    """
    identity = identities.get(request.role, "")
    candidate: Request | None = request
    num_dropped = 0
    while candidate is not None:
        key = compute_request_key(identity, candidate)
        results = ledger.get([key])
        if results:
            return Call(key, candidate, results[key], num_dropped)
        candidate = candidate.drop_passage() if isinstance(candidate, Generate) else None
        num_dropped += 1
    if was_too_long and isinstance(request, Generate) and request.may_be_too_long:
        return Call(
            compute_request_key(identity, request),
            request,
            TooLong("the prompt exceeded the context length"),
        )
    raise LedgerError(
        f"The ledger lacks a call of round {round_number} ({type(request).__name__}, role "
        f"{request.role!r}, engine {identity or 'none'}). Run `python -m flows.sweep` with the "
        "same settings first. If it is finished, its calls were made on another machine or were "
        "deleted: import them (`dvc pull`, or `winnow ledger import`)."
    )


def format_message(message: Message) -> str:
    """Return a message as people read it: its text, and below it the tools that it calls."""
    return "\n".join(filter(None, [message.content, *map(_format_tool_call, message.tool_calls)]))


def format_reply(reply: Generation) -> str:
    """Format a reply for reading: the reasoning from the server, its text, and its tool calls."""
    reasoning = [f"(reasoning) {reply.reasoning}"] if reply.reasoning else []
    return "\n".join(
        filter(None, [*reasoning, reply.text, *map(_format_tool_call, reply.tool_calls)])
    )


def _format_tool_call(call: ToolCall) -> str:
    return f"(call) {call.name or 'no tool'}({call.arguments})"
