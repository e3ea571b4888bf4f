"""An agent that calls a tool to search, by the protocol for tools of its model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.records import (
    Answer,
    Context,
    Decoding,
    Generate,
    Generation,
    Message,
    Passage,
    Plan,
    Question,
    Tool,
    ToolCall,
    TooLong,
)
from winnow.strategies.prompt import Prompt
from winnow.strategies.replies import is_unknown
from winnow.strategies.rounds.searching import search
from winnow.strategies.sampling import check_one_path
from winnow.text.final import extract_final_text
from winnow.text.normalization import UNKNOWN

SEARCH = "search"
"""Name of the tool."""
_PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to search for"}},
    "required": ["query"],
}
_LEFT_OUT = "Left out, because the conversation was too long."
_NO_MORE = "No further search is possible. Answer the question."


@dataclass(slots=True)
class _Result:
    """The result of a call: the passages that it shows, and the text of its message."""

    call: ToolCall
    text: str
    passages: tuple[Passage, ...] = ()


@dataclass(slots=True)
class _Conversation:
    """The prompt of an agent, and the turns that follow it: replies with their calls, each with its result."""

    prompt: tuple[Message, ...]
    placed: tuple[Passage, ...]
    turns: list[tuple[Message, list[_Result]]] = field(default_factory=list)
    shown: tuple[Passage, ...] = ()
    left_out: dict[Passage, None] = field(default_factory=dict)

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Return the passages that the messages show, each once."""
        found = (passage for _, results in self.turns for result in results for passage in result.passages)
        return tuple(dict.fromkeys((*self.placed, *found)))

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the messages."""
        messages = list(self.prompt)
        for turn, results in self.turns:
            messages += [turn, *(Message("tool", result.text, call_id=result.call.call_id) for result in results)]
        return tuple(messages)

    def forget(self) -> bool:
        """Leave out the passages of the oldest call that shows some; return whether there was one."""
        oldest = next((result for _, results in self.turns for result in results if result.passages), None)
        if oldest is None:
            return False
        self.left_out |= dict.fromkeys(oldest.passages)
        oldest.passages, oldest.text = (), _LEFT_OUT
        return True


@dataclass(frozen=True, slots=True)
class ToolAgent:
    """A strategy that lets the model call a tool `search` as often as it wants, until it replies without a call.

    Calls, results and tools go by the protocol of the server or the chat template of the model, so that a model that was
    trained on it needs no demonstration. After the last search that is allowed, a call is told that no further one is
    possible. Arguments that are no JSON, an unknown tool and an empty query are told as such, and the agent goes on. If the
    conversation exceeds the context length, the oldest passages are left out of it.

    Args:
        prompt: Templates of the first message, which shows the placed contexts, and of a passage.
        decoding: Generation settings.
        system: System message.
        description: Description of the tool.
        n: Number of passages that each search gives.
        max_searches: Largest number of searches. The agent has two more turns to answer.
        max_new_tokens: Maximum number of tokens of a reply, which includes reasoning and calls.

    """

    revision: ClassVar[int] = 1

    prompt: Prompt
    decoding: Decoding
    system: str = ""
    description: str = "Search a corpus for passages."
    n: Annotated[int, Ge(1)] = 5
    max_searches: Annotated[int, Ge(1)] = 5
    max_new_tokens: Annotated[int, Ge(1)] = 512

    def __post_init__(self) -> None:
        """Raise ConfigError for limits below 1, and for samples, on which nothing votes."""
        if min(self.n, self.max_searches, self.max_new_tokens) < 1:
            raise ConfigError(
                f"strategy.plan: n, max_searches and max_new_tokens must be at least 1; received {self.n}, "
                f"{self.max_searches} and {self.max_new_tokens}."
            )
        check_one_path("tool_agent", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a reply in each turn, and search if it calls for it."""
        system = (Message("system", self.system),) if self.system else ()
        placed = tuple(context.passage for context in contexts)
        conversation = _Conversation((*system, *self.prompt.render(question, contexts)), placed)
        num_searches, trace = 0, list[str]()
        for _ in range(self.max_searches + 2):
            reply = yield from self._ask(conversation)
            if reply is None:
                return self._end(conversation, "", trace, "prompt too long")
            if not reply.tool_calls:
                return self._end(conversation, reply.text, trace, "answer")
            results = []
            calls = tuple(_repair(call, number) for number, call in enumerate(reply.tool_calls, start=1))
            for written, call in zip(reply.tool_calls, calls, strict=True):
                query = _read_query(written)
                is_allowed = num_searches < self.max_searches
                num_searches += bool(query and query.strip() and is_allowed)
                trace.append(f"{written.name or 'call'}: {(query or written.arguments)[:200]}")
                results.append((yield from self._serve(call, query, is_allowed=is_allowed)))
            turn = Message("assistant", extract_final_text(reply.text), tool_calls=calls)
            conversation.turns.append((turn, results))
        return self._end(conversation, "", trace, "max rounds")

    def _ask(self, conversation: _Conversation) -> Plan[Generation | None]:
        """Request a reply; leave out the oldest passages until the prompt fits, or return None."""
        decoding = replace(self.decoding, max_new_tokens=self.max_new_tokens)
        tools = (Tool(SEARCH, self.description, json.dumps(_PARAMETERS)),)
        while True:
            passages = conversation.passages
            request = Generate(conversation.messages, decoding, tools=tools, passages=passages, may_be_too_long=True)
            reply: Generation | TooLong
            (reply,) = yield [request]
            if isinstance(reply, Generation):
                conversation.shown = passages
                return reply
            if not conversation.forget():
                return None

    def _serve(self, call: ToolCall, query: str | None, *, is_allowed: bool) -> Plan[_Result]:
        """Return the result of a call."""
        if query is None:
            known = f'Call {SEARCH} with the arguments {{"query": "..."}}.'
            return _Result(call, f"This call cannot be made. {known}")
        if not is_allowed:
            return _Result(call, _NO_MORE)
        found = yield from search(query, self.n)
        return _Result(call, self.prompt.format_passages(found.passages) or f"No result ({found.problem}).", found.passages)

    def _end(self, conversation: _Conversation, reply: str, trace: Sequence[str], stop: str) -> Answer:
        text = extract_final_text(reply).strip() or UNKNOWN
        used = conversation.shown
        num_left_out = len(conversation.left_out.keys() - set(used))
        left_out = [f"left out: {num_left_out} passages"] if num_left_out else []
        return Answer(text, is_unknown(text), used=used, reply=reply, trace=(*trace, *left_out), stop=stop)


def _repair(call: ToolCall, number: int) -> ToolCall:
    """Return a call as later turns may repeat it: servers refuse arguments that are no JSON object, and calls without id."""
    try:
        is_object = isinstance(json.loads(call.arguments), dict)
    except ValueError:
        is_object = False
    arguments = call.arguments if is_object else json.dumps({"invalid": call.arguments})
    return ToolCall(call.name or "unnamed", arguments, call.call_id or f"call{number}")


def _read_query(call: ToolCall) -> str | None:
    """Return the query of a call of the search, or None if it is a call of something else or without a query."""
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        return None
    query = arguments.get("query") if isinstance(arguments, dict) else None
    return query if call.name == SEARCH and isinstance(query, str) else None
