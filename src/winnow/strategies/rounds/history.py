"""An agent's history: what its searches gave, what its prompts showed, and what was left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from winnow.records import Answer, Passage
from winnow.requests import Generate, Generation, Plan, TooLong
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.searching import search
from winnow.strategies.unknown import build_answer

LEFT_OUT = "(left out)"
"""Text in place of passages for which a prompt has no room."""
NO_MORE = "No further search is possible. Answer the question."
"""Text in place of the result of a search beyond the budget."""


@dataclass(slots=True)
class Observation:
    """A text that an agent reads, such as the result of a search, and the passages in it."""

    text: str
    passages: tuple[Passage, ...] = ()


@dataclass(slots=True)
class History:
    """What an agent has observed.

    Attributes:
        placed: Passages of the first prompt, which stay.
        observations: Observations, oldest first.
        shown: Passages of the last prompt to which the model replied.
        left_out: Passages that were left out.
    """

    placed: tuple[Passage, ...]
    observations: list[Observation] = field(default_factory=list)
    shown: tuple[Passage, ...] = ()
    left_out: dict[Passage, None] = field(default_factory=dict)

    def observe(self, text: str, passages: tuple[Passage, ...] = ()) -> Observation:
        """Add an observation, and return it."""
        self.observations.append(Observation(text, passages))
        return self.observations[-1]

    def search(self, query: str, n: int, prompt: Prompt) -> Plan[Observation]:
        """Search for passages, and add an observation of them, or of why there are none."""
        pages = yield from search(query, n)
        problem = NO_MORE if pages.is_over_budget else f"No result ({pages.problem})."
        return self.observe(prompt.format_passages(pages.passages) or problem, pages.passages)

    def ask(self, build: Callable[[tuple[Passage, ...]], Generate]) -> Plan[Generation | None]:
        """Request a reply, dropping the oldest passages until the prompt fits, or else return None.

        Args:
            build: Function that builds the request from the observations as they are, with the
                passages that they show.
        """
        while True:
            observed_passages = (
                passage for observation in self.observations for passage in observation.passages
            )
            passages = tuple(dict.fromkeys((*self.placed, *observed_passages)))
            reply: Generation | TooLong
            (reply,) = yield [build(passages)]
            if isinstance(reply, Generation):
                self.shown = passages
                return reply
            oldest = next(
                (observation for observation in self.observations if observation.passages), None
            )
            if oldest is None:
                return None
            self.left_out |= dict.fromkeys(oldest.passages)
            oldest.text, oldest.passages = LEFT_OUT, ()

    def build_answer(self, text: str, reply: str, trace: Sequence[str], stop: str) -> Answer:
        """Return an answer, whose trace counts the passages that the last prompt has lost."""
        num_left_out = len(self.left_out.keys() - set(self.shown))
        left_out = [f"left out: {num_left_out} passages"] if num_left_out else []
        return build_answer(text, self.shown, reply, (*trace, *left_out), stop)
