"""Shared prompt templates: instruction, contexts and question (Post-Fusion, figures 7 to 9)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import ConfigError, check_fields, find_fields
from winnow.records import Context, Decoding, Passage, Question
from winnow.requests import Generate, Likelihood, Message
from winnow.strategies.demonstrations import Demonstration, Shots
from winnow.text.templates import fill_passage


@dataclass(frozen=True, slots=True)
class Prompt:
    """Templates of a prompt, with named fields in braces.

    Args:
        with_contexts: Template with {contexts} and {question}, and {demonstrations} in a few-shot
            prompt. Here and in `with_candidates`, {contexts} is left out if `reply_start` has it.
        without_contexts: Template with {question}, for prompts without passages (closed book).
        with_candidates: Template with {contexts}, {candidates} and {question}, and {demonstrations}
            in a few-shot prompt.
        passage: Template of one passage, which may contain {number}, {title} and {text}. For a
            passage without a title, {title} is left out with the separator behind it, unless it has
            a label or brackets: "[{number}] {title} | {text}" becomes "[{number}] {text}".
        system: System message, or empty for none.
        demonstration: Template of one demonstration with {contexts}, {question} and {answer}, and
            optionally {number}.
        shots: Selection of the demonstrations of a few-shot prompt, or None for a zero-shot prompt.
        reply_start: Beginning of the reply to a prompt with contexts, which the model continues, or
            empty. It may contain {contexts}.
        demonstrations: Demonstrations selected by `shots`. A few-shot prompt needs them before it
            can show passages.
    """

    revision: ClassVar[int] = 5

    with_contexts: str
    without_contexts: str
    with_candidates: str
    passage: str = "[{number}] {title} | {text}"
    system: str = ""
    demonstration: str = ""
    reply_start: str = ""
    shots: Shots | None = None
    demonstrations: Sequence[Demonstration] = ()

    def __post_init__(self) -> None:
        check_fields("prompt.reply_start", self.reply_start, (), {"contexts"})
        contexts = {"contexts"} - find_fields(self.reply_start)
        shots_field = {"demonstrations"} if self.shots else set()
        demonstration_fields = {"contexts", "question", "answer"} if self.shots else set()
        for name, required, optional in (
            ("with_contexts", {"question", *contexts, *shots_field}, {"demonstrations"}),
            ("without_contexts", {"question"}, set()),
            (
                "with_candidates",
                {"candidates", "question", *contexts, *shots_field},
                {"demonstrations"},
            ),
            ("passage", {"text"}, {"number", "title"}),
            ("demonstration", demonstration_fields, {"number", "contexts", "question", "answer"}),
        ):
            check_fields(f"prompt.{name}", getattr(self, name), required, optional)
        if "{text}" not in self.passage:
            raise ConfigError(
                "prompt.passage must show the whole {text}, because metrics read what a prompt "
                f"showed; received {self.passage!r}. To show a part, cut the passages "
                "(corpus.parser) or refine them (strategy=crag)."
            )

    def render(
        self, question: Question, contexts: Sequence[Context], candidates: Sequence[str] = ()
    ) -> tuple[Message, ...]:
        """Build the chat messages of a question and its contexts, closed-book if there are none.

        Args:
            question: Question to ask.
            contexts: Contexts to show, in prompt order.
            candidates: Answers among which the reader is asked to choose, if any.
        """
        passages = self.format_passages([context.passage for context in contexts])
        template = (
            self.with_candidates
            if candidates
            else self.with_contexts
            if contexts
            else self.without_contexts
        )
        demonstrations = self._format_demonstrations(question) if contexts and self.shots else ""
        fields = {
            "question": question.text,
            "contexts": passages,
            "candidates": "; ".join(candidates),
            "demonstrations": demonstrations,
        }
        user_message = Message("user", template.format_map(fields).strip())
        messages = (
            (Message("system", self.system), user_message) if self.system else (user_message,)
        )
        if contexts and self.reply_start:
            messages = (
                *messages,
                Message("assistant", self.reply_start.format(contexts=passages)),
            )
        return messages

    def format_passages(self, passages: Sequence[Passage]) -> str:
        """Return the texts of passages as a prompt shows them, one below the other."""
        texts = []
        for number, passage in enumerate(passages, start=1):
            texts.append(fill_passage(self.passage, passage.title, passage.text, number=number))
        return "\n".join(texts)

    def _format_demonstrations(self, question: Question) -> str:
        if self.shots is None or not self.demonstrations:
            raise ConfigError(
                "A prompt with `shots` needs its demonstrations before it can show passages. Build "
                "them with the methods of `shots`, and pass them as `demonstrations`."
            )
        eligible = [
            demonstration
            for demonstration in self.demonstrations
            if demonstration.question_id != question.question_id
        ]
        texts = [
            self.demonstration.format(
                number=number,
                contexts=self.format_passages([demonstration.passage]),
                question=demonstration.question,
                answer=demonstration.answer,
            )
            for number, demonstration in enumerate(eligible[: self.shots.count], start=1)
        ]
        return "\n".join(texts).strip()


def fill_template(prompt: Prompt, template: str, **fields: str) -> Prompt:
    """Return a prompt of one template, without demonstrations and without a beginning of the reply.

    Args:
        prompt: Prompt whose templates of a passage and of the system are used.
        template: Template with the fields {contexts} and {question}, and those that are filled
            here.
        fields: Texts of the other fields.
    """
    without_contexts = template.replace("{contexts}", "")
    for name, text in fields.items():
        escaped_text = text.replace("{", "{{").replace("}", "}}")
        template, without_contexts = (
            one.replace(f"{{{name}}}", escaped_text) for one in (template, without_contexts)
        )
    return Prompt(
        with_contexts=template,
        without_contexts=without_contexts,
        with_candidates="{contexts}{candidates}{question}",
        passage=prompt.passage,
        system=prompt.system,
    )


def build_request(
    prompt: Prompt,
    question: Question,
    contexts: Sequence[Context],
    decoding: Decoding,
    candidates: Sequence[str] = (),
) -> Generate:
    """Build the generation request for one prompt.

    If the prompt exceeds the reader's context length, passages are dropped: the lowest-ranked
    first, gold passages last.

    Args:
        prompt: Templates of the prompt.
        question: Question to ask.
        contexts: Contexts to show, in prompt order.
        decoding: Generation settings.
        candidates: Answers among which the reader is asked to choose, if any.
    """
    return Generate(
        prompt.render(question, contexts, candidates),
        decoding,
        passages=tuple([context.passage for context in contexts]),
        shorter=(
            _create_shortener(prompt, question, contexts, decoding, candidates)
            if len(contexts) > 1
            else None
        ),
    )


def build_likelihood(
    prompt: Prompt, question: Question, contexts: Sequence[Context], answer: str
) -> Likelihood:
    """Build the request for the likelihood of an answer to a prompt that shows these contexts."""
    passages = tuple([context.passage for context in contexts])
    return Likelihood(prompt.render(question, contexts), answer, passages=passages)


def drop_lowest(contexts: Sequence[Context]) -> list[Context]:
    """Drop the lowest-ranked context, gold passages last, to shorten a prompt that is too long."""
    lowest_context = max(contexts, key=lambda context: (not context.is_gold, context.rank))
    return [context for context in contexts if context is not lowest_context]


def _create_shortener(
    prompt: Prompt,
    question: Question,
    contexts: Sequence[Context],
    decoding: Decoding,
    candidates: Sequence[str],
) -> Callable[[], Generate]:
    """Return a function that builds the request with one passage fewer, from several contexts."""

    def shorten() -> Generate:
        return build_request(prompt, question, drop_lowest(contexts), decoding, candidates)

    return shorten
