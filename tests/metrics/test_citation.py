"""Citation scores against numbers worked out by hand."""

import pytest

from winnow.errors import ConfigError
from winnow.metrics.citation import score_citations


def test_rage_drops_invalid_numbers_and_collapses_duplicates() -> None:
    """Cited 1, 1, 2 and 9 of four documents with 1 and 3 relevant: P = 1/2, R = 1/2."""
    result = score_citations("A [1]. B [1][2]. C [9].", [True, False, True, False])
    assert (result.precision, result.recall, result.f1) == (0.5, 0.5, 0.5)


def test_paper_counts_every_citation() -> None:
    """The same reply over all four citations: two of them are right, so P = 2/4."""
    assert score_citations("A [1]. B [1][2]. C [9].", [True, False, True, False], dialect="paper").precision == 0.5
    assert score_citations("A [1]. C [9].", [True, False], dialect="paper").precision == 0.5
    assert score_citations("A [1]. C [9].", [True, False]).precision == 1.0


def test_nothing_cited_and_nothing_relevant() -> None:
    """No citation gives zeros; no relevant document gives recall 0 instead of a crash; [0] is no document."""
    assert score_citations("No citation.", [True]).f1 == 0.0
    assert score_citations("See [1].", [False]).recall == 0.0
    assert score_citations("See [0].", [True]).precision == 0.0


def test_unknown_dialect() -> None:
    """An unknown dialect is refused."""
    with pytest.raises(ConfigError, match="dialect"):
        score_citations("", [], dialect="nope")  # type: ignore[arg-type]
