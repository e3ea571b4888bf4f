"""An agent that calls a tool to search, by the protocol for tools of its model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from winnow.identity.values import check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generate, Message, Plan, Tool, ToolCall
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.history import NO_MORE, History, Observation
from winnow.strategies.sampling import check_one_path
from winnow.text.answers import extract_answer
from winnow.text.final import extract_final_text

SEARCH = "search"
"""Name of the tool."""
_PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to search for"}},
    "required": ["query"],
}


@dataclass(frozen=True, slots=True)
class _Turn:
    """A reply, and each of its calls with its result."""

    message: Message
    results: tuple[tuple[ToolCall, Observation], ...]


@dataclass(frozen=True, slots=True)
class ToolAgent:
    """A strategy that lets the model call the tool `search` until it replies without a call.

    Calls, results and tools go by the protocol of the server or the chat template of the model, so
    that a model that was trained on it needs no demonstration. After the last search that is
    allowed, a call is told that no further one is possible. Arguments that are not JSON, an unknown
    tool and an empty query are told as such, and the agent continues. If the conversation exceeds
    the context length, the oldest passages are left out of it.

    Args:
        prompt: Templates of the first message, which shows the placed contexts, and of a passage.
        decoding: Generation settings.
        system: System message.
        description: Description of the tool.
        n: Number of passages that each search gives.
        max_searches: Largest number of searches. The agent has two more turns to answer.
        max_new_tokens: Maximum number of tokens of a reply, which includes reasoning and calls.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    system: str = ""
    description: str = "Search a corpus for passages."
    n: Annotated[int, Ge(1)] = 5
    max_searches: Annotated[int, Ge(1)] = 5
    max_new_tokens: Annotated[int, Ge(1)] = 512

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        check_one_path("tool_agent", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a reply in each turn, and search if it calls for it."""
        system = (Message("system", self.system),) if self.system else ()
        prompt = (*system, *self.prompt.render(question, contexts))
        history = History(tuple(context.passage for context in contexts))
        turns, num_searches, trace = list[_Turn](), 0, list[str]()
        for _ in range(self.max_searches + 2):
            reply = yield from history.ask(
                lambda passages: self._build_request(prompt, turns, passages)
            )
            if reply is None:
                return history.build_answer("", "", trace, "prompt too long")
            if not reply.tool_calls:
                return history.build_answer(extract_answer(reply.text), reply.text, trace, "answer")
            results = []
            calls = tuple(
                _repair(call, number) for number, call in enumerate(reply.tool_calls, start=1)
            )
            for raw_call, call in zip(reply.tool_calls, calls, strict=True):
                query = _read_query(raw_call)
                is_allowed = num_searches < self.max_searches
                num_searches += bool(query and query.strip() and is_allowed)
                trace.append(f"{raw_call.name or 'call'}: {(query or raw_call.arguments)[:200]}")
                results.append(
                    (call, (yield from self._serve(history, query, is_allowed=is_allowed)))
                )
            turn = Message("assistant", extract_final_text(reply.text), tool_calls=calls)
            turns.append(_Turn(turn, tuple(results)))
        return history.build_answer("", "", trace, "max rounds")

    def _build_request(
        self, prompt: Sequence[Message], turns: Sequence[_Turn], passages: tuple[Passage, ...]
    ) -> Generate:
        """Build the request for the next reply."""
        messages = list(prompt)
        for turn in turns:
            results = (
                Message("tool", result.text, call_id=call.call_id) for call, result in turn.results
            )
            messages += [turn.message, *results]
        decoding = replace(self.decoding, max_new_tokens=self.max_new_tokens)
        tools = (Tool(SEARCH, self.description, json.dumps(_PARAMETERS)),)
        return Generate(
            tuple(messages), decoding, tools=tools, passages=passages, may_be_too_long=True
        )

    def _serve(self, history: History, query: str | None, *, is_allowed: bool) -> Plan[Observation]:
        """Return the result of a call."""
        if query is None:
            return history.observe(
                f'This call cannot be made. Call {SEARCH} with the arguments {{"query": "..."}}.'
            )
        if not is_allowed:
            return history.observe(NO_MORE)
        return (yield from history.search(query, self.n, self.prompt))


def _repair(call: ToolCall, number: int) -> ToolCall:
    """Return a call that servers accept in later turns, with an id and JSON object arguments."""
    try:
        is_object = isinstance(json.loads(call.arguments), dict)
    except ValueError:
        is_object = False
    arguments = call.arguments if is_object else json.dumps({"invalid": call.arguments})
    return ToolCall(call.name or "unnamed", arguments, call.call_id or f"call{number}")


def _read_query(call: ToolCall) -> str | None:
    """Return the query of a search call, or None for another tool or a call without a query."""
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        return None
    query = arguments.get("query") if isinstance(arguments, dict) else None
    return query if call.name == SEARCH and isinstance(query, str) else None
