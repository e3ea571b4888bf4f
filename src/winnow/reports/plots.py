"""Functions that draw the plots of a report, as SVG for its page and as PDF, PNG or CSV for a paper."""

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from winnow.metrics.intervals import Interval
from winnow.reports.cells import CellResult, get_unit_scale

_PLACEMENTS = (
    "gold_removed", "retrieved", "gold_inserted", "gold_first", "gold_all_first", "gold_random", "shuffled",
    "gold_all_shuffled", "gold_last", "gold_all_last",
)  # fmt: skip
"""Names of placements of the gold passage in the order in which they are plotted."""
Points = list[tuple[float, Interval]]
"""Points of a line: position on the x axis, and value with its 95 % interval."""
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colors that readers with any kind of color vision tell apart (Okabe and Ito 2008)."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_MOST_TICK_CHARACTERS = 50
"""Number of characters in all labels of an x axis above which they are turned."""
_MOST_LEGEND_CHARACTERS = 40
"""Length of a name in the legend above which the legend has one column."""
FORMATS = ("svg", "pdf", "png", "csv")
"""Formats in which a plot can be saved."""


@dataclass(frozen=True)
class Plot:
    """A plot of a report.

    Attributes:
        title: Title of the plot.
        columns: Names of the columns of the plotted values.
        rows: Plotted values.
        draw: Function that draws the plot on the axes that it receives.

    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    draw: Callable[[Any], None] = field(compare=False)

    @property
    def slug(self) -> str:
        """Return the title as the name of a file."""
        return re.sub(r"[^a-z0-9]+", "_", self.title.lower()).strip("_")

    def render_svg(self) -> str:
        """Return the plot as SVG text, which is the same in every run."""
        svg = self._render("svg", {"Date": None, "Creator": None}).decode()
        return svg[svg.index("<svg") :]  # leave out the XML declaration, because the text becomes part of an HTML page

    def save(self, folder: Path, extension: str) -> Path:
        """Write the plot, or its values as CSV, to a folder, and return the path. Equal plots give equal files.

        Args:
            folder: Existing folder.
            extension: One of `FORMATS`.

        """
        path = folder / f"{self.slug}.{extension}"
        if extension == "csv":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
            path.write_text(text.getvalue(), encoding="utf-8")
        elif extension == "svg":
            path.write_text(self.render_svg(), encoding="utf-8")
        else:
            path.write_bytes(self._render(extension, {"CreationDate": None} if extension == "pdf" else {"Software": None}))
        return path

    def _render(self, extension: str, metadata: Mapping[str, None]) -> bytes:
        import matplotlib as mpl
        from cycler import cycler
        from matplotlib.figure import Figure

        style: Any = {
            "svg.hashsalt": "winnow",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "axes.prop_cycle": cycler(color=_COLORS) + cycler(marker=_MARKERS),
        }
        with mpl.rc_context(style):
            figure = Figure(figsize=(5.6, 3.6), layout="constrained")
            axes: Any = figure.add_subplot()
            self.draw(axes)
            names = axes.get_legend_handles_labels()[1]
            columns = 1 if max(map(len, names), default=0) > _MOST_LEGEND_CHARACTERS else 2
            figure.set_size_inches(5.6, 3.6 + 0.2 * math.ceil(len(names) / columns))
            figure.legend(loc="outside lower center", fontsize="small", ncols=columns, frameon=False)
            buffer = io.BytesIO()
            figure.savefig(buffer, format=extension, dpi=200, metadata=metadata)
        return buffer.getvalue()


def plot_against_k(cells: Sequence[CellResult], metric: str, gold: str, seed: int) -> Plot:
    """Plot a metric with its 95 % intervals against k at one placement of the gold passage, with one line per strategy.

    Args:
        cells: Cells of the report. Those with another placement or without passages are not plotted.
        metric: Name of the metric.
        gold: Name of the placement.
        seed: Seed of the bootstrap.

    """
    plotted = [cell for cell in cells if cell.labels.gold == gold and cell.labels.k]
    selected = sorted(plotted, key=lambda cell: cell.labels.k)
    ticks = sorted({cell.labels.k for cell in selected})
    lines: dict[str, Points] = {}
    for name in dict.fromkeys(cell.labels.line for cell in plotted):
        lines[name] = [
            (float(ticks.index(cell.labels.k)), cell.compute_interval(metric, seed))
            for cell in selected
            if cell.labels.line == name
        ]
    heading, unit, scale = describe_axis(cells, metric)
    title = f"{heading} against k (gold: {gold})"
    return _plot_error_bars(title, "passages per prompt (k)", lines, [str(tick) for tick in ticks], unit, scale)


def plot_against_position(cells: Sequence[CellResult], metric: str, k: int, seed: int) -> Plot:
    """Plot a metric with its 95 % intervals against the placement of the gold passage at one k, with one line per strategy."""
    selected = [cell for cell in cells if cell.labels.k == k]
    placements = sorted({cell.labels.gold for cell in selected}, key=_placement_order)
    lines: dict[str, Points] = {}
    for cell in selected:
        point = (float(placements.index(cell.labels.gold)), cell.compute_interval(metric, seed))
        lines.setdefault(cell.labels.line, []).append(point)
    ordered_lines = {name: sorted(points, key=lambda point: point[0]) for name, points in lines.items()}
    heading, unit, scale = describe_axis(cells, metric)
    title = f"{heading} against the gold passage's position (k = {k})"
    return _plot_error_bars(title, "placement of the gold passage", ordered_lines, placements, unit, scale)


def plot_against_samples(cells: Sequence[CellResult], metric: str, k: int, seed: int) -> Plot:
    """Plot a metric with its 95 % intervals against the number of samples per prompt at one k.

    There is one line per strategy, setting, training seed and placement of the gold passage.
    """
    selected = sorted((cell for cell in cells if cell.labels.k == k), key=lambda cell: cell.labels.samples)
    ticks = sorted({cell.labels.samples for cell in selected})
    lines: dict[str, Points] = {}
    for cell in selected:
        point = (float(ticks.index(cell.labels.samples)), cell.compute_interval(metric, seed))
        settings = map("=".join, cell.labels.select_other_settings(["samples"]).items())
        seed_text = cell.labels.seed and f"seed {cell.labels.seed}"
        name = ", ".join(filter(None, [cell.labels.strategy, *settings, seed_text, cell.labels.gold]))
        lines.setdefault(name, []).append(point)
    heading, unit, scale = describe_axis(cells, metric)
    title = f"{heading} against samples per prompt (k = {k})"
    return _plot_error_bars(title, "samples per prompt", lines, [str(tick) for tick in ticks], unit, scale)


def plot_curves(title: str, x_label: str, y_label: str, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Plot:
    """Plot lines whose x and y values are shares between 0 and 1.

    Args:
        title: Title of the plot.
        x_label: Label of the x axis.
        y_label: Label of the y axis.
        lines: Values of x and y for each line, by the name of the line in the legend.

    """

    def draw(axes: Any) -> None:
        for name, (x, y) in lines.items():
            axes.plot(x, y, marker="." if len(x) < 30 else "", label=name)
        axes.set(title=title, xlabel=x_label, ylabel=y_label, xlim=(0, 1), ylim=(0, None))
        axes.grid(alpha=0.3)

    rows = [(name, *point) for name, (x, y) in lines.items() for point in zip(x, y, strict=True)]
    return Plot(title, ("line", x_label, y_label), rows, draw)


def describe_axis(cells: Sequence[CellResult], name: str) -> tuple[str, str, float]:
    """Return the heading of a metric, the label of its axis, and the factor that converts its values to its unit."""
    metric = cells[0].find_metric(name)
    if metric is None:
        return name, name, 1.0
    scale = get_unit_scale(metric)
    return metric.heading, f"{metric.heading}, %" if scale == 100 else metric.heading, scale


def draw_error_bars(axes: Any, points: Points, scale: float, label: str, **style: Any) -> None:
    """Draw points with their intervals as error bars, in units of which there are `scale` in a value of 1."""
    means = [scale * interval.mean for _, interval in points]
    below = [scale * (interval.mean - interval.low) for _, interval in points]
    above = [scale * (interval.high - interval.mean) for _, interval in points]
    axes.errorbar([x for x, _ in points], means, yerr=[below, above], capsize=3, label=label, **style)


def _placement_order(name: str) -> tuple[int, float]:
    """Return a sort key that orders the named placements first, then the numbered ones."""
    if name in _PLACEMENTS:
        return _PLACEMENTS.index(name), 0
    number = name.rpartition("_")[2]
    return len(_PLACEMENTS), float(number) if number.replace(".", "", 1).isdigit() else 0.0


def _plot_error_bars(
    title: str,
    x_label: str,
    lines: Mapping[str, Points],
    ticks: Sequence[str],
    unit: str,
    scale: float,
    *,
    is_ordered: bool = True,
) -> Plot:
    """Plot lines whose points have error bars. The lines are shifted slightly so that their bars do not overlap.

    Args:
        title: Title of the plot.
        x_label: Label of the x axis.
        lines: Points of each line, by the name of the line in the legend.
        ticks: Labels of the x positions 0, 1, 2 and so on.
        unit: Label of the y axis.
        scale: Factor that converts the values to the unit.
        is_ordered: Whether the positions have an order, so that a line joins the points.

    """
    is_wide = sum(map(len, ticks)) > _MOST_TICK_CHARACTERS

    def draw(axes: Any) -> None:
        style = {} if is_ordered else {"linestyle": "none"}
        for index, (name, points) in enumerate(lines.items()):
            offset = 0.05 * (index - (len(lines) - 1) / 2)
            draw_error_bars(axes, [(x + offset, interval) for x, interval in points], scale, name, **style)
        axes.set(title=title, xlabel=x_label, ylabel=unit, xticks=range(len(ticks)), xticklabels=ticks, ylim=(0, None))
        axes.grid(axis="y", alpha=0.3)
        if is_wide:
            axes.tick_params(axis="x", labelrotation=30)

    rows = [
        (name, ticks[round(x)], scale * interval.mean, scale * interval.low, scale * interval.high)
        for name, points in lines.items()
        for x, interval in points
    ]
    return Plot(title, ("line", x_label, unit, "low", "high"), rows, draw)
