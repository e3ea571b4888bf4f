"""Whether answers need what they cite."""

import pytest

from winnow.metrics.base import evaluate
from winnow.metrics.citation_use import Changed
from winnow.testing import make_sample


def test_the_share_is_of_the_answers_that_were_asked_for_again() -> None:
    """Others are left out, and are no unchanged ones."""
    samples = [
        make_sample("x", n, trace=trace)
        for n, trace in enumerate([("changed: yes",), ("changed: no",), ("vote: x",)])
    ]
    value = evaluate([Changed("m", "m")], samples)["m"]
    assert (value.mean, value.n) == (pytest.approx(1 / 2), 2)
