"""The charts of the page: what is drawn, left out, named and printed, in a real browser."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.reports.page.page_browser import (
    CELLS,
    CHROMIUM,
    CLOSED,
    A,
    B,
    Open,
    at_positions,
    build_page,
    count_marks,
    needs_chromium,
    open_page,
    read_text,
    run_script,
)
from winnow.reports.plots import COLORS
from winnow.testing import make_cell_result


@needs_chromium
def test_charts_are_chosen_by_the_address(page: Open) -> None:
    """Each kind; a metric of another unit; cells that are held fixed are not drawn."""
    assert count_marks(page(view="explore"), "point") == 2
    lines = page(view="explore", kind="lines", metric="tokens", x="strategy", facet="-")
    assert count_marks(lines, "point") == 2
    assert "tokens: 104.5" in lines
    differences = page(view="explore", kind="difference", baseline=B)
    assert count_marks(differences, "point") == 2
    assert f"EM, %: difference to {B.replace(' k=5 ', ' on five passages ')}" in differences
    assert "+33.3 [−45.3, +85.0], p = 1.000 corrected for 3 pairs" in differences
    matrix = page(view="explore", kind="matrix")
    assert count_marks(matrix, "rect mark") == 3
    assert ">66.7<" in matrix
    costs = page(view="explore", kind="cost", cost="tokens_in")
    assert "tokens in, mean of the questions: 102.5" in costs
    assert count_marks(page(view="explore", kind="cost"), "area mark") == 1
    assert count_marks(costs, "area mark") == 0, "another cost than that of the report has no band"
    held = page(view="explore", **{"only strategy": "post_fusion"})
    assert count_marks(held, "point") == 1
    assert read_text(page(view="explore", metric="nm_pool")).count("undefined") == 0


@needs_chromium
def test_what_a_chart_leaves_out_is_counted(tmp_path: Path) -> None:
    """Cells without a value, and cells of other questions than the baseline's; an agent is no cell
    without passages.
    """
    other = replace(CELLS[1], labels=replace(CELLS[1].labels, questions="another selection"))
    agent = make_cell_result("react", 0, "none", [1, 0, 0, 0, 0, 0])
    agent = replace(agent, labels=replace(agent.labels, placed="on passages of its own searches"))
    (tmp_path / "index.html").write_text(
        build_page([CELLS[0], other, agent]).render(), encoding="utf-8"
    )
    differences = read_text(
        open_page(tmp_path / "index.html", view="explore", kind="difference", baseline=A)
    )
    assert "1 cell not compared with the baseline" in differences
    undefined = read_text(open_page(tmp_path / "index.html", view="explore", metric="nm_pool"))
    assert "2 cells without a value of %NM of pools." in undefined
    answer = open_page(tmp_path / "index.html")
    assert "dashed: without passages" not in answer
    assert count_marks(answer, "point") == 3
    assert "on passages of its own searches" in answer


@needs_chromium
def test_equal_cells_are_one_mark_of_differences(tmp_path: Path) -> None:
    """The first of them, which says how many there are."""
    cells = [*CELLS, replace(CELLS[0], labels=replace(CELLS[0].labels, strategy="twin"))]
    (tmp_path / "index.html").write_text(build_page(cells).render(), encoding="utf-8")
    elements = open_page(
        tmp_path / "index.html", view="explore", kind="difference", baseline=CLOSED
    )
    assert count_marks(elements, "point") == 2
    assert "post_fusion on five passages retrieved (+ 1 equal)" in elements


@needs_chromium
def test_settings_besides_the_strategy_make_own_rows(tmp_path: Path) -> None:
    """Cells that differ in a setting alone do not lie on each other, and lines do not join them."""
    cells = [
        replace(
            cell,
            labels=replace(
                cell.labels,
                setting=f"retriever={name}",
                varying=(("retriever", name),),
                k=k,
                uses_gold=False,
            ),
        )
        for name in ("bm25", "dense")
        for k in (1, 5)
        for cell in CELLS[:1]
    ]
    (tmp_path / "index.html").write_text(build_page(cells).render(), encoding="utf-8")
    elements = open_page(tmp_path / "index.html", view="explore")
    assert "post_fusion (retriever=bm25)" in elements
    lines = open_page(tmp_path / "index.html", view="explore", kind="lines", color="strategy")
    assert count_marks(lines, "line mark") == 2


@needs_chromium
def test_positions_count_a_question_once(tmp_path: Path) -> None:
    """At k = 1, two placements are the same; what retrieval placed is left out, also if nothing
    else is there.
    """
    cells = [
        at_positions(make_cell_result("post_fusion", 1, "retrieved", [1, 1, 1, 1]), [1, 1, 1, 1]),
        at_positions(make_cell_result("post_fusion", 1, "gold_first", [1, 0, 0, 0]), [1, 1, 0, 1]),
        at_positions(make_cell_result("post_fusion", 1, "gold_last", [1, 0, 0, 1]), [1, 1, 0, 1]),
    ]
    (tmp_path / "page.html").write_text(build_page(cells).render(), encoding="utf-8")
    assert "post_fusion, k=1 50.0 n=3" in read_text(
        open_page(tmp_path / "page.html", view="explore")
    )
    (tmp_path / "page.html").write_text(build_page([cells[0], CELLS[2]]).render(), encoding="utf-8")
    assert "position in the prompt" not in read_text(
        open_page(tmp_path / "page.html", view="explore")
    )


@needs_chromium
def test_a_value_keeps_its_color_where_others_are_held_out(tmp_path: Path) -> None:
    """The second of three strategies has the second color alone, too; of nine, the eighth differs
    from the first in shape.
    """
    cells = [make_cell_result(f"s{n}", 1, "retrieved", [1, n % 2, 0]) for n in range(9)]
    file = tmp_path / "index.html"
    file.write_text(build_page(cells[:3]).render(), encoding="utf-8")
    alone = open_page(
        file,
        view="explore",
        kind="lines",
        x="-",
        color="strategy",
        facet="-",
        **{"only strategy": "s1"},
    )
    assert set(re.findall(r'fill="(#[0-9A-F]{6})"', alone)) == {COLORS[1]}
    assert not re.search(r"<text[^>]*>s0</text>", alone)
    file.write_text(build_page(cells).render(), encoding="utf-8")
    elements = open_page(file, view="explore", x="-", color="strategy", facet="-")
    points = re.findall(r'setting: s(\d) on[^>]*? d="([^"]*)"[^>]*?fill="(#\w+)"', elements)
    looks = {name: (shape, color) for name, shape, color in points}
    assert len(looks) == len(set(looks.values())) == 9
    assert looks["0"][1] == looks["7"][1]
    legend = re.findall(
        r'role-legend-symbol"[^>]*><path[^>]*? d="([^"]*)"[^>]*? stroke="(#\w+)"', elements
    )
    assert len(legend) == len(set(legend)) == 9, "one legend with shapes and colors"


@needs_chromium
def test_costs_name_the_cells_of_the_frontier_alone(tmp_path: Path) -> None:
    """The third cell costs most and is worse, so that its point is there, but not its name."""
    cells = [
        make_cell_result(name, k, "retrieved", ems)
        for name, k, ems in (("a", 1, [1, 0, 0]), ("b", 2, [1, 1, 0]), ("c", 3, [0, 0, 0]))
    ]
    (tmp_path / "index.html").write_text(build_page(cells).render(), encoding="utf-8")
    costs = open_page(tmp_path / "index.html", view="explore", kind="cost", cost="tokens")
    assert count_marks(costs, "point") == 3
    names = re.findall(r">([abc], k=\d)</text>", costs)
    assert names
    assert "c, k=3" not in names


@needs_chromium
def test_a_chart_is_printed_alone(tmp_path: Path) -> None:
    """On a page of its size: what a browser prints then has one page, which is a PDF of
    the chart.
    """
    file = tmp_path / "index.html"
    text = build_page().render()
    file.write_text(
        text.replace(
            "<script>", "<script>window.print = () => { document.body.dataset.printed = 1; };\n", 1
        ),
        encoding="utf-8",
    )
    script = "setTimeout(() => document.getElementById('print').click(), 1500);"
    file.write_text(
        file.read_text(encoding="utf-8").replace("load().catch", f"{script}\nload().catch"),
        encoding="utf-8",
    )
    assert CHROMIUM is not None
    pdf = tmp_path / "chart.pdf"
    subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=5000",
            "--no-pdf-header-footer",
            f"--print-to-pdf={pdf}",
            f"{file.as_uri()}#view=explore",
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())) == 1
    width, height = re.findall(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", pdf.read_bytes())[0]
    assert (float(width), float(height)) != (612.0, 792.0)


@needs_chromium
def test_one_of_several_strategies_without_passages_is_drawn_alone(tmp_path: Path) -> None:
    """They stay beside those with passages, unless one of them is chosen."""
    cells = [
        make_cell_result("post_fusion", 5, "retrieved", [1, 0, 1]),
        make_cell_result("closed_book", 0, "none", [1, 0, 0]),
        make_cell_result("closed_cot", 0, "none", [0, 0, 1]),
    ]
    script = (
        "return listPoints(chooseChart(readState())).map((point) => findCell(point.cell).name);"
    )
    drawn = [
        run_script(build_page(cells), tmp_path, script, view="explore", **{"only strategy": name})
        for name in ("closed_book", "post_fusion")
    ]
    assert drawn[0] == ["closed_book k=0 none"]
    assert sorted(drawn[1]) == [
        "closed_book k=0 none", "closed_cot k=0 none", "post_fusion k=5 retrieved",
    ]  # fmt: skip
