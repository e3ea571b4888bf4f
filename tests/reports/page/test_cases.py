"""Cases: what was asked and answered is encoded without loss, and a replay that gives something
else is never shown.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from winnow.artifacts.steps import QuestionSteps
from winnow.contexts.placement import Placement
from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.predictions import Prediction
from winnow.records import Context, Decoding, Passage
from winnow.reports.page.cases import Texts, _encode_call, _encode_steps, build_case
from winnow.requests import (
    Estimate,
    Failed,
    Generation,
    Likelihood,
    Message,
    Pages,
    Score,
    Search,
    Usage,
)
from winnow.steps import Step
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.sweeps.replay import Call
from winnow.testing import make_context, make_question

LONG = "The novel Emma was written by Jane Austen in 1815."
PROMPT = Prompt(
    "{contexts}\nQ {question}",
    "{question}",
    "{contexts} {candidates} {question}",
    "[{number}] {title}: {text}",
)
STRATEGY = Concatenation(PROMPT, Decoding())
CONTEXTS: tuple[Context, ...] = (
    make_context(1, LONG, has_answer=True, is_gold=True),
    make_context(2, "short"),
)


class _Cell:
    """The part of a loaded cell that a replay uses."""

    strategy = STRATEGY
    spec = SimpleNamespace(processor=None, folder=Path("cell"))

    def place(self, question: object) -> Any:
        return Placement().place(make_question(), CONTEXTS, 2)

    def process(self, question: object, contexts: Any) -> Any:
        yield from ()
        return contexts

    def plan(self, question: Any, contexts: Any) -> Any:
        return self.strategy.plan(question, contexts)


def _decode(texts: Texts, numbers: list[int]) -> str:
    """What page.js does with the numbers of a text."""
    return "".join(
        texts.passages[-1 - number][1] if number < 0 else texts.texts[number] for number in numbers
    )


def _replay(folder: Path, reply: str, prediction: Prediction, texts: Texts) -> Any:
    question = make_question()
    with SqliteStore(folder / "ledger.sqlite") as ledger:
        (request,) = next(STRATEGY.plan(question, CONTEXTS))
        if reply:
            result = Generation(reply, usage=Usage(12, 3))
            ledger.put(
                "reader-1", [(compute_request_key("reader-1", request), request, result, 0.0)]
            )
        return build_case(_Cell(), question, prediction, {"reader": "reader-1"}, ledger, texts)  # type: ignore[arg-type]


def test_a_prompt_is_stored_once_and_read_back() -> None:
    """Texts and passages have one number each; a passage inside a prompt is its number, and short
    ones are text.
    """
    texts = Texts()
    passages = [context.passage for context in CONTEXTS]
    prompt = f"Read: {LONG} short {LONG}"
    numbers = texts.encode(prompt, passages)
    assert _decode(texts, numbers) == prompt
    assert [number for number in numbers if number < 0] == [-1, -1]
    assert texts.encode(prompt, passages) == numbers
    assert texts.passages == [("Title 1", LONG)]
    assert texts.encode("", passages) == []


def test_every_kind_of_call_is_encoded() -> None:
    """Prompt and result of a likelihood, an estimate, a search and of a failure."""
    texts, message = Texts(), (Message("user", "ask"),)
    passages = [CONTEXTS[0].passage]
    likelihood = _encode_call(
        Call(b"", Likelihood(message, "Austen"), Score(-1.23456)), passages, texts
    )
    assert [(name, _decode(texts, numbers)) for name, numbers in likelihood["prompt"]] == [
        ("user", "ask"),
        ("continuation", "Austen"),
    ]
    assert likelihood["score"] == -1.2346
    estimate = _encode_call(Call(b"", Estimate("who?", LONG, "Emma"), Score(2.0)), passages, texts)
    assert [(name, _decode(texts, numbers)) for name, numbers in estimate["prompt"]] == [
        ("question", "who?"),
        ("passage", f"Emma\n{LONG}"),
    ]
    pages = _encode_call(
        Call(b"", Search("emma", 5), Pages((Passage("u", "T", "x"),))), passages, texts
    )
    assert (pages["kind"], _decode(texts, pages["reply"])) == ("Search", "T\nx")
    empty = _encode_call(Call(b"", Search("emma", 5), Pages(())), passages, texts)
    assert _decode(texts, empty["reply"]) == "(no result)"
    assert (
        _encode_call(Call(b"", Search("emma", 5), Failed("quota")), passages, texts)["failed"]
        == "quota"
    )


def test_a_case_has_contexts_prompt_and_reply(tmp_path: Path) -> None:
    """All of it comes from the ledger; the gold passage is marked."""
    texts = Texts()
    prediction = Prediction("q1", "Jane Austen", False, reply="Jane Austen")
    case = _replay(tmp_path, "Jane Austen", prediction, texts)
    assert case.note == ""
    assert [context[1:] for context in case.contexts] == [
        [1, 1.0, None, 0.0, 1, 1],
        [2, 0.5, None, 0.0, 0, 0],
    ]
    ((call,),) = case.rounds
    ((name, numbers),) = call["prompt"]
    assert name == "user"
    assert _decode(texts, numbers) == f"[1] Title 1: {LONG}\n[2] Title 2: short\nQ Who wrote Emma?"
    assert (_decode(texts, call["reply"]), call["tokens"]) == ("Jane Austen", [12, 3])
    assert case.normalized == "jane austen"


def test_a_replay_that_gives_another_answer_is_not_shown(tmp_path: Path) -> None:
    """Changed code must not pass for what made the number: the case says so, and has no calls."""
    stored = Prediction("q1", "Mary Shelley", False, reply="Mary Shelley")
    case = _replay(tmp_path, "Jane Austen", stored, Texts())
    assert "now answers 'Jane Austen'" in case.note
    assert "python -m flows.sweep" in case.note
    assert not case.rounds
    for changed in ({"unknown": True}, {"candidates": ("x",)}, {"reply": "Jane Austen."}):
        right = Prediction("q1", "Jane Austen", False, reply="Jane Austen")
        assert _replay(tmp_path, "Jane Austen", replace(right, **changed), Texts()).note  # type: ignore[arg-type]


def test_the_recorded_steps_stand_for_missing_calls() -> None:
    """By round, with what was searched, shown or found, and how it ended."""
    texts, passage = Texts(), Passage("w", "T", LONG)
    steps = (
        Step(1, "search", "search", (passage,), "who", "found"),
        Step(2, "generate", "reader", (), finish="length"),
    )
    (search,), (reply,) = _encode_steps(QuestionSteps(steps, "length"), texts)
    assert (search["kind"], reply["kind"], reply["prompt"]) == ("Search", "Generate", [])
    prompt = [(name, _decode(texts, numbers)) for name, numbers in search["prompt"]]
    assert prompt == [("query", "who"), ("passages", f"T\n{LONG}")]
    assert _decode(texts, reply["reply"]).startswith("(1 of this kind; length;")


def test_missing_calls_are_named(tmp_path: Path) -> None:
    """The contexts are still there."""
    case = _replay(tmp_path, "", Prediction("q1", "x", False), Texts())
    assert case.note.startswith("The calls cannot be shown. The ledger lacks a call of round 1")
    assert len(case.contexts) == 2


def test_an_option_that_is_an_article_is_an_answer(tmp_path: Path) -> None:
    """The page compares it with the ballots, whose keys keep it too."""
    case = _replay(tmp_path, "A", Prediction("q1", "A", False, reply="A"), Texts())
    assert (case.note, case.normalized) == ("", "a")
