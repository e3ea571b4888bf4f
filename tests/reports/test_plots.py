"""Plots as SVG and as files."""

import csv
import json
from dataclasses import replace
from pathlib import Path

from winnow.reports.family import Family
from winnow.reports.plots import (
    COLORS,
    FORMATS,
    plot_against_k,
    plot_against_position,
    plot_against_samples,
)
from winnow.reports.report import draw_plots
from winnow.testing import make_cell_result

CELLS = [
    make_cell_result("concatenation", k, gold, [0, 1, 1])
    for k in (1, 5)
    for gold in ("retrieved", "gold_first")
]


def test_plots_are_svg_and_repeat() -> None:
    """Deterministic text without scripts or addresses to load."""
    one, two = (plot_against_k(CELLS, "em", "retrieved", 0) for _ in range(2))
    assert one.render_svg() == two.render_svg()
    assert one.render_svg().startswith("<svg")
    assert "concatenation" in one.render_svg()
    plot = plot_against_position(CELLS, "em", 5, 0, "3 questions with a gold passage")
    assert "<script" not in plot.render_svg()
    assert plot.slug == "em_against_the_gold_passage_s_position_k_5"
    assert "placement of the gold passage (3 questions with a gold passage)" in plot.columns


def test_plots_are_saved_in_every_format(tmp_path: Path) -> None:
    """Equal files in every run; the table of values has what is drawn, in the unit of the axis."""
    plot = plot_against_k(CELLS, "em", "retrieved", 0)
    paths = [plot.save(tmp_path, extension) for extension in FORMATS]
    assert {path.name for path in paths} == {
        f"em_against_k_gold_retrieved.{extension}" for extension in FORMATS
    }
    first = [path.read_bytes() for path in paths]
    again = [plot.save(tmp_path, extension).read_bytes() for extension in FORMATS]
    assert [again[n] == first[n] for n, extension in enumerate(FORMATS) if extension != "pdf"] == [
        True
    ] * 3
    assert [content[:4] for content in first] == [b"<svg", b"%PDF", b"\x89PNG", b"line"]
    header, one, five = csv.reader(paths[-1].read_text().splitlines())
    assert header == ["line", "passages per prompt (k)", "EM, %", "low", "high"]
    assert [one[:2], five[:2]] == [["concatenation", "1"], ["concatenation", "5"]]
    assert [round(float(value), 1) for value in one[2:]] == [66.7, 20.8, 93.9]


def test_samples_of_other_settings_are_other_lines() -> None:
    """The number of samples is the axis, and not a part of a line's name."""
    cells = []
    for retriever in ("bm25", "dense"):
        for samples in (1, 5):
            one = make_cell_result("concatenation", 5, "g", [1.0, 0.0])
            varying = (("retriever", retriever), ("decoding", "T=0.7"), ("samples", str(samples)))
            cells.append(replace(one, labels=replace(one.labels, samples=samples, varying=varying)))
    seeded = [
        replace(cell, labels=replace(cell.labels, seed=seed)) for seed in "12" for cell in cells[:1]
    ]
    assert [row[0] for row in plot_against_samples(seeded, "em", 5, 0).rows] == [
        f"concatenation, retriever=bm25, decoding=T=0.7, seed {seed}, g" for seed in "12"
    ]
    plot = plot_against_samples(cells, "em", 5, 0)
    assert [row[:2] for row in plot.rows] == [
        (f"concatenation, retriever={retriever}, decoding=T=0.7, g", tick)
        for retriever in ("bm25", "dense")
        for tick in ("1", "5")
    ]


def test_a_report_plots_its_first_metric() -> None:
    """In its own unit, and no metric that is undefined everywhere; against its cost unless it is
    the cost.
    """
    tokens_first = [replace(cell, metrics=[cell.metrics[-1], *cell.metrics[:-1]]) for cell in CELLS]
    plots = {plot.title: plot for plot in draw_plots(Family(tokens_first, 0))}
    assert list(plots) == [
        "tokens against k (gold: retrieved)", "%Unk against k (gold: retrieved)",
        "tokens against k (gold: gold_first)", "%Unk against k (gold: gold_first)",
        "tokens against the gold passage's position (k = 1)",
        "tokens against the gold passage's position (k = 5)",
    ]  # fmt: skip
    plot = plots["tokens against k (gold: retrieved)"]
    assert (plot.columns[2], plot.rows[0][2]) == ("tokens", 103.0)
    titles = [plot.title for plot in draw_plots(Family(CELLS, 0), "tokens_in")]
    assert titles[-2:] == [
        "EM against tokens in (gold: retrieved)",
        "EM against tokens in (gold: gold_first)",
    ]
    assert not any("against money" in plot.title for plot in draw_plots(Family(CELLS, 0), "money"))


def test_undefined_values_are_not_drawn() -> None:
    """They stay in the table of values, so that a gap is no mistake."""
    closed = make_cell_result("concatenation", 5, "retrieved", [])
    plot = plot_against_k([CELLS[0], closed], "em", "retrieved", 0)
    assert len(plot.rows) == 2
    assert len(json.dumps(plot.chart).split('"place": "')) == 1 + 1


def test_every_color_is_seen_on_white_and_on_the_dark_page() -> None:
    """At a contrast of at least 3, as WCAG 2 defines it."""

    def compute_luminance(color: str) -> float:
        shares = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [
            share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4
            for share in shares
        ]
        return sum(
            weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
        )

    for ground in ("#ffffff", "#16181c"):
        for color in COLORS:
            low, high = sorted((compute_luminance(color), compute_luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 3, (color, ground)
