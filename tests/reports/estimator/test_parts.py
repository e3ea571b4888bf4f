"""The estimator's page: every table by hand, and what the paper reports."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.intervals import UNDEFINED
from winnow.reports.estimator.calibration import build_calibration_table
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.parts import choose_parts
from winnow.reports.estimator.scores import ScoredQuestion
from winnow.reports.estimator.tables import (
    build_abstention_table,
    build_detection_table,
    build_examples_table,
    build_share_table,
    build_top_k_table,
    load_paper_table,
)
from winnow.reports.plots import Plot
from winnow.testing import make_context, make_question


def scored(
    number: int, odds: list[float], answers: list[bool], em: float | None = None
) -> ScoredQuestion:
    """A question whose contexts, in the retriever's order, have these log-odds and answers."""
    contexts = [
        replace(make_context(n, f"text {n}", has_answer=flag), log_odds=value, score=10.0 - n)
        for n, (value, flag) in enumerate(zip(odds, answers, strict=True), start=1)
    ]
    return ScoredQuestion(make_question(question_id=f"q{number}"), contexts, em)


TEST = [
    scored(1, [-2.0, 2.0], [False, True], 1.0),
    scored(2, [-3.0, -2.0], [False, False], 0.0),
    scored(3, [3.0, -1.0], [True, False], 1.0),
    scored(4, [-2.5, -2.5], [False, False], 0.0),
]


def evaluation(
    test: list[ScoredQuestion] = TEST, dataset: str = "NQ", examples: int = 6
) -> Evaluation:
    return Evaluation(TEST, test, 2, dataset, examples)


def plots(test: list[ScoredQuestion], *names: str) -> list[Plot]:
    """The plots of the named parts, of all if none is named."""
    e = evaluation(test)
    return [
        plot for part in choose_parts(names or None, e) for draw in part.plots if (plot := draw(e))
    ]


def test_rates_of_misranking_are_over_every_scored_context() -> None:
    """Those that the estimator selected would count its own errors alone."""
    rows = dict(map(tuple, build_calibration_table(evaluation()).rows))
    rates = {
        name: float(rows[row])
        for row in rows
        for name in ("retriever", "estimator")
        if f"the {name} scores a context" in row and row.endswith("all scored contexts")
    }
    # two answers against six others: ranks 2 and 1, and log-odds 2 and 3 against at most -1
    assert rates == {"retriever": 0.5, "estimator": 0.0}


def test_recall_of_both_rankings() -> None:
    """The retriever finds one of four at 1, the estimator two; at 5 both find two."""
    table = build_top_k_table(evaluation())
    assert [row[1].partition(" ")[0] for row in table.rows[:3]] == ["25.0", "50.0", "+25.0"]
    assert table.rows[0][2] == table.rows[1][2]
    assert table.rows[-1] == ["RE-RAG large (paper, NQ)", "61.9", "79.4", "83.6", "86.4"]


def test_sets_without_an_answer_and_abstaining_on_them() -> None:
    """At 0.5 the estimator calls both sets without an answer and no other; accuracy on the rest
    stays.
    """
    sets = build_detection_table(evaluation(dataset="TQA"))
    assert [row[0] for row in sets.rows[2:4]] == [
        "estimator calibrated on dev, 0.5 to 0.9",
        "estimator, any log-odds",
    ]
    assert sets.rows[2][2:] == sets.rows[1][2:]
    assert [cell.partition(" ")[0] for cell in sets.rows[1]] == [
        "estimator,",
        "0.5",
        "100.0",
        "100.0",
        "100.0",
    ]
    assert [cell.partition(" ")[0] for cell in sets.rows[4]] == [
        "every",
        UNDEFINED,
        "100.0",
        "50.0",
        "66.7",
    ]
    assert sets.rows[-1][0] == "RE-RAG large (paper, TQA)"
    withheld = build_abstention_table(evaluation())
    assert [cell.partition(" ")[0] for cell in withheld.rows[1]] == [
        "estimator,",
        "0.5",
        "100.0",
        "100.0",
        "100.0",
    ]


def test_examples_and_calibration() -> None:
    """Extremes of each kind; without answers there is no risk to draw."""
    rows = build_examples_table(evaluation()).rows
    assert [row[1] for row in rows[6:]] == [
        "0.987",
        "0.994",
        "0.949",
        "0.147",
    ], "of the paper's table 3"
    assert len(build_examples_table(evaluation(dataset="TQA")).rows) == 6
    kinds = [row[0] for row in rows[:6]]
    assert (
        kinds
        == ["true, no answer string"] * 2
        + ["false, answer string there"] * 2
        + ["true, answer string there"] * 2
    )
    assert len(build_calibration_table(evaluation()).rows) == 7
    unanswered = [replace(one, em=None) for one in TEST]
    assert len(build_calibration_table(evaluation(unanswered)).rows) == 4
    assert (len(plots(TEST)), len(plots(unanswered))) == (3, 1)
    assert all(plot.render_svg().startswith("<svg") for plot in plots(TEST))


def test_accuracy_by_the_share_of_relevant_contexts() -> None:
    """By the estimator two sets have no relevant context of two and no right answer, two have one
    and are right.
    """
    rows = [
        [*row[:3], row[3].partition(" ")[0]]
        for row in build_share_table(evaluation()).rows
        if row[0] == "estimator"
    ]
    assert rows == [
        ["estimator", "0.0 to 0.2", "2", "0.0"],
        ["estimator", "0.4 to 0.6", "2", "100.0"],
    ]


def test_a_retriever_that_computes_cosines_has_the_paper_s_thresholds() -> None:
    """A row of its own from 0.5 to 0.9, and a context over 0.5 is relevant; other scores have
    quantiles alone.
    """

    def rescale(one: ScoredQuestion) -> ScoredQuestion:
        return replace(
            one, contexts=[replace(c, score=0.95 - 0.4 * n) for n, c in enumerate(one.contexts)]
        )

    cosines = [rescale(one) for one in TEST]
    e = Evaluation(cosines, cosines, 2, "NQ", 6)
    assert [row[0] for row in build_detection_table(e).rows[:2]] == [
        "retriever",
        "retriever, 0.5 to 0.9",
    ]
    assert build_detection_table(e).rows[1][1] == "0.5"
    shares = {row[0]: row[1] for row in build_share_table(e).rows}
    assert (
        shares["retriever, 0.5 to 0.9"] == "1.0 to 1.2"
        or shares["retriever, 0.5 to 0.9"] == "0.8 to 1.0"
    )
    assert "retriever, 0.5 to 0.9" not in {
        row[0] for row in build_detection_table(evaluation()).rows
    }
    assert build_detection_table(e).rows[-4][0].startswith("every set")
    hybrid = [
        replace(one, contexts=[replace(c, score=0.03 / n) for n, c in enumerate(one.contexts, 1)])
        for one in TEST
    ]
    rows = build_detection_table(Evaluation(hybrid, hybrid, 2, "NQ", 6)).rows
    assert "retriever, 0.5 to 0.9" not in {row[0] for row in rows}, (
        "reciprocal ranks are no cosines"
    )


def test_a_part_alone_can_be_shown() -> None:
    """In the paper's order; what needs answers is left out, or asked for, where there are none."""
    unanswered = [replace(one, em=None) for one in TEST]

    def titles(test: list[ScoredQuestion], *names: str) -> list[str]:
        e = evaluation(test)
        return [part.table(e).title.partition(" (")[0] for part in choose_parts(names or None, e)]

    assert len(titles(TEST)) == 6
    assert len(titles(unanswered)) == 4
    assert (
        titles(TEST, "figure4")
        == titles(TEST, "figure3", "figure4")
        == ["EM by the share of relevant contexts"]
    )
    half = [*TEST[:2], *unanswered[2:]]
    assert len(titles(half)) == 6
    shares = build_share_table(evaluation(half))
    assert sum(int(row[2]) for row in shares.rows if row[0] == "estimator") == 2
    assert (
        build_abstention_table(evaluation(half[:2])).rows
        == build_abstention_table(evaluation(half)).rows
    )
    assert titles(TEST, "table4", "table2") == [
        "Top-k accuracy before and after reranking, there called recall@k",
        "Sets without an answer",
    ]
    counts = [len(plots(TEST, name)) for name in ("figure3", "calibration", "table2")]
    assert counts == [1, 2, 0]
    with pytest.raises(
        ConfigError,
        match=r"show=\[table5\] needs answers, and the cell of these settings is missing",
    ):
        titles(unanswered, "table5")
    with pytest.raises(
        ConfigError,
        match=(
            r"evaluate_estimator\.show='table1' is unknown\. Choose from table2, .* Did you mean"
        ),
    ):
        titles(TEST, "table1")


def test_an_unknown_data_set_is_refused() -> None:
    """With those that the paper has."""
    assert load_paper_table("table8", "NQ")[1:] == ({"paper": [79168, 8757, 3610]}, "")
    assert "89.3" in load_paper_table("table2", "NQ")[2]
    assert "87.7" in load_paper_table("table2", "TQA")[2]
    with pytest.raises(
        ConfigError,
        match=(
            r"evaluate_estimator\.paper='nq' is not a data set of RE-RAG\. Choose one of NQ, TQA"
        ),
    ):
        load_paper_table("table2", "nq")


def test_ranks_beyond_the_scored_contexts_are_undefined() -> None:
    """Two contexts were scored: there is a top-1, and no top-5; of five contexts there is a top-5,
    and no top-10.
    """
    assert [row[2:] for row in build_top_k_table(evaluation()).rows[:3]] == [[UNDEFINED] * 3] * 3
    five = [
        scored(n, [float(rank) for rank in range(5)], [rank == n for rank in range(5)])
        for n in range(4)
    ]
    for row in build_top_k_table(evaluation([*five, *TEST])).rows[:3]:
        assert (row[2] == UNDEFINED, row[3:]) == (False, [UNDEFINED] * 2)


def test_sets_without_an_answer_are_counted_by_score() -> None:
    """The retriever's top 1 has an answer once, the estimator's twice, of four."""
    table = build_detection_table(replace(evaluation(), k=1))
    assert (
        "Of 4 sets have no answer: 3 of those of retriever; 2 of those of estimator, 0.5 to 0.9"
        in table.caption
    )


def test_a_question_without_contexts_has_no_relevant_one() -> None:
    """It is of the first fifth."""
    own = Evaluation(TEST, [scored(5, [], [], 1.0)], 2, "NQ", 6)
    assert {(fifth, *ems) for _, fifth, ems in own.group_by_share()} == {(0, 1.0)}
