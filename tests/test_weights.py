"""Weights of contexts by retriever and estimator."""

from dataclasses import replace

import pytest

from winnow.errors import ArtifactError, ConfigError
from winnow.testing import context
from winnow.weights import Weighing

CONTEXTS = [replace(context(1, "a"), score=8.0, log_odds=1.0), replace(context(2, "b"), score=6.0, log_odds=3.0)]
INSERTED = replace(context(9, "gold", is_gold=True), rank=0, score=0.0, log_odds=2.0)


def test_each_kind() -> None:
    """Nothing, half of the retriever's scores (an inserted passage as the lowest), the log-odds."""
    shown = [*CONTEXTS, INSERTED]
    assert [c.log_weight for c in Weighing().weigh(shown)] == [0.0, 0.0, 0.0]
    assert [c.log_weight for c in Weighing("retriever", 0.5).weigh(shown)] == [4.0, 3.0, 3.0]
    assert [c.log_weight for c in Weighing("estimator").weigh(shown)] == [1.0, 3.0, 2.0]


def test_what_is_missing_or_unknown_is_named() -> None:
    """A passage without log-odds; a kind that is none."""
    with pytest.raises(ArtifactError, match="'p1' has no log-odds to be weighed by"):
        Weighing("estimator").weigh([context(1, "a")])
    with pytest.raises(ConfigError, match="none, retriever or estimator; received 'bm25'"):
        Weighing("bm25")  # type: ignore[arg-type]
