"""Our cells beside what a paper states."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.correctness import F1, ExactMatch
from winnow.metrics.intervals import UNDEFINED
from winnow.metrics.judged import JudgedAccuracy
from winnow.reports.cells import CellResult, compare_cells
from winnow.reports.paper import NOT_REPORTED, compare_with_paper
from winnow.reports.reported import load_paper_part
from winnow.testing import make_cell_result as plain_cell


def cell_result(strategy: str, k: int, gold: str, ems: Sequence[float]) -> CellResult:
    """A cell that also has F1, which is in no column of its own tables."""
    return replace(plain_cell(strategy, k, gold, ems), hidden=[F1("f1", "F1")])


def _labeled(cell: CellResult, questions: str) -> CellResult:
    return replace(cell, labels=replace(cell.labels, questions=questions))


def test_a_table_of_the_paper_is_read_as_it_stands() -> None:
    """Table 1, NQ, ChatGPT, Post-Fusion: 40.1, 50.4, 7.4, 12.0; concatenation has no %NM."""
    part = load_paper_part("post_fusion", "table1", "NQ", "ChatGPT")
    assert [s.low for s in part.reported if s.where["strategy"] == "post_fusion"] == [
        40.1,
        50.4,
        7.4,
        12.0,
    ]
    assert [s.format() for s in part.reported if s.where["strategy"] == "concatenation"] == [
        "38.1",
        "45.4",
        "19.9",
        UNDEFINED,
    ]
    assert len(part.reported) == 6 * 4
    assert part.gold_only
    assert part.questions == [5892, 3459]
    assert load_paper_part("post_fusion", "table2", "SQuAD", "GPT4").other_systems == {
        "Supervised": [35.8]
    }


@pytest.mark.parametrize(
    "name", ["table1", "table2", "figure1", "figure3", "figure4", "figure5", "figure6"]
)
def test_every_part_loads(name: str) -> None:
    """Each has something to stand beside ours."""
    part = load_paper_part("post_fusion", name, "NQ", "ChatGPT")
    assert part.reported or part.differences


@pytest.mark.parametrize("name", ["figure4", "figure5"])
def test_what_a_figure_says_of_one_data_set_is_not_beside_another(name: str) -> None:
    """Sections 4.3 and 4.4 speak of NQ alone, and figure 5 of ChatGPT."""
    assert load_paper_part("post_fusion", name, "NQ", "ChatGPT").differences
    assert not load_paper_part("post_fusion", name, "TriviaQA", "ChatGPT").differences
    assert not load_paper_part("post_fusion", "figure5", "NQ", "Llama2").differences


def test_ours_beside_the_paper() -> None:
    """EM 50 against 40.1 is +9.9; a cell that the paper has not, and a value it does not give, are
    not reported.
    """
    cells = [
        cell_result(s, k, "gold_inserted", [1.0, 0.0])
        for s, k in (("post_fusion", 5), ("post_fusion", 7))
    ]
    part = load_paper_part("post_fusion", "table1", "NQ", "ChatGPT")
    values, differences, counts = compare_with_paper(part, cells, 0, [(150, 147), (150, 140)])[0]
    assert {row[3] for row in differences.rows} == {"not run"}
    first, second = values.rows
    assert first[:4] == ["post_fusion", "5", "gold_inserted", "1"]
    assert first[4] == "50.0 [9.5, 90.5]"
    assert first[5:8] == ["40.1", "+9.9", "yes"]
    assert second[5:8] == [NOT_REPORTED, UNDEFINED, UNDEFINED]
    many = compare_with_paper(
        part, [cell_result("post_fusion", 5, "gold_inserted", [1.0] * 40)], 0, ()
    )[0][0].rows[0]
    assert many[4:8] == ["100.0 [91.2, 100.0]", "40.1", "+59.9", "no"]
    voteless = compare_with_paper(
        part, [cell_result("concatenation", 5, "gold_inserted", [1.0])], 0, ()
    )[0][0].rows[0]
    few = compare_with_paper(
        part, [cell_result("post_fusion", 5, "gold_inserted", [0.0] * 40)], 0, ()
    )[0][0].rows[0]
    assert few[4:8] == ["0.0 [0.0, 8.8]", "40.1", "-40.1", "no"]
    assert voteless[-4:] == [UNDEFINED] * 4
    assert {"EM ours", "EM paper", "EM diff."} < {*values.subject}
    assert counts.rows == [
        ["ours", "150", "147"],
        ["ours", "150", "140"],
        ["paper", "5892", "3459"],
    ]


def test_a_range_is_met_anywhere_within() -> None:
    """Figure 1 states 2 to 7 % unknown for Post-Fusion: 50 % is 43 over its end."""
    cell = cell_result("post_fusion", 10, "gold_inserted", [1.0, 0.0])
    row = compare_with_paper(load_paper_part("post_fusion", "figure1", "NQ", ""), [cell], 0, ())[0][
        0
    ].rows[0]
    assert row[5:7] == ["2 to 7", "+43.0"]
    part = load_paper_part("post_fusion", "figure1", "NQ", "")
    for num_unknown, is_inside in (
        (2, "yes"),
        (20, "yes"),
        (40, "no"),
    ):  # 0.3 to 3.6, 6.6 to 14.9, 15.0 to 26.1
        cell = cell_result(
            "post_fusion", 10, "gold_inserted", [0.0] * num_unknown + [1.0] * (200 - num_unknown)
        )
        assert compare_with_paper(part, [cell], 0, ())[0][0].rows[0][7] == is_inside


def test_differences_are_paired_and_say_what_was_not_run() -> None:
    """Table 2's others stand in a row of their own; a contrast without its cells is named."""
    cells = [
        cell_result("concat_pf", k, "retrieved", ems)
        for k, ems in ((5, [0.0, 0.0, 1.0]), (20, [1.0, 0.0, 1.0]))
    ]
    _, contrasts = compare_with_paper(
        load_paper_part("post_fusion", "figure4", "NQ", "ChatGPT"), cells, 0, ()
    )[0]
    assert contrasts.rows[0][:3] == ["EM", "concat_pf, k 20", "concat_pf, k 5"]
    assert contrasts.rows[0][3].startswith("+33.3 [-")
    assert contrasts.rows[0][4:9] == ["1.000", "1.000", "3", "+1.5", "11,628"]
    assert contrasts.rows[1][3] == "not run"
    mixed = [_labeled(cells[0], "dev"), *(_labeled(cell, "test") for cell in cells)]
    _, contrasts = compare_with_paper(
        load_paper_part("post_fusion", "figure4", "NQ", "ChatGPT"), mixed, 0, ()
    )[0]
    assert contrasts.rows[0][3].startswith("+33.3 [")
    _, contrasts = compare_with_paper(
        load_paper_part("post_fusion", "figure4", "NQ", "ChatGPT"), [mixed[0], mixed[2]], 0, ()
    )[0]
    assert contrasts.rows[0][3] == "not run"
    table = compare_with_paper(
        load_paper_part("post_fusion", "table2", "NQ", "GPT4"), cells, 0, ()
    )[0][0]
    assert table.rows[-1][0] == "Supervised (in the paper alone)"
    assert table.rows[-1][5] == "40.9"
    tokens = compare_cells(cells[1], cells[0], "tokens", 0)
    assert tokens.difference == 0.0


def test_a_table_s_values_make_differences_from_its_first_strategy() -> None:
    """Table 1, NQ, ChatGPT: Concat+PF 42.9 and concatenation 38.1 differ by 4.8; equal values make
    none.
    """
    part = load_paper_part("post_fusion", "table1", "NQ", "ChatGPT")
    values = {row.of["strategy"]: row.value for row in part.differences}
    assert values == {
        "post_fusion": 2.0,
        "pruning": 0.9,
        "summary": 2.4,
        "concat_pf": 4.8,
        "pf_concat": 5.1,
    }
    assert {row.less["strategy"] for row in part.differences} == {"concatenation"}
    assert load_paper_part("re_rag", "table1", "NQ", "base").differences == []
    ems = [float(n % 2) for n in range(12)]
    cells = [
        cell_result("concatenation", 5, "gold_inserted", ems),
        cell_result("concat_pf", 5, "gold_inserted", [1.0] * 12),
    ]
    (note,) = compare_with_paper(part, cells, 0, ())[1]
    assert note.startswith("Too few questions: 12 cannot show 1 of the 1 differences")


def test_differences_may_be_given_by_data_set() -> None:
    """RE-RAG's table 6: 6.4 on NQ, 2.8 on TriviaQA."""
    assert [
        load_paper_part("re_rag", "table6", name, "").differences[0].value for name in ("NQ", "TQA")
    ] == [6.4, 2.8]


def test_unknown_names_are_refused_with_the_nearest() -> None:
    """Paper, part, data set and model."""
    right = ("post_fusion", "table1", "NQ", "GPT4")
    for at, wrong in enumerate(("post_fusoin", "tabel1", "nq", "GPT-4")):
        words = [wrong if n == at else word for n, word in enumerate(right)]
        with pytest.raises(ConfigError, match=f"{wrong}.*Choose one of .*{right[at]}"):
            load_paper_part(*words)


def test_too_few_questions_for_the_papers_effect_are_said_above() -> None:
    """Figure 4 states +1.5 EM from k 5 to 20: with a third of the questions differing it takes
    2.8016² / 3 / .015².
    """
    part = load_paper_part("post_fusion", "figure4", "NQ", "ChatGPT")
    cells = [
        cell_result("concat_pf", k, "retrieved", ems)
        for k, ems in ((5, [0.0, 0.0, 1.0]), (20, [1.0, 0.0, 1.0]))
    ]
    (note,) = compare_with_paper(part, cells, 0, ())[1]
    assert "3 cannot show 1 of the 1 differences" in note
    assert (
        "EM of concat_pf, k 20 against concat_pf, k 5 (+1.5) would need 11,628 questions." in note
    )
    assert compare_with_paper(part, cells[:1], 0, ())[1] == []
    assert (
        compare_with_paper(load_paper_part("post_fusion", "table1", "NQ", "GPT4"), cells, 0, ())[1]
        == []
    )


@pytest.mark.parametrize(
    ("task", "metric"),
    [("PopQA", "em_crag"), ("Biography", "factscore"), ("ARC-Challenge", "choice_crag")],
)
def test_table_1_of_crag_has_a_metric_per_task(task: str, metric: str) -> None:
    """Each with the values of both readers and of other systems; a dash there is no value."""
    part = load_paper_part("crag", "table1", task, "SelfRAG-LLaMA2-7b")
    assert part.metrics == [metric]
    assert {value.metric for value in part.reported} == {metric}
    assert ("Perplexity.ai" in part.other_systems) == (task == "Biography")
    assert (
        part.other_systems["SAIL"] == [48.4]
        if task == "ARC-Challenge"
        else "SAIL" not in part.other_systems
    )
    assert len(part.flags) == (task == "PopQA")


def test_a_varied_strategy_is_compared_with_the_one_that_it_varies() -> None:
    """Self-CRAG without an action with Self-CRAG (61.8 against 59.6), and Self-CRAG itself with
    CRAG.
    """
    part = load_paper_part("crag", "table2", "PopQA", "SelfRAG-LLaMA2-7b")
    pairs = {d.of["strategy"]: (d.less["strategy"], d.value) for d in part.differences}
    assert pairs["self_crag_without_correct"] == ("self_crag", -2.2)
    assert pairs["self_crag"] == ("crag", 2.5)
    assert pairs["crag_without_correct"] == ("crag", -1.2)


def test_a_stated_difference_replaces_the_one_computed_from_the_table() -> None:
    """Otherwise it would count twice in Holm's correction."""
    part = load_paper_part("post_fusion", "table2", "NQ", "ChatGPT")
    pairs = [(one.metric, str(one.of), str(one.less)) for one in part.differences]
    assert len(pairs) == len(set(pairs))
    assert any("15.6 %" in one.note and one.value == 5.4 for one in part.differences)
    assert not any(
        "15.6 %" in one.note
        for one in load_paper_part("post_fusion", "table2", "NQ", "GPT4").differences
    )


def test_a_model_s_value_stands_beside_its_own_reader_alone() -> None:
    """Not beside readers or trainings that vary, another number of documents, or a reader that is
    none of the paper's.
    """
    part = load_paper_part("rage", "table1", "NQ", "Mistral 7B")
    cell = plain_cell("cite", 9, "g", [1.0, 0.0])
    cell = replace(cell, metrics=[ExactMatch(name, name) for name in part.metrics])
    others = [
        replace(cell, labels=replace(cell.labels, varying=(("reader.base", "/models/x"),))),
        replace(cell, labels=replace(cell.labels, varying=(("training", "cite_rewarded"),))),
        replace(cell, labels=replace(cell.labels, k=5)),
    ]
    tables, _ = compare_with_paper(part, [cell, *others], 0, ())
    column = tables[0].columns.index("citation_f1 paper")
    assert [row[column] for row in tables[0].rows[:4]] == ["61", *["not reported"] * 3]
    assert len(tables) == 1, "the paper's difference is of one model, too"
    assert len(compare_with_paper(part, [cell], 0, ())[0]) == 2
    none = load_paper_part("rage", "table1", "NQ", "")
    assert none.reported == []
    assert "Mistral 7B" in none.other_systems


def test_a_value_of_some_questions_says_of_how_many() -> None:
    """Next to the paper's, as in the other tables."""
    metric = JudgedAccuracy("j", "judged", template="{question} {answers} {answer}")
    cell = replace(
        plain_cell("post_fusion", 5, "gold_inserted", [1.0] * 4),
        metrics=(metric,),
        judged={"j": [{"j": 1.0}] * 2 + [None] * 2},
    )
    part = replace(
        load_paper_part("post_fusion", "table1", "NQ", "ChatGPT"), metrics=["j"], differences=[]
    )
    (values, *_), _ = compare_with_paper(part, [cell], 0, ())
    assert any(text.endswith("(n 2)") for text in values.rows[0])


@pytest.mark.parametrize("name", ["dataset", "dataset.parser.path", "split"])
def test_cells_of_several_data_sets_have_no_counterpart(name: str) -> None:
    """The paper's values are of one data set, which no label of a cell says."""
    cells = [
        replace(cell, labels=replace(cell.labels, varying=((name, value),), questions=value))
        for value in ("nq", "triviaqa")
        for cell in (
            cell_result("concatenation", 5, "retrieved", [1.0, 0.0]),
            cell_result("post_fusion", 5, "retrieved", [1.0, 1.0]),
        )
    ]
    part = load_paper_part("post_fusion", "table2", "NQ", "ChatGPT")
    tables, notes = compare_with_paper(part, cells, 0, ())
    assert [table.title for table in tables] == [f"Beside the paper: {part.source}"]
    ours = [row for row in tables[0].rows if "in the paper alone" not in row[0]]
    assert len(ours) == 4
    assert all(row[5:8] == [NOT_REPORTED, UNDEFINED, UNDEFINED] for row in ours)
    assert notes == []
