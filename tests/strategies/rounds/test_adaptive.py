"""Adaptive retrieval: the class of a question decides what is done."""

import pytest

from tests.plans import PROMPT, play
from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Generation, Likelihood, Pages, Score, Search
from winnow.strategies.rounds.adaptive import Adaptive
from winnow.testing import make_context, make_question

QUESTION = make_question("Who wrote Emma?")
PLACED = [make_context(1, "placed")]
TEMPLATES = {"template": "Class of {question}", "chain": "{contexts} Q {question} A {thoughts}"}


def _agent(**settings: object) -> Adaptive:
    return Adaptive(PROMPT, Decoding(), **{**TEMPLATES, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "label", "shown"),
    [
        ((-1.0, -2.0, -3.0), "A", ()),
        ((-2.0, -1.0, -3.0), "B", ("placed",)),
        ((-1.0, -1.0, -1.0), "A", ()),
    ],
)
def test_the_most_likely_label_decides(
    values: tuple[float, ...], label: str, shown: tuple[str, ...]
) -> None:
    """In one round of likelihoods; of equal ones, the first."""
    scores = iter(values)
    serve = lambda request: (
        Score(next(scores)) if isinstance(request, Likelihood) else Generation("Austen")
    )
    answer, requests = play(_agent().plan(QUESTION, PLACED), serve)
    classified = requests[:3]
    assert [one.continuation for one in classified if isinstance(one, Likelihood)] == [
        "A",
        "B",
        "C",
    ]
    assert {one.messages[0].content for one in classified} == {"Class of Who wrote Emma?"}  # type: ignore[union-attr]
    assert {one.include_eos for one in classified} == {False}  # type: ignore[union-attr]
    assert (answer.text, answer.trace[0]) == ("Austen", f"class: {label}")
    assert tuple(passage.text for passage in requests[3].passages) == shown  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("C", "C"),
        ("The letter is b.", "B"),
        ("<think>A?</think>C", "C"),
        ("This is a multi-hop question: C", "C"),
        ("No idea", "B"),
        ("", "B"),
    ],
)
def test_a_reply_may_name_the_label(reply: str, label: str) -> None:
    """The first one counts, in any case; without one, the placed passages are shown."""
    replies = iter([reply, "So the answer is: Austen", "Austen"])
    serve = lambda _: Generation(next(replies))
    answer, requests = play(_agent(by="reply").plan(QUESTION, PLACED), serve)
    assert answer.trace[0] == f"class: {label}"
    assert isinstance(requests[0], Generate)
    assert requests[0].passages == ()


@pytest.mark.parametrize("by", ["likelihood", "reply"])
def test_another_model_may_classify(by: str) -> None:
    """It is asked the class alone; the reader answers."""
    serve = lambda one: Score(-1.0) if isinstance(one, Likelihood) else Generation("A")
    _, requests = play(
        _agent(by=by, classifier="verifier", template="{question}").plan(QUESTION, PLACED), serve
    )
    *classified, answered = requests
    assert {one.role for one in classified} == {"verifier"}  # type: ignore[union-attr]
    assert {one.messages[-1].content for one in classified} == {QUESTION.text}  # type: ignore[union-attr]
    assert answered.role == "reader"  # type: ignore[union-attr]


def test_the_third_class_searches() -> None:
    """As IRCoT does, with the number of passages of the plan."""
    replies = iter(["C", "She wrote it.", "So the answer is: Austen", "Austen"])
    serve = lambda one: (
        Pages((Passage("f", "", "found"),))
        if isinstance(one, Search)
        else Generation(next(replies))
    )
    answer, requests = play(_agent(by="reply", n=2).plan(QUESTION, PLACED), serve)
    assert [(one.query, one.n) for one in requests if isinstance(one, Search)] == [
        ("She wrote it.", 2)
    ]
    assert (answer.text, answer.stop) == ("Austen", "answer")


def test_settings_without_a_meaning_are_refused() -> None:
    """With what was received."""
    with pytest.raises(ConfigError, match="three different names"):
        _agent(labels=["A", "a", "B"])
    with pytest.raises(ConfigError, match="likelihood or reply"):
        _agent(by="luck")
    with pytest.raises(ConfigError, match="question"):
        _agent(template="Class?")
