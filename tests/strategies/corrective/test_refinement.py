"""The strips that a refinement keeps, by scores written by hand."""

import pytest

from tests.plans import play
from tests.strategies.corrective.serving import ESTIMATED, ONE_SENTENCE, QUESTION, serve
from winnow.errors import ConfigError
from winnow.records import Passage
from winnow.requests import Estimate
from winnow.strategies.corrective.refinement import Knowledge, Refinement


def test_the_order_of_strips() -> None:
    """By the place in the passages, or the best first; at most `top`, and without a threshold all
    scores pass.
    """
    passages = [Passage("p", "T", "Low one. High one."), Passage("q", "", "Middle one.")]
    scores = {"Low one.": -0.9, "High one.": 0.9, "Middle one.": 0.4}
    for order, threshold, expected in (
        ("original", -0.5, ["High one.", "Middle one."]),
        ("score", -0.5, ["High one.", "Middle one."]),
        ("score", None, ["High one.", "Middle one.", "Low one."]),
        ("original", None, ["Low one.", "High one.", "Middle one."]),
    ):
        knowledge, served = play(
            Refinement(ONE_SENTENCE, threshold, 3, order, "none").refine(
                QUESTION, passages, ESTIMATED
            ),
            serve(scores),
        )
        assert [strip.text for strip in knowledge.strips] == expected
        assert all(isinstance(request, Estimate) for request in served)
    knowledge, _ = play(
        Refinement(ONE_SENTENCE, None, 1).refine(QUESTION, passages, ESTIMATED), serve(scores)
    )
    assert [(strip.passage_id, strip.title) for strip in knowledge.strips] == [("p#1", "T")]


def test_strips_are_joined() -> None:
    """Successive strips of one passage under its title, or all of them as the authors'
    code does.
    """
    passages = [Passage("p", "T", "One. Two. Three."), Passage("q", "U", "Four.")]
    scores = {"One.": 0.5, "Two.": -0.9, "Three.": 0.7, "Four.": 0.9}
    for join, separator, order, expected in (
        ("passage", " ", "original", [("p#0", "T", "One. Three."), ("q#0", "U", "Four.")]),
        ("passage", " ", "score", [("q#0", "U", "Four."), ("p#2", "T", "Three. One.")]),
        ("all", "; ", "score", [("q#0", "", "Four.; Three.; One.")]),
    ):
        refinement = Refinement(ONE_SENTENCE, -0.5, 3, order, join, separator)  # type: ignore[arg-type]
        knowledge, _ = play(refinement.refine(QUESTION, passages, ESTIMATED), serve(scores))
        assert [
            (strip.passage_id, strip.title, strip.text) for strip in knowledge.strips
        ] == expected
        assert (knowledge.kept, knowledge.total) == (3, 4)


def test_short_strips_are_not_evaluated() -> None:
    """They have the score -1, so that they are kept only if scores are not filtered and too few
    others are left.
    """
    passages = [Passage("p", "", "Yes. A long enough one.")]
    refinement = Refinement(ONE_SENTENCE, None, 2, "score", "none", min_words=4)
    knowledge, served = play(
        refinement.refine(QUESTION, passages, ESTIMATED), serve({"A long enough one.": -0.2})
    )
    assert [strip.text for strip in knowledge.strips] == ["A long enough one.", "Yes."]
    assert len(served) == 1


def test_the_best_strip_stands_in_for_none() -> None:
    """Where no strip passes, the first of the best ones is kept; passages without text give no
    strip.
    """
    passages = [Passage("p", "", "Low one. As low."), Passage("q", "", " ")]
    knowledge, _ = play(
        Refinement(ONE_SENTENCE).refine(QUESTION, passages, ESTIMATED),
        serve({"Low one.": -0.8, "As low.": -0.8}),
    )
    assert [strip.text for strip in knowledge.strips] == ["Low one."]
    assert (knowledge.total, knowledge.kept, knowledge.is_fallback) == (2, 1, True)
    knowledge, served = play(
        Refinement(ONE_SENTENCE).refine(QUESTION, passages[1:], ESTIMATED), serve({})
    )
    assert (knowledge, served) == (Knowledge(), [])


def test_settings_that_select_nothing_are_refused() -> None:
    """Each with the value received."""
    for settings, message in (
        ({"top": 0}, "top must be at least 1; received 0"),
        ({"order": "best"}, "original or score; received 'best'"),
        ({"join": "some"}, "none, passage or all; received 'some'"),
    ):
        with pytest.raises(ConfigError, match=message):
            Refinement(**settings)  # type: ignore[arg-type]


def test_strips_of_a_derived_passage_are_of_its_sources() -> None:
    """Else no metric would find the gold passage of which a processor made the text."""
    passages = [Passage("p1+p2", "", "One.", ("p1", "p2")), Passage("q", "", "Two.")]
    knowledge, _ = play(
        Refinement(ONE_SENTENCE, None, 3, join="none").refine(QUESTION, passages, ESTIMATED),
        serve({"One.": 0.5, "Two.": 0.1}),
    )
    assert [strip.sources for strip in knowledge.strips] == [("p1", "p2"), ("q",)]
