"""Weights of contexts by retriever and estimator."""

from dataclasses import replace

import pytest

from winnow.contexts.weighting import ContextWeighting
from winnow.errors import ArtifactError, ConfigError
from winnow.testing import make_context

CONTEXTS = [
    replace(make_context(1, "a"), score=8.0, log_odds=1.0),
    replace(make_context(2, "b"), score=6.0, log_odds=3.0),
]
INSERTED = replace(make_context(9, "gold", is_gold=True), rank=0, score=None, log_odds=2.0)


def test_each_kind() -> None:
    """Nothing, half of the retriever's scores (an inserted passage as the lowest), the log-odds."""
    contexts = [*CONTEXTS, INSERTED]
    assert [c.log_weight for c in ContextWeighting().apply(contexts)] == [0.0, 0.0, 0.0]
    assert [c.log_weight for c in ContextWeighting("retriever", 0.5).apply(contexts)] == [
        4.0,
        3.0,
        3.0,
    ]
    assert [c.log_weight for c in ContextWeighting("estimator").apply(contexts)] == [1.0, 3.0, 2.0]


def test_what_is_missing_or_unknown_is_named() -> None:
    """A passage without log-odds, one without a retriever score; a kind that is none."""
    with pytest.raises(
        ArtifactError,
        match=r"'p2' \(rank 2\) has no retriever score.*FiD's released ones.*weighting.by=none",
    ):
        ContextWeighting("retriever").apply(
            [CONTEXTS[0], replace(CONTEXTS[1], score=None), INSERTED]
        )
    with pytest.raises(ArtifactError, match="'p1' has no log-odds to be weighted by"):
        ContextWeighting("estimator").apply([make_context(1, "a")])
    with pytest.raises(ConfigError, match="none, retriever or estimator; received 'bm25'"):
        ContextWeighting("bm25")  # type: ignore[arg-type]
