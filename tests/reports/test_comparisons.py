"""Tables of paired comparisons."""

from dataclasses import replace

from winnow.predictions import RoleUsage
from winnow.reports.cells import CellResult
from winnow.reports.comparisons import build_comparison_tables
from winnow.reports.family import Family
from winnow.testing import make_cell_result


def test_each_table_varies_one_thing() -> None:
    """Strategy, k and placement; cells that differ in two of them are never compared."""
    cells = [
        make_cell_result("concatenation", 5, "gold_first", [1.0, 0.0, 1.0, 1.0]),
        make_cell_result("post_fusion", 5, "gold_first", [0.0, 1.0, 1.0, 1.0]),
        make_cell_result("concatenation", 10, "gold_first", [0.0, 0.0, 1.0, 1.0]),
        make_cell_result("concatenation", 5, "gold_last", [0.0, 0.0, 0.0, 1.0]),
    ]
    tables = build_comparison_tables(Family(cells, 0))
    assert [table.title.removeprefix("Differences between ") for table in tables] == [
        "strategies and settings", "k", "placements",
    ]  # fmt: skip
    assert [[row[:3] for row in table.rows] for table in tables] == [
        [["post_fusion", "concatenation", "k 5, gold_first"]],
        [["k 10", "k 5", "concatenation, gold_first"]],
        [["gold_last", "gold_first", "concatenation, k 5"]],
    ]
    assert tables[1].rows[0][3].startswith("-25.0 [")


def test_p_values_are_corrected_over_the_family() -> None:
    """Three strategies: the smallest of three p-values is multiplied by 3."""
    right = [1.0] * 12
    cells = [
        make_cell_result(name, 5, "g", ems)
        for name, ems in (("a", right), ("b", [0.0] * 9 + [1.0] * 3), ("c", [0.0, *right[1:]]))
    ]
    (table,) = build_comparison_tables(Family(cells, 0))
    p = {(row[0], row[1]): (row[4], row[5]) for row in table.rows}
    assert p["b", "a"] == ("0.004", "0.012")
    assert p["c", "a"] == ("1.000", "1.000")
    assert p["c", "b"] == ("0.008", "0.016")
    assert [row[5] for row in table.rows] == [
        "0.012",
        "0.016",
        "1.000",
    ], "the significant ones come first"
    assert table.num_shown == 2
    assert table.caption.startswith(
        "2 of 3 distinct differences are significant after Holm's correction."
    )
    assert {row[6] for row in table.rows} == {"12"}


def test_identical_answers_are_no_tests() -> None:
    """They stand in the caption, and do not count in the correction."""
    ems = [1.0] * 6 + [0.0] * 6
    other = [0.0] * 12
    cells = [
        make_cell_result("a", 5, "g", ems),
        make_cell_result("b", 5, "g", ems),
        make_cell_result("c", 5, "g", other),
    ]
    (table,) = build_comparison_tables(Family(cells, 0))
    assert "Identical answers, which are not compared: b = a (k 5, g)" in table.caption
    assert [(row[0], row[1], row[4], row[5]) for row in table.rows] == [
        ("c", "a", "0.031", "0.031"),
        ("c", "b", "0.031", "0.031"),
    ]
    only_equal = build_comparison_tables(Family(cells[:2], 0))
    assert [len(table.rows) for table in only_equal] == [0]


def test_cells_of_other_questions_are_not_compared() -> None:
    """Not even if the ids are equal."""
    first, second = (
        make_cell_result("a", 5, "g", [1.0, 0.0]),
        make_cell_result("b", 5, "g", [0.0, 1.0]),
    )
    moved = replace(second, labels=replace(second.labels, questions="other"))
    assert build_comparison_tables(Family([first, moved], 0)) == []


def test_a_table_without_a_pair_says_why() -> None:
    """Cells of equal answers are no tests, and no share of them is significant."""
    cells = [make_cell_result("a", k, "g", [1.0, 0.0]) for k in (1, 5)]
    (table,) = build_comparison_tables(Family(cells, 0))
    assert table.rows == []
    assert (
        table.caption
        == "No two cells that differ in this alone have different answers. Identical answers, "
        "which are not compared: k 5 = k 1 (a, g)."
    )


def test_equal_answers_with_other_values_are_compared() -> None:
    """Such as replies whose citations differ, or answers of other cost."""
    cells = [make_cell_result(name, 5, "g", [1.0] * 8) for name in "ab"]
    dear = [
        replace(
            sample,
            prediction=replace(sample.prediction, usage=(RoleUsage("reader", 1, 900, 2, 0.5),)),
        )
        for sample in cells[1].samples
    ]
    tokens = [metric for metric in cells[0].metrics if metric.name == "tokens_in"]
    cells = [replace(cells[0], metrics=tokens), replace(cells[1], samples=dear, metrics=tokens)]
    (table,) = build_comparison_tables(Family(cells, 0))
    assert len(table.rows) == 1
    assert table.rows[0][3].startswith("+796.5 [")
    assert "Identical" not in table.caption


def test_settings_that_were_varied_independently_are_compared_one_by_one() -> None:
    """Of two retrievers by two prompts, four pairs; a reader and its training, which change
    together, are one setting.
    """

    def build(settings: tuple[tuple[str, str], ...], ems: list[float]) -> CellResult:
        cell = make_cell_result("concatenation", 5, "retrieved", ems)
        return replace(
            cell,
            labels=replace(
                cell.labels, setting=", ".join(map("=".join, settings)), varying=settings
            ),
        )

    ems = ([1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0])
    grid = [
        (("retriever", retriever), ("prompt", prompt))
        for retriever in ("bm25", "dense")
        for prompt in ("a", "b")
    ]
    (table,) = build_comparison_tables(
        Family([build(*pair) for pair in zip(grid, ems, strict=True)], 0)
    )
    assert sorted((row[0][15:-1], row[1][15:-1]) for row in table.rows) == [
        ("retriever=bm25, prompt=b", "retriever=bm25, prompt=a"),
        ("retriever=dense, prompt=a", "retriever=bm25, prompt=a"),
        ("retriever=dense, prompt=b", "retriever=bm25, prompt=b"),
        ("retriever=dense, prompt=b", "retriever=dense, prompt=a"),
    ]
    mixed = [build(grid[0], ems[0]), build(grid[3], ems[3]), build(grid[1], ems[1])]
    mixed[2] = replace(mixed[2], labels=replace(mixed[2].labels, k=10))
    others = [
        table for table in build_comparison_tables(Family(mixed, 0)) if "strategies" in table.title
    ]
    assert len(others[0].rows) == 1, "the cell between them is one of another k"
    mixed[2] = replace(mixed[2], labels=replace(mixed[2].labels, k=5, questions="others"))
    assert len(build_comparison_tables(Family(mixed, 0))[0].rows) == 1, "or of other questions"
    joint = [
        (("reader", "base"), ("training", "none")),
        (("reader", "tuned"), ("training", "sft")),
    ]
    (table,) = build_comparison_tables(
        Family([build(*pair) for pair in zip(joint, ems, strict=False)], 0)
    )
    assert len(table.rows) == 1


def test_copies_of_a_result_are_said() -> None:
    """At k = 1 the gold passage is first and last at once: two significant differences are one
    result.
    """
    right, wrong = [1.0] * 12, [0.0] * 12
    placements = (("gold_first", right), ("gold_last", right), ("retrieved", wrong))
    (table,) = build_comparison_tables(
        Family([make_cell_result("a", 1, gold, ems) for gold, ems in placements], 0)
    )
    assert table.caption.startswith(
        "1 of 1 distinct differences is significant after Holm's correction; 1 more of the rows "
        "compare the same answers as another row."
    )
