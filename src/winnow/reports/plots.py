"""Plots as SVG text, to stand inside a page: EM and %Unk against k, EM against the gold passage's position."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from winnow.metrics.cells import by_name
from winnow.metrics.intervals import Estimate
from winnow.reports.cells import CellResult

_ORDER = ("gold_removed", "retrieved", "gold_inserted", "gold_first", "gold_random", "gold_last")


def against_k(cells: Sequence[CellResult], measure: str, gold: str, seed: int) -> str:
    """Return a line a strategy over k, at one placement, with 95 % intervals."""
    shown = [c for c in cells if c.gold == gold and c.k]
    lines = {
        name: [(c.k, by_name(measure).estimate(c.rows, seed)) for c in sorted(shown, key=lambda c: c.k) if c.line == name]
        for name in dict.fromkeys(c.line for c in shown)
    }
    ticks = sorted({c.k for c in shown})
    title = f"{by_name(measure).title} against k (gold: {gold})"
    return _draw(
        title,
        "k",
        {n: [(float(ticks.index(k)), e) for k, e in points] for n, points in lines.items()},
        [str(t) for t in ticks],
    )


def against_position(cells: Sequence[CellResult], k: int, seed: int) -> str:
    """Return EM over placements at one k, a line a strategy, with 95 % intervals."""
    shown = [c for c in cells if c.k == k]
    places = sorted({c.gold for c in shown}, key=_place)
    lines = {
        name: [(float(places.index(c.gold)), by_name("em").estimate(c.rows, seed)) for c in shown if c.line == name]
        for name in dict.fromkeys(c.line for c in shown)
    }
    ordered = {name: sorted(points, key=lambda point: point[0]) for name, points in lines.items()}
    return _draw(f"EM against the gold passage's position (k = {k})", "gold passage", ordered, places)


def against_samples(cells: Sequence[CellResult], k: int, seed: int) -> str:
    """Return EM over samples a prompt at one k, a line a strategy and placement, with 95 % intervals."""
    shown = sorted((c for c in cells if c.k == k), key=lambda c: c.samples)
    ticks = sorted({c.samples for c in shown})
    lines: dict[str, list[tuple[float, Estimate]]] = {}
    for cell in shown:
        point = (float(ticks.index(cell.samples)), by_name("em").estimate(cell.rows, seed))
        lines.setdefault(f"{cell.strategy}, {cell.gold}", []).append(point)
    return _draw(f"EM against samples a prompt (k = {k})", "samples", lines, [str(t) for t in ticks])


def tokens_by_strategy(cells: Sequence[CellResult], seed: int) -> str:
    """Return the tokens that a question takes, a line a k and placement over the strategies, with 95 % intervals."""
    names = list(dict.fromkeys(c.line for c in cells))
    lines: dict[str, list[tuple[float, Estimate]]] = {}
    for cell in cells:
        point = (float(names.index(cell.line)), by_name("tokens").estimate(cell.rows, seed))
        lines.setdefault(f"k = {cell.k}, {cell.gold}" if cell.k else "no passages", []).append(point)
    return _draw("Tokens a question, read and written", "strategy", lines, names, unit="tokens", scale=1)


def _place(name: str) -> tuple[int, int]:
    """Order the named places first, then the numbered ones."""
    if name in _ORDER:
        return _ORDER.index(name), 0
    number = name.rpartition("_")[2]
    return len(_ORDER), int(number) if number.isdigit() else 0


def _draw(
    title: str,
    x_label: str,
    lines: dict[str, list[tuple[float, Estimate]]],
    ticks: Sequence[str],
    unit: str = "%",
    scale: int = 100,
) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "winnow", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axes: Any = figure.add_subplot()
        for number, (name, points) in enumerate(lines.items()):
            shift = 0.05 * (number - (len(lines) - 1) / 2)
            means = [scale * e.mean for _, e in points]
            bars = [[scale * (e.mean - e.low) for _, e in points], [scale * (e.high - e.mean) for _, e in points]]
            axes.errorbar([x + shift for x, _ in points], means, yerr=bars, marker="o", capsize=3, label=name)
        axes.set(title=title, xlabel=x_label, ylabel=unit, xticks=range(len(ticks)), xticklabels=ticks, ylim=(0, None))
        axes.grid(axis="y", alpha=0.3)
        axes.legend(fontsize="small")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def curve(title: str, x_label: str, y_label: str, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Return lines over two shares, both from 0 to 1."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "winnow", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axes: Any = figure.add_subplot()
        for name, (x, y) in lines.items():
            axes.plot(x, y, marker="." if len(x) < 30 else None, label=name)
        axes.set(title=title, xlabel=x_label, ylabel=y_label, xlim=(0, 1), ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()[out.getvalue().index("<svg") :]
