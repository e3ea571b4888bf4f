"""The report: tables, plots, one page without network; opened in a real browser."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, compare_cells
from winnow.reports.comparisons import build_comparison_tables
from winnow.reports.family import Family
from winnow.reports.report import Report, build_report, draw_plots
from winnow.reports.tables import TableView, build_breakdown_table, build_metrics_table
from winnow.testing import make_cell_result

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


CELLS = [make_cell_result("closed_book", 0, "none", [0, 0, 0, 1])] + [
    make_cell_result(strategy, k, gold, [0, 1, float(strategy == "post_fusion"), 1])
    for strategy in ("concatenation", "post_fusion")
    for k in (1, 5)
    for gold in ("retrieved", "gold_first")
]


def _labeled(cell: CellResult, **labels: str) -> CellResult:
    return replace(cell, labels=replace(cell.labels, **labels))


def _tables(cells: Sequence[CellResult]) -> Sequence[TableView]:
    return build_report("t", Family(cells, 0), {}).tables


def drawn() -> Report:
    """The report of the cells above."""
    family = Family(CELLS, 0)
    return replace(
        build_report("Winnow: <test>", family, {"Data": "made up", "Code": "rev & co"}),
        plots=draw_plots(family),
    )


def test_tables_hold_every_cell_with_intervals() -> None:
    """One row per cell; the second table has the questions with a gold passage only; comparisons
    are paired.
    """
    images = drawn()
    matrix, against, *equal, best, every, gold = images.tables
    assert len(every.rows) == len(gold.rows) == len(CELLS)
    assert every.rows[0][:3] == ["closed_book", "0", "none"]
    assert matrix.columns == [
        "strategy",
        "k 0, none",
        "k 1, retrieved",
        "k 1, gold_first",
        "k 5, retrieved",
        "k 5, gold_first",
    ]
    assert [row[2][:4] for row in matrix.rows] == ["", "50.0", "75.0"]
    assert re.fullmatch(r"50\.0 \[15\.0, 85\.0\]", every.rows[1][3])
    assert "2 of 4 questions" in gold.caption
    shares = {row[0]: row[every.columns.index("%NM")] for row in every.rows}
    assert shares == {
        "closed_book": UNDEFINED,
        "concatenation": UNDEFINED,
        "post_fusion": "0.0 [0.0, 49.0]",
    }
    assert [row[:2] for row in against.rows] == [["post_fusion", "concatenation"]] * 4
    assert [row[3].split()[0] for row in against.rows] == ["+25.0"] * 4
    assert [len(table.rows) for table in equal] == [0, 0]
    assert equal[0].caption.count(" = ") == 4
    assert best.caption.startswith(
        "A is post_fusion k=1 retrieved, which has the highest EM of the cells whose"
    )


def test_pairs_match_by_question_not_by_row() -> None:
    """The same answers in another order make no difference."""
    first, second = CELLS[1], CELLS[1]
    turned = replace(second, samples=list(reversed(second.samples)))
    assert compare_cells(first, turned, "em", 0).difference == 0
    assert build_comparison_tables(Family([CELLS[0]], 0)) == []
    assert (
        "Differences between"
        not in build_report("title", Family([CELLS[0]], 0), {}).render_markdown()
    )
    assert build_metrics_table("t", "o", CELLS[:1], 0).columns[:3] == ["strategy", "k", "gold"]


def test_settings_of_one_strategy_are_compared_too() -> None:
    """Both settings of a strategy, and both strategies of a setting; what differs in two ways is no
    pair.
    """
    cells = [
        _labeled(make_cell_result(strategy, 5, "gold_first", ems), setting=setting)
        for strategy, ems in (("a", [0, 0, 1]), ("b", [1, 1, 1]))
        for setting in ("ranked by=retriever", "ranked by=estimator")
    ]
    (table,) = build_comparison_tables(Family(cells, 0))
    assert [row[:2] for row in table.rows] == [
        ["b (ranked by=retriever)", "a (ranked by=retriever)"],
        ["b (ranked by=estimator)", "a (ranked by=estimator)"],
    ]
    assert [row[3].split()[0] for row in table.rows] == ["+66.7", "+66.7"]
    assert "a (ranked by=estimator) = a (ranked by=retriever)" in table.caption
    assert "b (ranked by=estimator) = b (ranked by=retriever)" in table.caption
    assert (
        build_comparison_tables(
            Family([cells[0], _labeled(cells[1], questions="another split")], 0)
        )
        == []
    )
    other = [
        replace(one, question=replace(one.question, question_id=f"other {n}"))
        for n, one in enumerate(cells[1].samples)
    ]
    assert build_comparison_tables(Family([cells[0], replace(cells[1], samples=other)], 0)) == []


def test_a_breakdown_has_a_column_per_group() -> None:
    """The largest first; each cell says over how many of its questions, and a group without any has
    no number.
    """
    cells = [
        replace(CELLS[1], groups=["a", "b", "b", "b"]),
        replace(CELLS[2], groups=["b", "b", "b", "b"]),
    ]
    table = build_breakdown_table(cells, "topic", 0)
    assert (table.title, table.columns[3:]) == ("EM by topic", ["b", "a"])
    assert [(row[3].partition(" ")[0], row[3][-3:]) for row in table.rows] == [
        ("66.7", "(3)"),
        ("50.0", "(4)"),
    ]
    assert table.rows[1][4] == f"{UNDEFINED} (0)"


def test_markdown_has_the_same_tables() -> None:
    """Each table with its rows, and what made them."""
    text = drawn().render_markdown()
    assert (
        text.count("| concatenation |") == 4 + 4 + 1
    )  # all questions, those with a gold passage, and the matrix
    assert "| post_fusion | k 1, retrieved |" in text
    assert "B concatenation" in text
    assert "- Data: made up" in text


def test_a_row_of_markdown_is_one_line() -> None:
    """Whatever lines its texts have."""
    report = replace(drawn(), tables=[TableView("T", "c.", ["text"], [["one\n\ntwo | three"]])])
    assert "| one two \\| three |" in report.render_markdown().splitlines()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_browser_shows_it_without_errors_or_network(tmp_path: Path) -> None:
    """Tables and plots are there, the console is quiet, and no address beyond the file is asked
    for.
    """
    page, net = tmp_path / "report.html", tmp_path / "net.json"
    page.write_text(drawn().render_html(), encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += [
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            *flags,
            "--enable-logging=stderr",
            f"--log-net-log={net}",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.count("<table") == 5
    assert done.stdout.count("<svg") == 10
    assert "Winnow: &lt;test&gt;" in done.stdout
    assert "<details><summary>4 rows</summary>" in done.stdout.replace("\n", "")
    assert "CONSOLE" not in done.stderr
    urls = {
        e.get("params", {}).get("url", "")
        for e in json.loads(net.read_text())["events"]
        if e.get("params")
    }
    assert {url for url in urls if url.startswith("http") and "google" not in url} == set()


def test_closed_book_questions_have_the_gold_passages_of_their_selection() -> None:
    """Any cell with passages and the same questions says so; a question of another data set with
    the same id does not.
    """

    def build(strategy: str, k: int, gold: set[int], questions: str) -> CellResult:
        cell = make_cell_result(strategy, k, "g", [0.0, 1.0, 1.0, 0.0])
        samples = [
            replace(
                sample,
                prediction=replace(
                    sample.prediction, provenance="distant" if n in gold else "none"
                ),
            )
            for n, sample in enumerate(cell.samples)
        ]
        return _labeled(replace(cell, samples=samples), questions=questions)

    cells = [
        build("closed_book", 0, set(), "nq"),
        build("concatenation", 5, {0, 1}, "nq"),
        build("post_fusion", 5, {1, 2}, "nq"),
        build("closed_book", 0, set(), "other"),
        build("concatenation", 5, {3}, "other"),
    ]
    (gold,) = [
        table
        for table in build_report("t", Family(cells, 0), {}).tables
        if table.title == "Questions with a gold passage"
    ]
    assert gold.caption.startswith("1 to 3 of 4 questions")
    column = gold.columns.index("EM")
    assert [row[column].split()[0] for row in gold.rows] == ["66.7", "50.0", "100.0", "0.0", "0.0"]
    assert [row[gold.columns.index("questions")] for row in gold.rows] == ["3", "2", "2", "1", "1"]
    assert "The rows are over different questions" in gold.caption
    none_in_the_first = [
        build("concatenation", 5, set(), "nq"),
        build("post_fusion", 5, {1, 2}, "nq"),
    ]
    (gold,) = [
        table
        for table in build_report("t", Family(none_in_the_first, 0), {}).tables
        if table.title == "Questions with a gold passage"
    ]
    assert gold.caption.startswith("0 to 2 of 4 questions")
    assert [row[gold.columns.index("EM")] for row in gold.rows] == [
        UNDEFINED,
        "100.0 [34.2, 100.0]",
    ]
    titles = [table.title for table in _tables(cells[:1])]
    assert "Questions with a gold passage" not in titles


def test_the_figure_over_positions_says_which_questions_it_is_over() -> None:
    """Those with a gold passage, unless there is none."""
    cells = [
        make_cell_result(strategy, 5, gold, [0, 1, 1, 1])
        for strategy in ("concatenation", "post_fusion")
        for gold in ("retrieved", "gold_first")
    ]
    without = [cell.select_questions({"q0", "q2"}) for cell in cells]
    for chosen, words in ((cells, "(2 questions with a gold passage)"), (without, "(2 questions)")):
        plots = [plot for plot in draw_plots(Family(chosen, 0)) if "position" in plot.slug]
        assert plots
        assert all(any(words in column for column in plot.columns) for plot in plots)


def test_cells_without_passages_count_among_the_others_unless_questions_were_filtered() -> None:
    """A filter by answers without passages makes theirs low."""
    cells = [make_cell_result("closed_book", 0, "none", [0.0] * 40)] + [
        make_cell_result(strategy, 5, "retrieved", [float(n < right) for n in range(40)])
        for strategy, right in (("concatenation", 20), ("post_fusion", 38))
    ]
    counts: tuple[tuple[Sequence[tuple[int, int]], int], ...] = (((), 2), ([(40, 30)], 1))
    for filtered, others in counts:
        tables = build_report("t", Family(cells, 0), {}, filtered=filtered).tables
        assert sum(f"Of the {others} others" in table.caption for table in tables) == 1
