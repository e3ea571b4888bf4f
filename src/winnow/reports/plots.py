"""Plots of a report, as SVG text."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from winnow.metrics.intervals import Interval
from winnow.reports.cells import CellResult

_PLACEMENTS = ("gold_removed", "retrieved", "gold_inserted", "gold_first", "gold_random", "gold_last")
Points = list[tuple[float, Interval]]


def against_k(cells: Sequence[CellResult], metric: str, gold: str, seed: int) -> str:
    """Plot a metric against k at one placement, a line per strategy, with 95 % intervals."""
    selected = sorted((c for c in cells if c.labels.gold == gold and c.labels.k), key=lambda c: c.labels.k)
    ticks = sorted({cell.labels.k for cell in selected})
    lines: dict[str, Points] = {}
    for name in dict.fromkeys(cell.labels.line for cell in cells if cell.labels.gold == gold and cell.labels.k):
        lines[name] = [
            (float(ticks.index(cell.labels.k)), cell.interval(metric, seed)) for cell in selected if cell.labels.line == name
        ]
    title = f"{_title(cells, metric)} against k (gold: {gold})"
    return _error_bars(title, "k", lines, [str(tick) for tick in ticks])


def against_position(cells: Sequence[CellResult], k: int, seed: int) -> str:
    """Plot EM against the placement at one k, a line per strategy, with 95 % intervals."""
    selected = [cell for cell in cells if cell.labels.k == k]
    placements = sorted({cell.labels.gold for cell in selected}, key=_placement_order)
    lines: dict[str, Points] = {}
    for cell in selected:
        point = (float(placements.index(cell.labels.gold)), cell.interval("em", seed))
        lines.setdefault(cell.labels.line, []).append(point)
    ordered = {name: sorted(points, key=lambda point: point[0]) for name, points in lines.items()}
    return _error_bars(f"EM against the gold passage's position (k = {k})", "gold passage", ordered, placements)


def against_samples(cells: Sequence[CellResult], k: int, seed: int) -> str:
    """Plot EM against samples per prompt at one k, a line per strategy and placement, with 95 % intervals."""
    selected = sorted((cell for cell in cells if cell.labels.k == k), key=lambda cell: cell.labels.samples)
    ticks = sorted({cell.labels.samples for cell in selected})
    lines: dict[str, Points] = {}
    for cell in selected:
        point = (float(ticks.index(cell.labels.samples)), cell.interval("em", seed))
        lines.setdefault(f"{cell.labels.strategy}, {cell.labels.gold}", []).append(point)
    return _error_bars(f"EM against samples per prompt (k = {k})", "samples", lines, [str(tick) for tick in ticks])


def tokens_by_strategy(cells: Sequence[CellResult], seed: int) -> str:
    """Plot the tokens per question against the strategies, a line per k and placement, with 95 % intervals."""
    names = list(dict.fromkeys(cell.labels.line for cell in cells))
    lines: dict[str, Points] = {}
    for cell in cells:
        labels = cell.labels
        point = (float(names.index(labels.line)), cell.interval("tokens", seed))
        lines.setdefault(f"k = {labels.k}, {labels.gold}" if labels.k else "no passages", []).append(point)
    return _error_bars("Tokens per question, read and written", "strategy", lines, names, unit="tokens", scale=1)


def curve(title: str, x_label: str, y_label: str, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Plot lines whose x and y values are shares between 0 and 1."""

    def draw(axes: Any) -> None:
        for name, (x, y) in lines.items():
            axes.plot(x, y, marker="." if len(x) < 30 else None, label=name)
        axes.set(title=title, xlabel=x_label, ylabel=y_label, xlim=(0, 1), ylim=(0, None))
        axes.grid(alpha=0.3)

    return _svg(draw)


def _title(cells: Sequence[CellResult], name: str) -> str:
    metric = cells[0].metric(name)
    return name if metric is None else metric.heading


def _placement_order(name: str) -> tuple[int, int]:
    """Return a sort key that orders the named placements first, then the numbered ones."""
    if name in _PLACEMENTS:
        return _PLACEMENTS.index(name), 0
    number = name.rpartition("_")[2]
    return len(_PLACEMENTS), int(number) if number.isdigit() else 0


def _error_bars(
    title: str,
    x_label: str,
    lines: Mapping[str, Points],
    ticks: Sequence[str],
    unit: str = "%",
    scale: int = 100,
) -> str:
    def draw(axes: Any) -> None:
        for index, (name, points) in enumerate(lines.items()):
            offset = 0.05 * (index - (len(lines) - 1) / 2)
            intervals = [interval for _, interval in points]
            means = [scale * interval.mean for interval in intervals]
            below = [scale * (interval.mean - interval.low) for interval in intervals]
            above = [scale * (interval.high - interval.mean) for interval in intervals]
            axes.errorbar([x + offset for x, _ in points], means, yerr=[below, above], marker="o", capsize=3, label=name)
        axes.set(title=title, xlabel=x_label, ylabel=unit, xticks=range(len(ticks)), xticklabels=ticks, ylim=(0, None))
        axes.grid(axis="y", alpha=0.3)

    return _svg(draw)


def _svg(draw: Callable[[Any], None]) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "winnow", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axes: Any = figure.add_subplot()
        draw(axes)
        axes.legend(fontsize="small")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]
