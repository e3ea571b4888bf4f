"""Citation scores against numbers worked out by hand, and against replies that no
prompt asked for.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.errors import ConfigError
from winnow.metrics.base import Rows, Sample, Shown, aggregate, evaluate
from winnow.metrics.breakdowns import RelevantPosition
from winnow.metrics.citation import (
    Citation,
    CitationF1OfMeans,
    Dialect,
    ReplyWords,
    UncitedSentences,
    WrongCitations,
    mark_relevant,
    score_citations,
)
from winnow.predictions import Prediction
from winnow.records import Context, Passage, Question
from winnow.testing import make_context, make_question
from winnow.text.citations import find_citations

DIALECTS: tuple[Dialect, ...] = ("rage", "paper", "strict")


def make_sample(
    reply: str, kinds: str = "rirs", answers: tuple[str, ...] = ("Ada",), gold: bool = False
) -> Sample:
    """A prediction over documents of kinds (r)elevant, (i)rrelevant and (s)eemingly relevant, as a
    mixture has them.
    """
    contexts = tuple(
        Context(
            Passage(f"p{n}", "", "x"),
            n,
            None if kind == "i" else 1.0,
            kind == "r",
            is_gold=kind == "r",
        )
        for n, kind in enumerate(kinds, start=1)
    )
    gold_ids = (
        tuple(context.passage.passage_id for context in contexts if context.is_gold) if gold else ()
    )
    ids = tuple(context.passage.passage_id for context in contexts)
    prediction = Prediction("q", "", False, reply=reply, passage_ids=ids, used_ids=ids)
    return Sample(
        Question("q", "who?", answers, gold_ids),
        prediction,
        contexts,
        shown=Shown(contexts, contexts),
    )


def test_the_three_dialects() -> None:
    """Cited 1, 1, 2 and 9 of four documents, of which 1 and 3 are relevant."""
    reply, relevance = "A [1]. B [1][2]. C [9].", [True, False, True, False]
    found = {dialect: score_citations(reply, relevance, dialect) for dialect in DIALECTS}
    assert {name: (score.precision, score.recall) for name, score in found.items()} == {
        "rage": (1 / 2, 1 / 2),
        "paper": (2 / 4, 1 / 2),
        "strict": (1 / 3, 1 / 2),
    }
    assert found["strict"].f1 == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))
    assert {(score.distinct, score.invalid, score.repeated) for score in found.values()} == {
        (2, 1, 1)
    }
    assert score_citations("A [1]. C [9].", [True, False], "paper").precision == 0.5
    assert score_citations("A [1]. C [9].", [True, False], "rage").precision == 1.0


def test_nothing_cited_and_nothing_relevant() -> None:
    """No citation gives zeros; no relevant document gives recall 0 instead of a crash; [0] is no
    document.
    """
    for dialect in DIALECTS:
        assert score_citations("No citation.", [True], dialect).f1 == 0.0
        assert score_citations("See [1].", [False], dialect).recall == 0.0
        zero = score_citations("See [0].", [True], dialect)
        assert (zero.precision, zero.invalid) == (0.0, 1)


@pytest.mark.parametrize(
    ("reply", "rage", "strict"),
    [
        ("[1, 2]", [], [1, 2]),
        ("[1-3]", [], [1, 2, 3]),
        ("[2\u20134; 1]", [], [2, 3, 4, 1]),
        ("[doc 1]", [], [1]),
        ("[Document 1, 2 and doc 3]", [], [1, 2, 3]),
        ("[ 1 ]", [], [1]),
        ("\uff3b1\uff3d \u30102\u3011 [\uff13]", [3], [1, 2, 3]),
        ("[\u0663]", [3], [3]),
        ("[3-1]", [], [3, 1]),
        ("[3-99]", [], [3, 4, 99]),
        ("[]", [], []),
        ("[][[]]", [], []),
        ("[[1]]", [1], [1]),
        ("[-1]", [], []),
        ("[1.5] [one] (1) 1", [], []),
        ("[001]", [1], [1]),
        ("[999999999999]", [10**9], [10**9]),
        ("[" + "9" * 6000 + "]", [10**9], [10**9]),
        ("[" + "0" * 6000 + "2]", [2], [2]),
        ("", [], []),
    ],
)
def test_what_is_a_citation(reply: str, rage: list[int], strict: list[int]) -> None:
    """Forms of citations of four documents. RAGE's pattern takes [n] alone, with the digits of any
    script.
    """
    assert find_citations(reply, 4) == find_citations(reply, 4, "paper") == rage
    assert find_citations(reply, 4, "strict") == strict


def test_ten_thousand_citations() -> None:
    """Long replies are scored in no time, and ranges do not explode."""
    score = score_citations("[1][2]" * 5000 + "[1-999999999]", [True, False], "strict")
    assert (score.distinct, score.repeated, score.invalid) == (2, 10_000, 1)
    assert score_citations("[" * 20_000, [True], "strict").distinct == 0
    assert score_citations("[" + " " * 20_000, [True], "strict").distinct == 0


@settings(deadline=None)
@given(
    st.text(alphabet="[]0123456789,-; docDOC\u0663\uff3b\u3010.\n", max_size=60),
    st.lists(st.booleans(), max_size=6),
)
def test_any_reply_has_scores(reply: str, relevance: list[bool]) -> None:
    """Scores are shares, and the counts add up, whatever a model writes."""
    for dialect in DIALECTS:
        score = score_citations(reply, relevance, dialect)
        assert 0 <= score.precision <= 1
        assert 0 <= score.recall <= 1
        assert (
            min(score.precision, score.recall)
            <= score.f1 + 1e-9
            <= max(score.precision, score.recall) + 1e-6
            or score.f1 == 0
        )
        cited = find_citations(reply, len(relevance), dialect)
        assert score.distinct + score.repeated + score.invalid == len(cited)
        assert score.distinct <= len(relevance)
    assert (
        score_citations(reply, relevance, "paper").recall
        == score_citations(reply, relevance).recall
    )
    if score_citations(reply, relevance).invalid == 0:
        assert (
            score_citations(reply, relevance, "strict").distinct
            >= score_citations(reply, relevance).distinct
        )


def test_f1_of_means_and_mean_of_f1s() -> None:
    """P, R of three questions (1, 1/2), (1/2, 1), (0, 0): means 1/2 and 1/2, so F1 of means 1/2;
    mean of F1s 4/9.
    """
    samples = [make_sample("[1]", "rr"), make_sample("[1][2]", "ri"), make_sample("[2]", "ri")]
    rage = evaluate(
        [CitationF1OfMeans("a", "a"), Citation("b", "b"), Citation("c", "c", of="reward")], samples
    )
    assert rage["a"].mean == pytest.approx(0.5)
    assert rage["b"].mean == pytest.approx(4 / 9)
    assert rage["c"].mean == pytest.approx((0.75 + 0.75 + 0) / 3)
    assert rage["a"].low < 0.5 < rage["a"].high
    assert (rage["a"].n, evaluate([CitationF1OfMeans("a", "a")], [])["a"].n) == (3, 0)


def test_the_interval_of_f1_of_means_covers() -> None:
    """In 95 % of 300 samples of 60 questions, about, the interval contains the value of the
    population.
    """
    metric, rng = CitationF1OfMeans("a", "a"), np.random.default_rng(0)
    population = [
        {"precision": p, "recall": r} for p, r in ((1.0, 1.0), (0.5, 1.0), (0.0, 0.0), (1.0, 0.5))
    ]
    truth = aggregate(metric, Rows.collect(population)).mean
    covered = []
    for _ in range(300):
        interval = aggregate(metric, Rows.collect(population[n] for n in rng.integers(0, 4, 60)))
        covered.append(interval.low <= truth <= interval.high)
    assert 0.90 <= np.mean(covered) <= 0.99


def test_a_prompt_without_a_relevant_passage_is_undefined() -> None:
    """It is left out, and counts neither as 0 nor as 1."""
    samples = [make_sample("[1]", "ii"), make_sample("[1]", "ri")]
    intervals = evaluate([Citation("a", "a"), CitationF1OfMeans("b", "b")], samples)
    assert [(intervals[name].mean, intervals[name].n) for name in "ab"] == [(1.0, 1), (1.0, 1)]


def test_relevant_are_annotated_passages_or_those_with_an_answer() -> None:
    """An answer string in a passage counts only where no passage is annotated."""
    contexts = [
        Context(Passage("a", "", "x"), 1, 1.0, True),
        Context(Passage("b", "", "y"), 2, 1.0, False, is_gold=True),
    ]
    assert mark_relevant(Question("q", "?", ("x",)), contexts) == [True, False]
    assert mark_relevant(Question("q", "?", ("x",), ("b",)), contexts) == [False, True]


def test_dropped_passages_are_renumbered() -> None:
    """Numbers refer to the passages of the final prompt."""
    sample = make_sample("[2]", "iir")
    assert sample.shown is not None
    last = (sample.shown.last[0], sample.shown.last[2])
    assert (
        Citation("a", "a").score(replace(sample, shown=Shown(sample.shown.contexts, last))) == 1.0
    )
    assert Citation("a", "a").score(sample) == 0.0


def test_wrong_citations_by_kind() -> None:
    """Cited: a relevant, an irrelevant and a seemingly relevant document, and a number
    without one.
    """
    sample = make_sample("[1][2][4][4][9]", "rirs")
    assert WrongCitations("a", "a").compute_terms(sample) == (1.0, 3.0)
    assert WrongCitations("a", "a", kind="seemingly_relevant").compute_terms(sample) == (1.0, 3.0)
    assert WrongCitations("a", "a").compute_terms(make_sample("none")) == (0.0, 0.0)
    uneven = make_sample("[1][2][3]", "iis")
    assert WrongCitations("a", "a").compute_terms(uneven) == (2.0, 3.0)
    assert WrongCitations("a", "a", kind="seemingly_relevant").compute_terms(uneven) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("reply", "terms"),
    [
        ("One [1]. Two. Three [2][3].", (1.0, 3.0)),
        ("One. [1] Two [9].", (0.0, 2.0)),
        ("One\nTwo [1]", (1.0, 2.0)),
        ("", (0.0, 0.0)),
        ("[1]", (0.0, 1.0)),
        ("One [1] and two", (0.0, 1.0)),
    ],
)
def test_sentences_without_a_citation(reply: str, terms: tuple[float, float]) -> None:
    """A citation behind the full stop belongs to its sentence."""
    assert UncitedSentences("a", "a").compute_terms(make_sample(reply)) == terms


def test_words_and_positions() -> None:
    """Words between white space; the position of the only relevant passage."""
    assert [
        ReplyWords("a", "a").score(make_sample(reply)) for reply in ("", "One  two [1].\n")
    ] == [0.0, 3.0]
    samples = [make_sample("", kinds) for kinds in ("iri", "rr", "is")]
    assert RelevantPosition("a", "a").assign_groups(samples) == ["2 of 3", "several", "none"]
    sample = replace(samples[0], shown=Shown(samples[0].placed[:1], ()))
    assert RelevantPosition("a", "a").assign_groups([sample]) == [
        "2 of 3"
    ]  # where it was placed, whatever was shown


def test_unknown_settings() -> None:
    """An unknown dialect, measure or kind is refused."""
    for call in (
        lambda: score_citations("", [], dialect="nope"),  # type: ignore[arg-type]
        lambda: Citation("a", "a", dialect="nope"),  # type: ignore[arg-type]
        lambda: CitationF1OfMeans("a", "a", dialect="nope"),  # type: ignore[arg-type]
        lambda: Citation("a", "a", of="nope"),  # type: ignore[arg-type]
        lambda: WrongCitations("a", "a", kind="nope"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match="nope"):
            call()


def test_citations_are_of_the_passages_that_the_prompt_showed() -> None:
    """[1] is the first passage of the prompt, whatever else was retrieved; without a relevant one
    there is nothing to cite.
    """
    prediction = Prediction("q", "Emma", False, reply="Emma [1]. Really [2].")
    first, third = make_context(1, "a"), make_context(3, "b", has_answer=True)
    placed = (first, third, make_context(4, "c", has_answer=True))
    shown = Sample(
        make_question(answers=("Austen",)), prediction, placed, shown=Shown(placed, (third, first))
    )
    values = {of: Citation("c", "c", of=of).score(shown) for of in ("precision", "recall", "f1")}  # type: ignore[arg-type]
    assert values == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3)}
    assert Citation("c", "c").score(replace(shown, shown=Shown(placed, (first,)))) is None
    assert Citation("c", "c").score(replace(shown, shown=None)) is None
    with pytest.raises(ConfigError, match=r"precision, recall, f1, .* received 'auc'"):
        Citation("c", "c", of="auc")  # type: ignore[arg-type]


def test_the_own_f1_of_questions() -> None:
    """0 if precision and recall are; the interval of means is that of the questions, not of their
    order.
    """
    metric = CitationF1OfMeans("a", "a")
    columns = {"precision": np.array([0.0, 1.0, 0.5]), "recall": np.array([0.0, 0.5, 0.5])}
    assert metric.compute_values(columns).tolist() == [0.0, pytest.approx(2 / 3), 0.5]
    assert metric.compute_value({"precision": 0.0, "recall": 0.0}) == 0.0
    assert metric.aggregate(
        {name: values[::-1] for name, values in columns.items()}
    ) == metric.aggregate(columns)
    zero = metric.aggregate({"precision": np.zeros(5), "recall": np.zeros(5)})
    assert (zero.mean, zero.low, zero.n) == (0.0, 0.0, 5)
    assert zero.high == pytest.approx(0.434, abs=1e-3)  # Wilson's of 0 of 5
