"""Counts of a run."""

import pytest

from winnow.driver.stats import RunStats


def test_the_shared_requests_are_those_without_a_call_of_this_process() -> None:
    """Whether the ledger, another plan or another process had them; without a request, none is
    shared.
    """
    assert RunStats().shared == 0.0
    assert RunStats(
        requests=8, executed=2, ledger_hits=3, merged=2, external=1
    ).shared == pytest.approx(0.75)
    assert RunStats(requests=8, executed=8).shared == 0.0
