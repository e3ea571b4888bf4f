"""Charts of confidence and of trainings on the page, in a real browser."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

from tests.reports.page.page_browser import (
    CELLS,
    A,
    B,
    build_page,
    count_marks,
    needs_chromium,
    open_page,
    read_text,
    run_script,
)
from winnow.metrics.selective import REPLIES
from winnow.predictions import RoleUsage
from winnow.reports.cells import CellResult

AGREED = (4, 2, 1, 4, 2)
"""Of four replies to a question, how many agree with its answer."""


def with_votes(cell: CellResult) -> CellResult:
    """Answers to five questions with their votes, right at EM 1, and "unknown" to the last
    question.
    """
    samples = []
    for number, sample in enumerate(cell.samples):
        is_unknown = number >= len(AGREED)
        answer = "unknown" if is_unknown else "x" if sample.prediction.answer == "x" else "y"
        votes = (
            () if is_unknown else (answer,) * AGREED[number] + ("a", "b", "c")[: 4 - AGREED[number]]
        )
        usage = (RoleUsage("reader", 4, 100, 10),)
        prediction = replace(
            sample.prediction,
            answer=answer,
            candidates=votes,
            unknown=is_unknown,
            usage=usage,
            trace=(f"{REPLIES}4",),
        )
        samples.append(replace(sample, prediction=prediction))
    return replace(cell, samples=samples)


@needs_chromium
def test_confidence_is_drawn_against_the_metric(tmp_path: Path) -> None:
    """EM of [1, 1, 0, 1, 0] at confidences 1, 0.5, 0.25, 1, 0.5: risk 0 of 2, 1 of 4, 2 of 5
    answers to 6 questions.
    """
    file = tmp_path / "index.html"
    cell = with_votes(CELLS[0])
    file.write_text(build_page([cell, *CELLS[1:]]).render(), encoding="utf-8")
    risk = open_page(file, view="explore", kind="coverage")
    points = re.findall(
        r'aria-label="questions answered, %: ([\d.]+); 100 − EM of the answers, %: ([\d.]+)[^"]*"',
        risk,
    )
    drawn = {(f"{float(x):.1f}", f"{float(y):.1f}") for x, y in points}
    assert {("33.3", "0.0"), ("66.7", "25.0"), ("83.3", "40.0")} <= drawn
    assert "0.0 [0.0, 65.8]" in risk, "Wilson's interval of 0 of 2"
    calibration = open_page(file, view="explore", kind="calibration")
    points = re.findall(
        r'aria-label="confidence, %: ([\d.]+); EM of the answers, %: ([\d.]+)[^"]*"', calibration
    )
    drawn = {(f"{float(x):.1f}", f"{float(y):.1f}") for x, y in points}
    assert {("25.0", "0.0"), ("50.0", "50.0"), ("100.0", "100.0")} <= drawn
    histogram = open_page(file, view="explore", kind="confidence")
    assert count_marks(histogram, "bar") == 4, (
        "right and wrong at 50 %, wrong at 25 %, right at 100 %"
    )
    assert "“unknown” answers no question" in risk


@needs_chromium
def test_questions_are_chosen_by_their_confidence(tmp_path: Path) -> None:
    """At 0.5, below 0.5, at most 1; the upper bound belongs to the next bin, but for 100."""
    file = tmp_path / "index.html"
    file.write_text(build_page([with_votes(CELLS[0]), *CELLS[1:]]).render(), encoding="utf-8")
    for bounds, ids in {
        "50-60": ["q1", "q4"],
        "20-50": ["q2"],
        "90-100": ["q0", "q3"],
        "50-100": ["q0", "q1", "q3", "q4"],
        "100-100": ["q0", "q3"],
    }.items():
        text = read_text(open_page(file, view="questions", a=A, confidence=bounds))
        assert re.findall(r"q\d", text) == ids
        assert f"{len(ids)} of 6 questions" in text
    ranked = read_text(open_page(file, view="questions", a=A, sort="confidence"))
    assert re.findall(r"q\d", ranked) == ["q0", "q3", "q1", "q4", "q2", "q5"]
    assert "confidence" not in read_text(open_page(file, view="questions", a=B))


@needs_chromium
def test_only_charts_with_data_are_offered(tmp_path: Path) -> None:
    """Without votes and trainings, the address of such a chart shows the first kind."""
    file = tmp_path / "index.html"
    file.write_text(build_page(CELLS[1:]).render(), encoding="utf-8")
    elements = open_page(file, view="explore", kind="coverage")
    assert "risk against coverage" not in elements
    assert "curves of trainings" not in elements
    assert count_marks(elements, "point") == 1


@needs_chromium
def test_trainings_are_drawn(tmp_path: Path) -> None:
    """A line a model; what was logged is chosen by the address."""
    curves = {
        "tuned-a": {"loss": [(1, 2.0), (2, 1.5)], "reward": [(1, 0.1)]},
        "tuned-b": {"loss": [(1, 1.0), (2, 0.5)]},
    }
    file = tmp_path / "index.html"
    file.write_text(replace(build_page(), curves=curves).render(), encoding="utf-8")
    elements = open_page(file, view="explore", kind="training")
    assert count_marks(elements, "line mark") == 2
    assert "tuned-b" in elements
    assert A not in elements
    reward = open_page(file, view="explore", kind="training", logged="reward")
    assert "reward: 0.1" in reward


@needs_chromium
def test_saved_values_say_what_they_are(tmp_path: Path) -> None:
    """The risk where a metric that is no share is asked for, what a training logged, the baseline
    of differences.
    """
    page = replace(
        build_page([with_votes(CELLS[0]), *CELLS[1:]]), curves={"tuned": {"loss": [(1, 2.0)]}}
    )
    script = """
    const states = [{ kind: "coverage", metric: "tokens" }, { kind: "training", metric: "em" },
      { kind: "difference", baseline: cells[1].name }, { kind: "dots", baseline: cells[1].name },
      { kind: "dots", metric: "tokens" }];
    const found = [];
    for (const state of states) {
      location.hash = link({ view: "explore", ...state });
      await wait(600);
      const menu = document.querySelector("select[name=Metric]");
      const options = menu ? [...menu.options].map((option) => option.value) : [];
      const drawn = document.getElementById("chart").innerHTML;
      found.push([...click("save its values as CSV"), options, drawn]);
    }
    return found;"""
    found = run_script(page, tmp_path, script)
    names = [name.removeprefix("Winnow: <test> ") for name, *_ in found]
    assert names[:3] == [
        "coverage 100 − EM.csv",
        "training loss.csv",
        f"difference EM to {B}.csv",
    ]
    rows = [list(csv.DictReader(io.StringIO(text))) for _, text, *_ in found]
    assert [own[0]["metric"] for own in rows] == ["100 − EM", "loss", "EM", "EM", "tokens"]
    assert [own[0].get("compared with") for own in rows] == [None, None, B, B, None]
    _, _, options, drawn = found[0]
    assert "em" in options
    assert "tokens" not in options
    assert "100 − EM of 3 cells" in drawn
