"""Plots of a report as Vega-Lite charts: SVG for its page, and SVG, PDF, PNG or CSV for a paper.

Altair checks a chart against Vega-Lite's schema, and vl-convert draws it without a browser and
without a network.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.metrics.intervals import Interval
from winnow.reports.cells import CellResult, get_unit_scale

if TYPE_CHECKING:
    import altair as alt

_PLACEMENTS = (
    "gold_removed", "retrieved", "gold_inserted", "gold_first", "gold_all_first", "gold_random",
    "shuffled", "gold_all_shuffled", "gold_last", "gold_all_last",
)  # fmt: skip
"""Names of placements of the gold passage in the order in which they are plotted."""
Points = list[tuple[str, Interval]]
"""Points of a line: label of the place on the x axis, and value with its 95 % interval."""
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B97F00", "#4398CA", "#767676")
"""Colors distinguishable with any kind of color vision (Okabe and Ito 2008, without their yellow).

Orange and sky blue are darker, so that each has a contrast of at least 3 to the page, as WCAG 2
asks of graphics.
"""
FORMATS = ("svg", "pdf", "png", "csv")
"""Formats in which a plot can be saved."""
_WIDTH, _HEIGHT, _PIXELS_PER_POINT = 420, 240, 2.0
_LONGEST_LINE_NAME = 600
"""Width in pixels beyond which the name of a line is cut in the legend."""


@dataclass(frozen=True)
class Plot:
    """A plot of a report.

    Attributes:
        title: Title of the plot.
        columns: Names of the columns of the plotted values.
        rows: Plotted values.
        chart: Specification of the chart in Vega-Lite.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    chart: dict[str, Any] = field(compare=False)

    @property
    def slug(self) -> str:
        """Return the title as the name of a file."""
        return re.sub(r"[^a-z0-9]+", "_", self.title.lower()).strip("_")

    def render_svg(self) -> str:
        """Return the plot as SVG text, which is the same in every run."""
        import vl_convert

        return str(vl_convert.vegalite_to_svg(self.chart))

    def save(self, folder: Path, extension: str) -> Path:
        """Write the plot, or its values as CSV, to a folder, and return the path.

        Equal plots give equal files, but for PDF, whose objects are in any order.

        Args:
            folder: Existing folder.
            extension: One of `FORMATS`.
        """
        import vl_convert

        path = folder / f"{self.slug}.{extension}"
        match extension:
            case "csv":
                text = io.StringIO()
                csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
                path.write_text(text.getvalue(), encoding="utf-8")
            case "svg":
                path.write_text(self.render_svg(), encoding="utf-8")
            case "pdf":
                path.write_bytes(vl_convert.vegalite_to_pdf(self.chart))
            case _:
                path.write_bytes(vl_convert.vegalite_to_png(self.chart, scale=_PIXELS_PER_POINT))
        return path


def build_plot(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    chart: "alt.Chart | alt.LayerChart | alt.FacetChart",
) -> Plot:
    """Build a plot from an Altair chart by adding the title and the style of all plots."""
    styled = (
        chart.properties(title=title, width=_WIDTH, height=_HEIGHT, background="white")
        .configure_axis(gridOpacity=0.5, labelLimit=160)
        .configure_legend(orient="bottom", columns=2, labelLimit=_LONGEST_LINE_NAME, title=None)
        .configure_range(category=list(COLORS))
        .configure_view(stroke=None)
    )
    return Plot(title, columns, rows, styled.to_dict())


def encode_axis(
    name: str, title: str, kind: str = "quantitative", **options: Any
) -> dict[str, Any]:
    """Return an axis over a field, even if Vega-Lite reads its name as a path or a type."""
    return {"field": name, "type": kind, "title": title, **options}


def plot_against_k(cells: Sequence[CellResult], metric: str, gold: str, seed: int) -> Plot:
    """Plot a metric with 95 % intervals against k at one gold placement, with a line per strategy.

    Args:
        cells: Cells of the report. Those with another placement or without passages are not
            plotted.
        metric: Name of the metric.
        gold: Name of the placement.
        seed: Seed of the bootstrap.
    """
    plotted = [cell for cell in cells if cell.labels.gold == gold and cell.labels.k]
    sorted_cells = sorted(plotted, key=lambda cell: cell.labels.k)
    lines: dict[str, Points] = {}
    for name in dict.fromkeys(cell.labels.line for cell in plotted):
        own = [cell for cell in sorted_cells if cell.labels.line == name]
        lines[name] = [(str(cell.labels.k), cell.compute_interval(metric, seed)) for cell in own]
    heading, unit, scale = describe_axis(cells, metric)
    title = f"{heading} against k (gold: {gold})"
    ticks = [str(k) for k in sorted({cell.labels.k for cell in sorted_cells})]
    return _plot_intervals(title, "passages per prompt (k)", lines, ticks, unit, scale)


def plot_against_position(
    cells: Sequence[CellResult], metric: str, k: int, seed: int, questions: str
) -> Plot:
    """Plot a metric with 95 % intervals by gold placement at one k, with one line per strategy.

    `questions` says which questions the cells have.
    """
    matching_cells = [cell for cell in cells if cell.labels.k == k]
    placements = sorted({cell.labels.gold for cell in matching_cells}, key=order_placement)
    lines: dict[str, Points] = {}
    for cell in sorted(matching_cells, key=lambda cell: order_placement(cell.labels.gold)):
        lines.setdefault(cell.labels.line, []).append(
            (cell.labels.gold, cell.compute_interval(metric, seed))
        )
    ordered_lines = {
        name: lines[name] for name in dict.fromkeys(cell.labels.line for cell in matching_cells)
    }
    heading, unit, scale = describe_axis(cells, metric)
    title = f"{heading} against the gold passage's position (k = {k})"
    label = f"placement of the gold passage ({questions})"
    return _plot_intervals(title, label, ordered_lines, placements, unit, scale)


def plot_against_samples(cells: Sequence[CellResult], metric: str, k: int, seed: int) -> Plot:
    """Plot a metric with its 95 % intervals against the number of samples per prompt at one k.

    There is one line per strategy, setting, training seed and placement of the gold passage.
    """
    sorted_cells = sorted(
        (cell for cell in cells if cell.labels.k == k), key=lambda cell: cell.labels.samples
    )
    lines: dict[str, Points] = {}
    for cell in sorted_cells:
        settings = map("=".join, cell.labels.select_other_settings(["samples"]).items())
        seed_text = cell.labels.seed and f"seed {cell.labels.seed}"
        name = ", ".join(
            filter(None, [cell.labels.strategy, *settings, seed_text, cell.labels.gold])
        )
        lines.setdefault(name, []).append(
            (str(cell.labels.samples), cell.compute_interval(metric, seed))
        )
    heading, unit, scale = describe_axis(cells, metric)
    title = f"{heading} against samples per prompt (k = {k})"
    ticks = [str(samples) for samples in sorted({cell.labels.samples for cell in sorted_cells})]
    return _plot_intervals(title, "samples per prompt", lines, ticks, unit, scale)


def plot_curves(
    title: str,
    x_label: str,
    y_label: str,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> Plot:
    """Plot lines whose x and y values are shares between 0 and 1.

    Args:
        title: Title of the plot.
        x_label: Label of the x axis.
        y_label: Label of the y axis.
        lines: Values of x and y for each line, by the name of the line in the legend.
    """
    import altair as alt

    rows = [(name, *point) for name, (x, y) in lines.items() for point in zip(x, y, strict=True)]
    values = [{"line": name, "x": float(x), "y": float(y)} for name, x, y in rows]
    has_points = all(len(x) < 30 for x, _ in lines.values())
    chart = (
        alt.Chart(alt.InlineData(values))
        .mark_line(point=has_points, clip=True)
        .encode(
            x=alt.X(**encode_axis("x", x_label, scale=alt.Scale(domain=[0, 1]))),
            y=alt.Y(**encode_axis("y", y_label, scale=alt.Scale(zero=True))),
            order=alt.Order("x", type="quantitative"),
            color=alt.Color("line", type="nominal", sort=list(lines)),
        )
    )
    return build_plot(title, ("line", x_label, y_label), rows, chart)


def describe_axis(cells: Sequence[CellResult], name: str) -> tuple[str, str, float]:
    """Return a metric's heading, axis label, and the factor that converts values to its unit."""
    metric = cells[0].find_metric(name)
    if metric is None:
        return name, name, 1.0
    scale = get_unit_scale(metric)
    return metric.heading, f"{metric.heading}, %" if scale == 100 else metric.heading, scale


def order_placement(name: str) -> tuple[int, float]:
    """Return a sort key that orders the named placements first, then the numbered ones."""
    if name in _PLACEMENTS:
        return _PLACEMENTS.index(name), 0
    number = name.rpartition("_")[2]
    return len(_PLACEMENTS), float(number) if number.replace(".", "", 1).isdigit() else 0.0


def _plot_intervals(
    title: str,
    x_label: str,
    lines: Mapping[str, Points],
    ticks: Sequence[str],
    unit: str,
    scale: float,
) -> Plot:
    """Plot lines of points with 95 % intervals, placed side by side so that they do not overlap.

    Args:
        title: Title of the plot.
        x_label: Label of the x axis.
        lines: Points of each line, by the name of the line in the legend.
        ticks: Labels of the x axis in their order.
        unit: Label of the y axis.
        scale: Factor that converts the values to the unit.
    """
    import altair as alt

    rows = [
        (name, tick, scale * interval.mean, scale * interval.low, scale * interval.high)
        for name, points in lines.items()
        for tick, interval in points
    ]
    names = ("line", "place", "value", "low", "high")
    values = [dict(zip(names, row, strict=True)) for row in rows if row[2] == row[2]]
    place = alt.X(
        **encode_axis("place", x_label, "ordinal", sort=list(ticks), axis=alt.Axis(labelAngle=0))
    )
    base = alt.Chart(alt.InlineData(values)).encode(
        x=place,
        xOffset=alt.XOffset("line", type="nominal", sort=list(lines)),
        color=alt.Color("line", type="nominal", sort=list(lines)),
    )
    value = alt.Y(**encode_axis("value", unit, scale=alt.Scale(zero=True)))
    intervals = base.mark_rule().encode(y=alt.Y(**encode_axis("low", unit)), y2="high:Q")
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        y=value, shape=alt.Shape("line", type="nominal", sort=list(lines))
    )
    chart = alt.layer(intervals, base.mark_line(opacity=0.4).encode(y=value), points)
    return build_plot(title, ("line", x_label, unit, "low", "high"), rows, chart)
