"""Cases: how a cell answered one question, replayed from the ledger and encoded for the page.

Prompts repeat each other, within a question and between cells. The page therefore holds each text
and each passage once, and a prompt is a list of numbers: n is the text n, and -1 - n the text of
the passage n.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from winnow.artifacts.steps import QuestionSteps
from winnow.errors import LedgerError
from winnow.predictions import Prediction
from winnow.protocols import CallStore
from winnow.records import Context, Passage, Question, Role
from winnow.reports.page.tallies import Tally, build_tally
from winnow.requests import (
    Estimate,
    Failed,
    Generate,
    Generation,
    Likelihood,
    Message,
    Pages,
    Search,
    TooLong,
)
from winnow.sweeps.replay import (
    Call,
    describe_other_answer,
    format_message,
    format_reply,
    is_same_answer,
    replay_plan,
)
from winnow.sweeps.run import LoadedCell
from winnow.text.normalization import normalize_candidate

_SHORTEST_SHARED = 30
"""Length in characters of the shortest passage that prompts refer to by number."""


@dataclass
class Texts:
    """Texts and passages, each of which is stored once.

    Attributes:
        texts: Texts by number.
        passages: [title, text] of each passage by number.
    """

    texts: list[str] = field(default_factory=list)
    passages: list[tuple[str, str]] = field(default_factory=list)
    _text_numbers: dict[str, int] = field(default_factory=dict)
    _passage_numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, text: str) -> int:
        """Return the number of a text."""
        number = self._text_numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def add_passage(self, passage: Passage) -> int:
        """Return the number of a passage."""
        entry = (passage.title, passage.text)
        number = self._passage_numbers.setdefault(entry, len(self.passages))
        if number == len(self.passages):
            self.passages.append(entry)
        return number

    def encode(self, text: str, passages: Sequence[Passage]) -> list[int]:
        """Return a text as numbers, in which the texts of the passages are numbers of passages."""
        parts: list[str | int] = [text]
        for passage in passages:
            if len(passage.text) >= _SHORTEST_SHARED and any(
                isinstance(part, str) and passage.text in part for part in parts
            ):
                parts = self._replace(parts, passage)
        return [part if isinstance(part, int) else self.add(part) for part in parts if part != ""]

    def _replace(self, parts: Sequence[str | int], passage: Passage) -> list[str | int]:
        number = -1 - self.add_passage(passage)
        new_parts: list[str | int] = []
        for part in parts:
            if isinstance(part, int):
                new_parts.append(part)
                continue
            for index, piece in enumerate(part.split(passage.text)):
                new_parts += [number, piece] if index else [piece]
        return new_parts


@dataclass(frozen=True, slots=True)
class Case:
    """How a cell answered one question.

    Attributes:
        contexts: [passage, rank, score, log-odds, log-weight, is gold, has answer] of each context
            in prompt order.
        rounds: Calls of each round, as mappings (see `_encode_call`).
        tally: What each passage contributed, if the strategy prompts with each alone.
        trace: Record of what the strategy did.
        normalized: Answer after normalization.
        note: What the page has to say about the replay, such as that calls are missing; "" if
            nothing.
    """

    contexts: Sequence[Sequence[Any]]
    rounds: Sequence[Sequence[Mapping[str, Any]]]
    tally: Tally | None
    trace: Sequence[str]
    normalized: str
    note: str = ""


def build_case(
    cell: LoadedCell,
    question: Question,
    prediction: Prediction,
    identities: Mapping[Role, str],
    ledger: CallStore,
    texts: Texts,
    steps: QuestionSteps | None = None,
) -> Case:
    """Replay how a cell answered a question, and check the result against the stored prediction.

    If the calls cannot be replayed, the case has the recorded steps instead, which lack the
    replies.

    Args:
        cell: Cell with its strategy and rankings.
        question: Question.
        prediction: Stored prediction for the question.
        identities: Identity under which the ledger stores the results of each role.
        ledger: Open store.
        texts: Texts and passages of the page, to which texts and passages of the case are added.
        steps: Recorded steps of the question, if there are any.
    """
    recorded_rounds = _encode_steps(steps, texts)
    contexts = cell.place(question).contexts
    encoded_contexts = [_encode_context(context, texts) for context in contexts]
    normalized_answer = normalize_candidate(prediction.answer)
    try:
        replay = replay_plan(
            cell.plan(question, contexts), identities, ledger, steps.steps if steps else ()
        )
        processed = replay_plan(cell.process(question, contexts), identities, ledger)
    except LedgerError as error:
        return Case(
            encoded_contexts,
            recorded_rounds,
            None,
            prediction.trace,
            normalized_answer,
            f"The calls cannot be shown. {error}",
        )
    if not is_same_answer(replay.result, prediction):
        note = (
            "The calls cannot be shown. "
            f"{describe_other_answer(replay.result, prediction, cell.spec.folder)}"
        )
        return Case(
            encoded_contexts, recorded_rounds, None, prediction.trace, normalized_answer, note
        )
    passages = [context.passage for context in (*processed.result, *contexts)]
    rounds = [[_encode_call(call, passages, texts) for call in calls] for calls in replay.rounds]
    if cell.spec.processor is not None:
        encoded_contexts = [_encode_context(context, texts) for context in processed.result]
    tally = build_tally(cell.strategy, processed.result, replay.rounds[len(processed.rounds) :])
    return Case(encoded_contexts, rounds, tally, prediction.trace, normalized_answer)


def _encode_steps(steps: QuestionSteps | None, texts: Texts) -> list[list[dict[str, Any]]]:
    """Encode the recorded steps of each round like `_encode_call`, without prompts or replies."""
    rounds: dict[int, list[dict[str, Any]]] = {}
    for step in steps.steps if steps else ():
        passages_text = "\n\n".join(passage.titled_text for passage in step.passages)
        prompt = [("query", texts.encode(step.query, ()))] if step.query else []
        prompt += (
            [("passages", texts.encode(passages_text, step.passages))] if passages_text else []
        )
        end = (
            f"({step.calls} of this kind; {step.finish or 'scored'}; the text is in the ledger "
            "alone)"
        )
        call = {
            "kind": step.kind.capitalize(),
            "role": step.role,
            "prompt": prompt,
            "reply": texts.encode(end, ()),
        }
        rounds.setdefault(step.round, []).append(call)
    return list(rounds.values())


def _encode_context(context: Context, texts: Texts) -> list[Any]:
    number = texts.add_passage(context.passage)
    scores = [context.score, context.log_odds, context.log_weight]
    rounded = [None if score is None else round(score, 4) for score in scores]
    return [number, context.rank, *rounded, int(context.is_gold), int(context.has_answer)]


def _encode_call(call: Call, passages: Sequence[Passage], texts: Texts) -> dict[str, Any]:
    """Return a call's kind, role, prompt ((name, numbers) pairs), result and what is notable."""
    request = call.request
    prompt_passages = [*passages, *(request.passages if isinstance(request, Generate) else ())]
    match request:
        case Generate():
            prompt = _encode_messages(request.messages, prompt_passages, texts)
        case Likelihood():
            prompt = [
                *_encode_messages(request.messages, prompt_passages, texts),
                ("continuation", texts.encode(request.continuation, ())),
            ]
        case Estimate():
            passage = "\n".join(filter(None, [request.title, request.text]))
            prompt = [
                ("question", texts.encode(request.question, ())),
                ("passage", texts.encode(passage, prompt_passages)),
            ]
        case Search():
            prompt = [("query", texts.encode(request.query, ()))]
    encoded_call = {
        "kind": type(request).__name__,
        "role": request.role,
        "prompt": prompt,
        **_encode_result(call, prompt_passages, texts),
    }
    return {**encoded_call, "dropped": call.dropped} if call.dropped else encoded_call


def _encode_messages(
    messages: Sequence[Message], shown: Sequence[Passage], texts: Texts
) -> list[tuple[str, list[int]]]:
    return [(message.role, texts.encode(format_message(message), shown)) for message in messages]


def _encode_result(call: Call, shown: Sequence[Passage], texts: Texts) -> dict[str, Any]:
    result = call.result
    match result:
        case Generation():
            usage = result.usage
            return {
                "reply": texts.encode(format_reply(result), shown),
                "tokens": [usage.tokens_in, usage.tokens_out],
                **({"finish": result.finish} if result.finish != "stop" else {}),
            }
        case Failed() | TooLong():
            return {"failed": result.reason}
        case Pages():
            pages = "\n\n".join(f"{page.title}\n{page.text}" for page in result.passages)
            return {"reply": texts.encode(pages or "(no result)", shown)}
        case _:
            return {"score": round(result.value, 4)}
