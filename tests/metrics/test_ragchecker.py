"""RAGChecker's measures: equal to the published code's on the same verdicts, and what a judge's
replies give.
"""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample, Shown
from winnow.metrics.ragchecker import Measure, RagChecker, compute_measure
from winnow.testing import make_context, make_sample, run_scripted_plan

MEASURES = get_args(Measure)


def matrix(text: str) -> np.ndarray:
    """Verdicts, a row of letters for each claim: E for entailment."""
    return np.array([[letter == "E" for letter in row] for row in text.split(",")], dtype=bool)


def column(text: str) -> np.ndarray:
    """Verdicts of one reference, a letter for each claim."""
    return matrix(",".join(text))


# Verdicts and values of the two examples that the authors published with their code
# (examples/checking_outputs.json), and a third one, of ours, whose values their code gave.
EXAMPLES = [
    (
        column("NEEEEEEEENC"), column("EEEEEECNEENNNNNENNNNEE"),
        matrix("NENN,NNNN,NNNN,NNNN,NNNN,NNNN,NENN,NNNN,ENNE,NNNE,NNNN"),
        matrix("NENN,NNNN,NNNN,ENNN,EENN,ENNE,CCNN," + "NNNN," * 14 + "NENN"),
        [8 / 11, 0.5, 0.592593, 5 / 22, 0.75, 1.0, 2 / 11, 0.0, 1 / 11, 6 / 11, 4 / 11],
    ),
    (
        column("NEEEE"), column("EECENEEE"), matrix("NEN,NEE,CEE,ENE,CEE"),
        matrix("NEN,NEE,NEN,CEE,NNE,ENE,EEE,NEE"),
        [0.8, 0.75, 0.774194, 1.0, 1.0, 0.75, 0.2, 0.0, 0.0, 0.0, 1.0],
    ),
    (
        column("ENCNE"), column("ENE"), matrix("EN,EE,NE,NC,NN"), matrix("EN,NC,EN"),
        [0.4, 2 / 3, 0.5, 2 / 3, 0.5, 1.0, 0.2, 0.2, 0.2, 0.2, 0.6],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "response", "retrieved", "gold", "values"), EXAMPLES)
def test_the_measures_are_those_of_the_published_code(
    answer: np.ndarray,
    response: np.ndarray,
    retrieved: np.ndarray,
    gold: np.ndarray,
    values: list[float],
) -> None:
    """On the same verdicts; shares of the reply's claims add up to 1."""
    given = {"answer": answer, "response": response, "retrieved": retrieved, "gold": gold}
    found = {measure: compute_measure(measure, **given) for measure in MEASURES}
    assert list(found.values()) == pytest.approx(values, abs=1e-6)
    shares = [
        found[name] or 0.0
        for name in ("precision", "noise_relevant", "noise_irrelevant", "hallucination")
    ]
    assert sum(shares) == pytest.approx(1)
    assert sum(
        found[name] or 0.0 for name in ("faithfulness", "hallucination", "self_knowledge")
    ) == pytest.approx(1)


def test_what_the_published_code_calls_zero_is_undefined() -> None:
    """No passage, no claim, and no claim in a passage; what does not need them is defined."""
    no_passages = {
        "answer": column("EN"),
        "response": column("EN"),
        "retrieved": np.zeros((2, 0), bool),
        "gold": np.zeros((2, 0), bool),
    }
    found = {measure: compute_measure(measure, **no_passages) for measure in MEASURES}
    assert {name for name, value in found.items() if value is not None} == {
        "precision",
        "recall",
        "f1",
    }
    no_gold = {
        "answer": column("NN"),
        "response": np.zeros((0, 1), bool),
        "retrieved": matrix("EN,NN"),
        "gold": np.zeros((0, 2), bool),
    }
    found = {measure: compute_measure(measure, **no_gold) for measure in MEASURES}
    assert {name: value for name, value in found.items() if value is not None} == {
        "precision": 0.0, "hallucination": 0.5, "self_knowledge": 0.0, "faithfulness": 0.5,
    }  # fmt: skip
    unused = {"gold": matrix("N,N"), "response": column("EE")}
    assert compute_measure("context_utilization", **unused) is None
    assert compute_measure("f1", answer=column("NN"), response=column("EE")) == 0.0


def make(of: Measure, **fields: object) -> RagChecker:
    """A metric with short prompts."""
    templates = {
        "extract_template": "X {question}|{answer}",
        "check_template": "C {question}|{reference}|{claims}",
    }
    return RagChecker("m", "M", of=of, **{**templates, **fields})  # type: ignore[arg-type]


def sample(reply: str = "Ada wrote it in 1843.", **fields: object) -> Sample:
    """A question whose reader saw two passages."""
    shown = Shown(tuple(make_context(rank, f"text {rank}") for rank in (1, 2)))
    return replace(
        make_sample("Ada", answers=("Ada Lovelace", "Ada"), reply=reply, **fields), shown=shown
    )


def test_claims_are_listed_and_checked() -> None:
    """The reply's claims against the accepted answer and each passage, two to a request; 1 of 3 is
    wrong and in no passage.
    """
    claims = ["- a\n- b\n- a\n- c"]
    verdicts = ["1. entailment\n2. neutral", "1. Contradiction"] + [
        "1 entailment\n2 neutral",
        "neutral",
    ] * 2
    score, prompts = run_scripted_plan(
        make("hallucination", claims=2).plan(sample()), [claims, verdicts[2:] + verdicts[:2]]
    )
    text = sample().question.text
    assert prompts[0] == [f"X {text}|Ada wrote it in 1843."]
    assert prompts[1][0] == f"C {text}|Title 1\ntext 1|1. a\n2. b"
    assert prompts[1][1] == f"C {text}|Title 1\ntext 1|1. c"
    assert prompts[1][4] == f"C {text}|Ada Lovelace|1. a\n2. b"
    assert score == pytest.approx(2 / 3), "b and c"


def test_both_texts_have_claims() -> None:
    """F1 asks for those of the reply and of the accepted answer, the first one."""
    score, prompts = run_scripted_plan(
        make("f1").plan(sample()), [["- a\n- b", "- c"], ["entailment\nneutral", "entailment"]]
    )
    assert [prompt.partition("|")[2] for prompt in prompts[0]] == [
        "Ada wrote it in 1843.",
        "Ada Lovelace",
    ]
    assert [prompt.split("|")[1] for prompt in prompts[1]] == [
        "Ada Lovelace",
        "Ada wrote it in 1843.",
    ]
    assert score == pytest.approx(2 * 0.5 / 1.5)


def test_claims_are_those_of_the_answer() -> None:
    """Not of the reasoning before it, nor of a reply of which the answer is no part, such as a
    summary.
    """
    for reply, expected in (
        ("<think>Maybe Kafka.</think>Ada wrote it.", "Ada wrote it."),
        ("Summary: praised.", "Ada"),
    ):
        _, prompts = run_scripted_plan(
            make("precision").plan(sample(reply)), [["- a"], ["entailment"]]
        )
        assert prompts[0][0].endswith(f"|{expected}")


@pytest.mark.parametrize(
    ("replies", "published"),
    [
        ([["I cannot say."]], 0.0),
        ([["- none"]], 0.0),
        ([["- a\n- b"], ["entailment"]], 0.5),
        ([["- a\n- b"], ["neutral\nentailment\nentailment"]], 0.5),
        ([["- a"], ["The claim seems right to me."]], 0.0),
        ([["- a"], ["<think>is it an entailment"]], 0.0),
    ],
)
def test_what_is_no_verdict(replies: list[list[str]], published: float) -> None:
    """Prose, no claims, too few or too many verdicts and a cut reply are undefined; the published
    code makes them numbers.
    """
    assert run_scripted_plan(make("precision").plan(sample()), replies)[0] is None
    score = run_scripted_plan(make("precision", dialect="ragchecker").plan(sample()), replies)[0]
    assert score == pytest.approx(published)


def test_abstentions_and_unrecorded_prompts_ask_nothing() -> None:
    """As is a question without an accepted answer; the published rules judge an abstention as any
    other text.
    """
    assert run_scripted_plan(make("precision").plan(sample(unknown=True)), []) == (None, [])
    assert run_scripted_plan(make("precision").plan(replace(sample(), shown=None)), []) == (
        None,
        [],
    )
    retriever = make("claim_recall").plan(sample(unknown=True))
    assert run_scripted_plan(retriever, [["- c"], ["entailment", "neutral"]])[0] == 1.0, (
        "the passages do not depend on the reply"
    )
    published = make("precision", dialect="ragchecker").plan(sample("unknown", unknown=True))
    assert run_scripted_plan(published, [["- none"]])[0] == 0.0


def test_wrong_settings_are_named() -> None:
    """A measure that does not exist, and a prompt without its field."""
    with pytest.raises(
        ConfigError, match=r"metric\.m\.of must be precision, recall.*received 'accuracy'"
    ):
        replace(make("f1"), of="accuracy")
    with pytest.raises(ConfigError, match=r"metric\.m\.check_template"):
        make("f1", check_template="{claims}")


def test_what_an_answer_is_without_a_reply_or_accepted_answers() -> None:
    """The answer itself where the reply is empty; nothing is asked without an accepted one; the
    list's length is a setting.
    """
    for reply in ("", " \n"):
        _, prompts = run_scripted_plan(make("faithfulness").plan(sample(reply)), [["- none"]])
        assert prompts[0][0].endswith("|Ada")
    bare = replace(sample(), question=replace(sample().question, answers=()))
    assert run_scripted_plan(make("precision").plan(bare), []) == (None, [])
    assert next(make("precision", max_new_tokens=7).plan(sample()))[0].decoding.max_new_tokens == 7
