"""The estimator's page: every table by hand, and what the paper states."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.reports.judgement import (
    Judged,
    plots,
    recall_table,
    refusal_table,
    sample_table,
    set_table,
    share_table,
    stated,
    tables,
    trust_table,
)
from winnow.testing import context, question


def judged(number: int, odds: list[float], answers: list[bool], em: float | None = None) -> Judged:
    """A question whose contexts, in the retriever's order, have these log-odds and answers."""
    contexts = [
        replace(context(n, f"text {n}", has_answer=flag), log_odds=value, score=10.0 - n)
        for n, (value, flag) in enumerate(zip(odds, answers, strict=True), start=1)
    ]
    return Judged(question(question_id=f"q{number}"), contexts, em)


TEST = [
    judged(1, [-2.0, 2.0], [False, True], 1.0),
    judged(2, [-3.0, -2.0], [False, False], 0.0),
    judged(3, [3.0, -1.0], [True, False], 1.0),
    judged(4, [-2.5, -2.5], [False, False], 0.0),
]


def test_recall_of_both_rankings() -> None:
    """The retriever finds one of four at 1, the estimator two; at 5 both find two."""
    table = recall_table(TEST, "NQ", 0)
    assert [row[1].partition(" ")[0] for row in table.rows[:3]] == ["25.0", "50.0", "+25.0"]
    assert table.rows[0][2] == table.rows[1][2]
    assert table.rows[-1] == ["RE-RAG large (paper, NQ)", "61.9", "79.4", "83.6", "86.4"]


def test_sets_without_an_answer_and_their_refusal() -> None:
    """At 0.5 the estimator calls both sets without an answer and no other; accuracy on the rest stays."""
    sets = set_table(TEST, TEST, 2, "TQA", 0)
    assert [row[0] for row in sets.rows[2:4]] == ["estimator calibrated on dev, 0.5 to 0.9", "estimator, any log-odds"]
    assert sets.rows[2][2:] == sets.rows[1][2:]
    assert [cell.partition(" ")[0] for cell in sets.rows[1]] == ["estimator,", "0.5", "100.0", "100.0", "100.0"]
    assert [cell.partition(" ")[0] for cell in sets.rows[4]] == ["every", "-", "100.0", "50.0", "66.7"]
    assert sets.rows[-1][0] == "RE-RAG large (paper, TQA)"
    refused = refusal_table(TEST, TEST, 2, "NQ", 0)
    assert [cell.partition(" ")[0] for cell in refused.rows[1]] == ["estimator,", "0.5", "100.0", "100.0", "100.0"]


def test_samples_and_trust() -> None:
    """Extremes of each kind; without answers there is no risk to draw."""
    kinds = [row[0] for row in sample_table(TEST, 6).rows]
    assert kinds == ["true, no answer string"] * 2 + ["false, answer string there"] * 2 + ["true, answer string there"] * 2
    assert len(trust_table(TEST, TEST, 2).rows) == 7
    unanswered = [replace(one, em=None) for one in TEST]
    assert len(trust_table(TEST, unanswered, 2).rows) == 4
    assert (len(plots(TEST, TEST, 2, 0)), len(plots(TEST, unanswered, 2, 0))) == (3, 1)
    assert all(svg.startswith("<svg") for svg in plots(TEST, TEST, 2, 0))


def test_accuracy_by_the_share_of_relevant_contexts() -> None:
    """By the estimator two sets have no relevant context of two and no right answer, two have one and are right."""
    rows = [[*row[:3], row[3].partition(" ")[0]] for row in share_table(TEST, TEST, 2, 0).rows if row[0] == "estimator"]
    assert rows == [["estimator", "0.0 to 0.2", "2", "0.0"], ["estimator", "0.4 to 0.6", "2", "100.0"]]


def test_a_part_alone_can_be_shown() -> None:
    """In the paper's order; what needs answers is left out, or asked for, where there are none."""
    unanswered = [replace(one, em=None) for one in TEST]

    def titles(test: list[Judged], *show: str) -> list[str]:
        return [t.title.partition(" (")[0] for t in tables(TEST, test, 2, "NQ", 3, 0, *([show] if show else []))]

    assert len(titles(TEST)) == 6
    assert len(titles(unanswered)) == 4
    assert titles(TEST, "figure4") == titles(TEST, "figure3", "figure4") == ["EM by the share of relevant contexts"]
    half = [*TEST[:2], *unanswered[2:]]
    assert len(titles(half)) == 6
    (shares,) = tables(TEST, half, 2, "NQ", 3, 0, ["figure3"])
    assert sum(int(row[2]) for row in shares.rows if row[0] == "estimator") == 2
    assert refusal_table(TEST, half[:2], 2, "NQ", 0).rows == tables(TEST, half, 2, "NQ", 3, 0, ["table5"])[0].rows
    assert titles(TEST, "table4", "table2") == ["Recall@k before and after reranking", "Sets without an answer"]
    assert (
        len(plots(TEST, TEST, 2, 0, ["figure3"])),
        len(plots(TEST, TEST, 2, 0, ["trust"])),
        plots(TEST, TEST, 2, 0, ["table2"]),
    ) == (
        1,
        2,
        [],
    )
    with pytest.raises(ConfigError, match=r"show=\[table5\] needs answers, and the cell of these settings is not there"):
        titles(unanswered, "table5")
    with pytest.raises(ConfigError, match=r"judgement\.show='table1': there are table2, .* Did you mean"):
        titles(TEST, "table1")


def test_an_unknown_data_set_is_refused() -> None:
    """With those that the paper has."""
    assert stated("table8", "NQ")[1] == {"paper": [79168, 8757, 3610]}
    with pytest.raises(ConfigError, match=r"judgement\.paper='nq': RE-RAG has NQ, TQA"):
        stated("table2", "nq")
