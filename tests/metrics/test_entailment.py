"""Support of citations by hand, with a scripted model of entailment."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample, Shown
from winnow.metrics.entailment import CitationSupport
from winnow.requests import Estimate, Score
from winnow.testing import make_context, make_sample

RECALL, PRECISION = CitationSupport("r", "R"), CitationSupport("p", "P", of="precision")


def sample(reply: str, *, used: tuple[str, ...] = ("p1", "p2", "p3", "p4")) -> Sample:
    """A reply about four passages with the texts "one", ..., "four"."""
    contexts = tuple(
        make_context(n, text)
        for n, text in enumerate(("one", "two", "three", "four words are here"), start=1)
    )
    last = tuple(context for context in contexts if context.passage.passage_id in used)
    return replace(
        make_sample("answer", reply=reply, contexts=contexts), shown=Shown(contexts, last)
    )


def support(
    metric: CitationSupport, asked: Sample, entailed: Mapping[str, set[str]]
) -> tuple[float | None, list[list[str]]]:
    """The score if exactly these sets of passage numbers, such as "12", entail the hypothesis; and
    what each round asked.
    """
    plan, rounds = metric.plan(asked), []
    try:
        requests = next(plan)
        while True:
            assert all(
                isinstance(request, Estimate) and request.role == "nli" for request in requests
            )
            numbers = [
                "".join(n for n in "1234" if f"Title: Title {n}\n" in request.text)
                for request in requests
            ]
            rounds.append(
                [f"{request.question}<{n}" for request, n in zip(requests, numbers, strict=True)]
            )
            scores = [
                1.0 if n in entailed.get(r.question, ()) else -0.1
                for r, n in zip(requests, numbers, strict=True)
            ]
            requests = plan.send([Score(value) for value in scores])
    except StopIteration as stop:
        return stop.value, rounds


REPLY = "Ada wrote it [1][2]. She was born in 1815 [3]! It rained."


@pytest.mark.parametrize(
    ("entailed", "recall", "precision"),
    [
        ({}, 0, 0),
        ({"Ada wrote it.": {"12", "1"}}, 1 / 3, 1 / 3),  # [2] is needless: [1] entails without it
        ({"Ada wrote it.": {"12"}}, 1 / 3, 2 / 3),  # only both together
        ({"Ada wrote it.": {"12", "1", "2"}}, 1 / 3, 2 / 3),  # each alone
        (
            {"Ada wrote it.": {"1", "2"}},
            0,
            0,
        ),  # together they do not: a contradiction counts as such
        ({"Ada wrote it.": {"12", "1"}, "She was born in 1815!": {"3"}}, 2 / 3, 2 / 3),
    ],
)
def test_support_by_hand(entailed: Mapping[str, set[str]], recall: float, precision: float) -> None:
    """Three sentences, three citations; the last sentence has none."""
    assert support(RECALL, sample(REPLY), entailed)[0] == pytest.approx(recall)
    assert support(PRECISION, sample(REPLY), entailed)[0] == pytest.approx(precision)


def test_what_is_asked() -> None:
    """All sentences, then each passage of supported sentences that cite several, then the others
    without the doubtful ones.
    """
    score, rounds = support(
        PRECISION, sample(REPLY), {"Ada wrote it.": {"12", "1"}, "She was born in 1815!": {"3"}}
    )
    assert score == pytest.approx(2 / 3)
    assert rounds == [
        ["Ada wrote it.<12", "She was born in 1815!<3"], ["Ada wrote it.<1", "Ada wrote it.<2"],
        ["Ada wrote it.<1"],
    ]  # fmt: skip
    assert len(support(RECALL, sample(REPLY), {"Ada wrote it.": {"12"}})[1]) == 1


@pytest.mark.parametrize(
    ("reply", "recall", "precision"),
    [
        ("", None, None),
        ("[1][2]", None, None),
        ("It rained.", 0.0, 0.0),
        ("It rained [5].", 0.0, 0.0),
        ("It rained [0]. A [1].", 0.5, 1.0),
        (
            "It rained [5][1]. A [1].",
            0.5,
            1.0,
        ),  # the citations of the first sentence are not counted, as in ALCE
        ("A [1][1][1].", 1.0, 1.0),
        ("A [doc 1].", 1.0, 1.0),
    ],
)
def test_odd_replies(reply: str, recall: float | None, precision: float | None) -> None:
    """Replies without a sentence, without citations, and with numbers that no passage has."""
    assert support(RECALL, sample(reply), {"A.": {"1"}})[0] == recall
    assert support(PRECISION, sample(reply), {"A.": {"1"}})[0] == precision


def test_settings() -> None:
    """The first three citations count, hypotheses follow their template, and passages are cut as in
    the prompt.
    """
    assert support(RECALL, sample("A [1][2][3][4]."), {"A.": {"123"}})[0] == 1
    assert support(replace(RECALL, most=4), sample("A [1][2][3][4]."), {"A.": {"123"}})[0] == 0
    asked = sample("Ada [4]")
    _, rounds = support(replace(RECALL, hypothesis="{question} {sentence}"), asked, {})
    assert rounds == [[f"{asked.question.text} Ada<4"]]
    (request,) = next(RECALL.plan(asked))
    assert request.text == "Title: Title 4\nfour words are here"
    assert support(RECALL, replace(asked, shown=None), {})[0] is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"hypothesis": "{question}"},
            "must have {sentence}, may have {question}, and no other field",
        ),
        ({"hypothesis": "{sentence} {x}"}, "may have {question}"),
        ({"most": 0}, "most must be at least 1; received 0"),
        ({"of": "f1"}, "of must be recall or precision; received 'f1'"),
    ],
)
def test_settings_without_meaning(fields: Mapping[str, object], message: str) -> None:
    """Each message says what was received."""
    with pytest.raises(ConfigError, match=message.replace("{", r"\{")):
        replace(RECALL, **fields)  # type: ignore[arg-type]


def test_the_items_of_a_list_are_supported_apart() -> None:
    """Each by its own citations, as in QAMPARI; as one sentence none of them is, and a comma within
    brackets divides nothing.
    """
    metric = replace(RECALL, split="items", hypothesis="{question} {sentence}")
    listed = sample("Ada [1], Jane [2, 3], Mary.")
    question = listed.question.text
    entailed = {f"{question} Ada": {"1"}, f"{question} Jane": {"23"}}
    assert support(metric, listed, entailed)[0] == pytest.approx(2 / 3)
    assert support(replace(metric, of="precision"), listed, entailed)[0] == 1
    assert support(RECALL, listed, entailed)[0] == 0
