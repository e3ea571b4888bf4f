"""ReAct (Yao et al. 2023): an agent that thinks, acts and observes in turn, and searches when it chooses to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError, check_fields
from winnow.records import Answer, Context, Decoding, Generate, Generation, Message, Passage, Plan, Question, TooLong
from winnow.strategies.prompt import Prompt
from winnow.strategies.replies import is_unknown
from winnow.strategies.rounds.searching import search
from winnow.strategies.sampling import check_one_path
from winnow.text.final import extract_final_text
from winnow.text.normalization import UNKNOWN

_ACTION_LABEL = re.compile(r"Action(?: \d+)?: *")
_ACTION = re.compile(r"(search|lookup|finish)\[([^\]]*)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_LEFT_OUT = "(left out)"
"""What replaces a result that the prompt has no room for."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A thought, an action and what was observed; `passages` are those that the observation shows."""

    thought: str
    action: str
    observation: str = ""
    passages: tuple[Passage, ...] = ()

    def format(self, number: int) -> str:
        """Return the lines of the turn in a prompt."""
        return f"Thought {number}: {self.thought}\nAction {number}: {self.action}\nObservation {number}: {self.observation}\n"


@dataclass(slots=True)
class _Episode:
    """What an agent has done so far, and the sentences in which it looks up words."""

    turns: list[_Turn] = field(default_factory=list)
    sentences: tuple[str, ...] = ()
    keyword: str = ""
    matches: list[str] = field(default_factory=list)
    shown: tuple[Passage, ...] = ()
    """Passages of the last prompt that was answered."""
    num_forgotten: int = 0

    @property
    def passages(self) -> list[Passage]:
        """Return the distinct passages that the observations show."""
        return list(dict.fromkeys(passage for turn in self.turns for passage in turn.passages))

    def forget(self) -> bool:
        """Replace the oldest passages by a note; return whether there were any."""
        for number, turn in enumerate(self.turns):
            if turn.passages:
                self.turns[number] = replace(turn, observation=_LEFT_OUT, passages=())
                self.num_forgotten += len(turn.passages)
                return True
        return False


@dataclass(frozen=True, slots=True)
class React:
    """A strategy that lets the reader choose between Search[query], Lookup[word] and Finish[answer].

    Rules and limits are those of the authors' code: seven turns of 100 tokens, a second request for the action if a reply has
    none, and no answer without Finish. Search gives passages in place of the beginning of a page of Wikipedia, and Lookup the
    next sentence with a word in the passages that were found last. If a prompt exceeds the context length, the oldest
    passages are left out of it.

    Args:
        prompt: Template of a passage. The other templates are not used.
        decoding: Generation settings.
        template: Beginning of the prompt, with the fields {contexts}, which are the placed ones, and {question}.
        n: Number of passages that each search gives.
        max_turns: Maximum number of turns.
        max_new_tokens: Maximum number of tokens of a reply.

    """

    revision: ClassVar[int] = 1

    prompt: Prompt
    decoding: Decoding
    template: str
    n: Annotated[int, Ge(1)] = 1
    max_turns: Annotated[int, Ge(1)] = 7
    max_new_tokens: Annotated[int, Ge(1)] = 100

    def __post_init__(self) -> None:
        """Raise ConfigError for a template without its fields, a limit below 1, and samples, on which nothing votes."""
        check_fields("strategy.plan.template", self.template, {"contexts", "question"})
        if min(self.n, self.max_turns) < 1:
            raise ConfigError(f"strategy.plan: n and max_turns must be at least 1; received {self.n} and {self.max_turns}.")
        check_one_path("react", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a thought and an action in each round, and search if the action says so."""
        placed = tuple(context.passage for context in contexts)
        beginning = self.template.format(question=question.text, contexts=self.prompt.format_passages(placed))
        episode, trace = _Episode(), list[str]()
        for number in range(1, self.max_turns + 1):
            reply = yield from self._ask(beginning, placed, episode, f"Thought {number}:", f"\nObservation {number}:")
            if reply is None:
                return self._end(episode, UNKNOWN, "", trace, "prompt too long")
            thought, action = _divide(reply, number)
            if not action:
                label = f"Thought {number}: {thought}\nAction {number}:"
                second = yield from self._ask(beginning, placed, episode, label, "\n")
                if second is None:
                    return self._end(episode, UNKNOWN, reply, trace, "prompt too long")
                action = _ACTION_LABEL.sub("", second, count=1) if _ACTION_LABEL.match(second) else second
            trace.append(f"action: {action[:200]}")
            match = _ACTION.match(action)
            if match and match[1].lower() == "finish":
                return self._end(episode, match[2].strip(), reply, trace, "answer")
            yield from self._act(episode, thought, action, match)
        return self._end(episode, UNKNOWN, reply or "", trace, "max rounds")

    def _ask(self, beginning: str, placed: tuple[Passage, ...], episode: _Episode, label: str, stop: str) -> Plan[str | None]:
        """Request what follows a label; leave out the oldest passages until the prompt fits, or return None."""
        decoding = replace(self.decoding, max_new_tokens=self.max_new_tokens, stop=(stop,))
        while True:
            history = "".join(turn.format(number) for number, turn in enumerate(episode.turns, start=1))
            passages = tuple(dict.fromkeys([*placed, *episode.passages]))
            message = Message("user", f"{beginning.rstrip()}\n{history}{label}")
            reply: Generation | TooLong
            (reply,) = yield [Generate((message,), decoding, passages=passages, may_be_too_long=True)]
            if isinstance(reply, Generation):
                episode.shown = passages
                return extract_final_text(reply.text).removeprefix(label).strip()
            if not episode.forget():
                return None

    def _act(self, episode: _Episode, thought: str, action: str, match: re.Match[str] | None) -> Plan[None]:
        """Do what an action says, and add the turn to the episode."""
        kind, argument = (match[1].lower(), match[2].strip()) if match else ("", "")
        passages: tuple[Passage, ...] = ()
        if kind == "search":
            found = yield from search(argument, self.n)
            passages = found.passages
            observation = self.prompt.format_passages(passages) or f"No result ({found.problem})."
            if passages:
                texts = [passage.text.strip() for passage in passages]
                episode.sentences = tuple(sentence for text in texts for sentence in _SENTENCE_END.split(text))
                episode.keyword, episode.matches = "", []
        elif kind == "lookup":
            observation = _look_up(episode, argument)
        else:
            observation = "This is no action. Use Search[query], Lookup[word] or Finish[answer]."
        episode.turns.append(_Turn(thought, action, observation, passages))

    def _end(self, episode: _Episode, text: str, reply: str, trace: Sequence[str], stop: str) -> Answer:
        left_out = [f"left out: {episode.num_forgotten} passages"] if episode.num_forgotten else []
        return Answer(text or UNKNOWN, is_unknown(text), used=episode.shown, reply=reply, trace=(*trace, *left_out), stop=stop)


def _divide(reply: str, number: int) -> tuple[str, str]:
    """Return the thought of a reply and its action, one line each; without an action, the first line is the thought."""
    match = re.search(rf"^\s*Action(?: {number})?: *", reply, re.MULTILINE)
    if match is None:
        lines = reply.strip().splitlines()
        return lines[0].strip() if lines else "", ""
    thought = reply[: match.start()].strip().removeprefix(f"Thought {number}:").strip()
    lines = reply[match.end() :].strip().splitlines()
    return thought, lines[0].strip() if lines else ""


def _look_up(episode: _Episode, keyword: str) -> str:
    """Return the next sentence of the last search that contains a word."""
    if keyword.lower() != episode.keyword:
        episode.keyword = keyword.lower()
        episode.matches = [sentence for sentence in episode.sentences if keyword and keyword.lower() in sentence.lower()]
        episode.matches.reverse()
    return episode.matches.pop() if episode.matches else "No more results."
