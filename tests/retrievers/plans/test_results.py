"""Hits of searches: with scores where the search engine gives them."""

from winnow.records import Hit, Passage
from winnow.requests import Pages
from winnow.retrievers.plans.results import list_hits


def test_results_without_scores_are_hits_without_scores() -> None:
    """None says that a score is not known; 0 would be one."""
    assert list_hits(Pages((Passage("a", "", ""),))) == [Hit("a", None)]
    assert list_hits(Pages((Passage("a", "", ""),), scores=(2.0,))) == [Hit("a", 2.0)]
    assert list_hits(Pages(())) == []
