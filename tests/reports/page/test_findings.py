"""Findings: what each factor changes, and how it is worded."""

from dataclasses import replace

import pytest

from tests.reports.page.stories import find, make, tell
from winnow.testing import make_cell_result


def test_each_factor_has_one_finding() -> None:
    """The largest significant difference in its direction; the higher cell comes first in the
    sentence and in the link.
    """
    cells = [
        make("a", 4),
        make("a", 30, k=10),
        make("b", 5),
        make("b", 5, gold="shuffled", placed="in random order"),
    ]
    cells[3] = replace(cells[3], samples=cells[1].samples)
    story = tell(*cells)
    k = find(story, "with ten passages than with five passages (a, retrieved; p <0.001)")
    assert (k.cells, k.is_significant) == ((1, 0), True)
    assert "1 of 1 distinct differences between k is significant" in k.text
    placement = find(story, "higher in random order than retrieved (b on five passages; p <0.001)")
    assert placement.cells == (3, 2)
    strategies = find(
        story, "higher with b than with a (five passages retrieved; p = 1.000, not significant)"
    )
    assert (
        "The only difference between strategies and settings is not significant; tested alone, "
        "this one would need" in strategies.text
    )
    assert len(story.findings) == 3


def test_differences_between_the_same_answers_are_counted_once() -> None:
    """Two placements that are one at k = 1 give one difference between the strategies, not two."""
    cells = [
        make(name, right, k=1, gold=gold)
        for name, right in (("a", 4), ("b", 30))
        for gold in ("retrieved", "shuffled")
    ]
    strategies = find(tell(*cells), "distinct differences between strategies and settings")
    assert (
        "1 of 1 distinct differences between strategies and settings is significant"
        in strategies.text
    )


def test_a_difference_of_the_best_setting_comes_before_a_larger_one() -> None:
    """Both are significant; the sentence names the higher cell first, whichever comes first in the
    sweep.
    """
    best, middle, low = make("a", 36), make("b", 20), make("c", 0, k=9)
    other = make("d", 26, k=9)
    finding = find(tell(best, middle, low, other), "distinct differences between strategies")
    assert finding.cells == (0, 1)
    assert finding.interval[0] == pytest.approx(40)
    assert "40.0 points [" in finding.text
    assert "higher with a than with b" in finding.text


def test_a_mean_and_a_paired_difference_may_disagree() -> None:
    """The highest of all, with 70 of 100, has none of the 30 questions of which the
    other has 18.
    """
    highest, other = (
        make_cell_result("a", 5, "g", [float(n >= 30) for n in range(100)]),
        make("b", 18, num=30, gold="g"),
    )
    assert (
        "Paired by question, it is worse than b on five passages g"
        in tell(highest, other).headline.text
    )


def test_a_control_is_named_only_where_no_other_setting_shows_the_factor() -> None:
    """With gold labels one passage is better by far; nobody has them, so that k is compared as
    retrieved.
    """
    cells = [
        make("a", 20, k=1),
        make("a", 22),
        make("a", 38, k=1, gold="gold_first"),
        make("a", 20, gold="gold_first"),
    ]
    controls = [replace(cell, labels=replace(cell.labels, uses_gold=True)) for cell in cells[2:]]
    story = tell(*cells[:2], *controls)
    assert (
        "5.0 points" in find(story, "with five passages than with one passage (a, retrieved; ").text
    )
    text = find(story, "differences between k").text
    assert "1 of 2 distinct differences between k is significant: 45.0 points [" in text
    assert "higher with one passage than with five passages (a, gold first; p <0.001" in text
    placement = find(story, "gold first than retrieved")
    assert placement.is_significant
    assert ", which inserts it where it was not retrieved. " in placement.text


def test_p_values_are_given_alone_and_corrected() -> None:
    """Four of four discordant questions are p = 0.125, which the second smallest of three p-values
    doubles.
    """
    story = tell(make("a", 20), make("b", 28), make("c", 24))
    assert "10.0 points [-2.3, 23.5], p = 0.125, 0.250 corrected." in story.headline.text
