"""ReAct (Yao et al. 2023): an agent that thinks, acts and observes, and chooses when to search."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import Template, check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generate, Message, Plan
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.history import History, Observation
from winnow.strategies.sampling import check_one_path
from winnow.text.final import extract_final_text
from winnow.text.normalization import UNKNOWN

_ACTION_LABEL = re.compile(r"Action(?: \d+)?: *")
_ACTION = re.compile(r"(search|lookup|finish)\[((?:[^\[\]]|\[[^\[\]]*\])*)", re.IGNORECASE)
"""Action with its argument, which may have brackets of its own; the last bracket may be missing."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class _Turn:
    """A thought, an action and what was observed."""

    thought: str
    action: str
    observation: Observation

    def format(self, number: int) -> str:
        """Return the lines of the turn in a prompt."""
        observation_text = self.observation.text
        return (
            f"Thought {number}: {self.thought}\nAction {number}: {self.action}\nObservation "
            f"{number}: {observation_text}\n"
        )


@dataclass(slots=True)
class _Episode:
    """What an agent has done so far, and the sentences in which it looks up words."""

    beginning: str
    history: History
    turns: list[_Turn] = field(default_factory=list)
    sentences: tuple[str, ...] = ()
    keyword: str = ""
    matches: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class React:
    """A strategy whose reader chooses between Search[query], Lookup[word] and Finish[answer].

    Rules and limits follow the authors' code: seven turns of 100 tokens, a second request for
    the action if a reply has none, and no answer without Finish. Search gives passages in place of
    the beginning of a page of Wikipedia, and Lookup the next sentence with a word in the passages
    that were found last. If a prompt exceeds the context length, the oldest passages are left out
    of it.

    Args:
        prompt: Template of a passage. The other templates are not used.
        decoding: Generation settings.
        template: Beginning of the prompt, with the fields {contexts}, which are the placed ones,
            and {question}.
        n: Number of passages that each search gives.
        max_turns: Maximum number of turns.
        max_new_tokens: Maximum number of tokens of a reply.
    """

    revision: ClassVar[int] = 2

    prompt: Prompt
    decoding: Decoding
    template: Annotated[str, Template("contexts", "question")]
    n: Annotated[int, Ge(1)] = 1
    max_turns: Annotated[int, Ge(1)] = 7
    max_new_tokens: Annotated[int, Ge(1)] = 100

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        check_one_path("react", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a thought and an action in each round, and search if the action says so."""
        placed_passages = tuple(context.passage for context in contexts)
        beginning = self.template.format(
            question=question.text, contexts=self.prompt.format_passages(placed_passages)
        )
        episode, trace = _Episode(beginning.rstrip(), History(placed_passages)), list[str]()
        end = episode.history.build_answer
        for number in range(1, self.max_turns + 1):
            reply = yield from self._ask(episode, f"Thought {number}:", f"\nObservation {number}:")
            if reply is None:
                return end(UNKNOWN, "", trace, "prompt too long")
            thought, action = _divide(reply, number)
            if not action:
                second = yield from self._ask(
                    episode, f"Thought {number}: {thought}\nAction {number}:", "\n"
                )
                if second is None:
                    return end(UNKNOWN, reply, trace, "prompt too long")
                action = (
                    _ACTION_LABEL.sub("", second, count=1)
                    if _ACTION_LABEL.match(second)
                    else second
                )
            trace.append(f"action: {action[:200]}")
            match = _ACTION.match(action)
            if match and match[1].lower() == "finish":
                return end(match[2].strip(), reply, trace, "answer")
            observation = yield from self._act(episode, match)
            episode.turns.append(_Turn(thought, action, observation))
        return end(UNKNOWN, reply or "", trace, "max rounds")

    def _ask(self, episode: _Episode, label: str, stop: str) -> Plan[str | None]:
        """Request what follows a label; return None if the prompt is too long even without
        passages.
        """
        decoding = replace(self.decoding, max_new_tokens=self.max_new_tokens, stop=(stop,))

        def build(passages: tuple[Passage, ...]) -> Generate:
            turns = "".join(
                turn.format(number) for number, turn in enumerate(episode.turns, start=1)
            )
            message = Message("user", f"{episode.beginning}\n{turns}{label}")
            return Generate((message,), decoding, passages=passages, may_be_too_long=True)

        reply = yield from episode.history.ask(build)
        return None if reply is None else extract_final_text(reply.text).removeprefix(label).strip()

    def _act(self, episode: _Episode, match: re.Match[str] | None) -> Plan[Observation]:
        """Do what an action says, and return what is observed."""
        kind, argument = (match[1].lower(), match[2].strip()) if match else ("", "")
        if kind == "lookup":
            return episode.history.observe(_look_up(episode, argument))
        if kind != "search":
            return episode.history.observe(
                "This is no action. Use Search[query], Lookup[word] or Finish[answer]."
            )
        observation = yield from episode.history.search(argument, self.n, self.prompt)
        if observation.passages:
            texts = [passage.text.strip() for passage in observation.passages]
            episode.sentences = tuple(
                sentence for text in texts for sentence in _SENTENCE_END.split(text)
            )
            episode.keyword, episode.matches = "", []
        return observation


def _divide(reply: str, number: int) -> tuple[str, str]:
    """Return a reply's thought and action; without an action, the first line is the thought."""
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
        episode.matches = [
            sentence
            for sentence in episode.sentences
            if keyword and keyword.lower() in sentence.lower()
        ]
        episode.matches.reverse()
    return episode.matches.pop() if episode.matches else "No more results."
