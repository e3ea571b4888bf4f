"""The prompt that strategies share: instruction, numbered contexts, question (structure of Post-Fusion figures 7-9)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import Formatter

from winnow.errors import ConfigError
from winnow.records import Context, Decoding, Generate, Message, Passage, Question
from winnow.strategies.demonstrations import Demonstration, Shots


@dataclass(frozen=True, slots=True)
class Prompt:
    """Templates with named fields.

    `with_contexts` takes {contexts} and {question}, `without_contexts` takes {question}, `with_candidates` takes
    {contexts}, {candidates} and {question}; `passage` takes {number}, {title} and {text}. `system` may be empty.
    A few-shot prompt sets `shots`, the number of its `demonstrations`; the templates with contexts place them at
    {demonstrations}, each formatted by `demonstration`, which takes {number}, {contexts}, {question} and {answer}.
    """

    with_contexts: str
    without_contexts: str
    with_candidates: str
    passage: str = "[{number}] {title} | {text}"
    system: str = ""
    demonstration: str = ""
    shots: Shots | None = None
    demonstrations: Sequence[Demonstration] = ()

    def __post_init__(self) -> None:
        """Refuse a template that lacks a field or has an unknown one."""
        section, shot_fields = ({"demonstrations"}, {"contexts", "question", "answer"}) if self.shots else (set(), set())
        for name, required, optional in (
            ("with_contexts", {"contexts", "question", *section}, {"demonstrations"}),
            ("without_contexts", {"question"}, set()),
            ("with_candidates", {"contexts", "candidates", "question", *section}, {"demonstrations"}),
            ("passage", set(), {"number", "title", "text"}),
            ("demonstration", shot_fields, {"number", "contexts", "question", "answer"}),
        ):
            fields = {part for _, part, _, _ in Formatter().parse(getattr(self, name)) if part is not None}
            if required - fields or fields - required - optional:
                more = f" and may have {sorted(optional - required)}" if optional - required else ""
                raise ConfigError(f"prompt.{name} must have the fields {sorted(required)}{more}; received {sorted(fields)}.")

    def render(self, question: Question, contexts: Sequence[Context], candidates: Sequence[str] = ()) -> tuple[Message, ...]:
        """Return the chat prompt for a question with these contexts (none gives the closed-book prompt)."""
        passages = self._passages([context.passage for context in contexts])
        template = self.with_candidates if candidates else self.with_contexts if contexts else self.without_contexts
        demonstrations = self._demonstrations(question) if contexts and self.shots else ""
        fields = {"question": question.text, "contexts": passages, "candidates": "; ".join(candidates)}
        user = Message("user", template.format(**fields, demonstrations=demonstrations).strip())
        return (Message("system", self.system), user) if self.system else (user,)

    def _passages(self, passages: Sequence[Passage]) -> str:
        form = self.passage.format
        return "\n".join([form(number=n, title=p.title, text=p.text) for n, p in enumerate(passages, start=1)])

    def _demonstrations(self, question: Question) -> str:
        if self.shots is None or not self.demonstrations:
            raise ConfigError("A prompt with shots needs its demonstrations before it shows passages (Shots.draw).")
        others = [d for d in self.demonstrations if d.question_id != question.question_id]
        form = self.demonstration.format
        texts = [
            form(number=n, contexts=self._passages([d.passage]), question=d.question, answer=d.answer)
            for n, d in enumerate(others[: self.shots.count], start=1)
        ]
        return "\n".join(texts).strip()


def build_request(
    prompt: Prompt, question: Question, contexts: Sequence[Context], decoding: Decoding, candidates: Sequence[str] = ()
) -> Generate:
    """Return the request for one prompt; if it is too long, passages are dropped, lowest-ranked first, gold last."""
    return Generate(
        prompt.render(question, contexts, candidates),
        decoding,
        passages=tuple(context.passage for context in contexts),
        shorter=_shorten(prompt, question, contexts, decoding, candidates),
    )


def _shorten(
    prompt: Prompt, question: Question, contexts: Sequence[Context], decoding: Decoding, candidates: Sequence[str]
) -> Callable[[], Generate | None]:
    def shorter() -> Generate | None:
        if len(contexts) < 2:
            return None
        dropped = max(contexts, key=lambda c: (not c.is_gold, c.rank))
        return build_request(prompt, question, [c for c in contexts if c is not dropped], decoding, candidates)

    return shorter
