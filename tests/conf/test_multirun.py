"""Words of a multirun."""

import pytest

from flows.settings.multirun import split_multirun
from winnow.errors import ConfigError


def test_a_multirun_has_each_combination_in_hydras_order() -> None:
    """The last axis changes first; the last value of a key counts; a list is one value."""
    jobs = split_multirun(["k=1,2", "strategy=a,b", "metric=[em,f1]"])
    assert jobs == [
        ["k=1", "strategy=a", "metric=[em,f1]"],
        ["k=1", "strategy=b", "metric=[em,f1]"],
        ["k=2", "strategy=a", "metric=[em,f1]"],
        ["k=2", "strategy=b", "metric=[em,f1]"],
    ]
    assert split_multirun(["k=1,2", "k=3"]) == [["k=3"]]
    assert split_multirun(["k=range(1,4)"]) == [["k=1"], ["k=2"], ["k=3"]]


def test_values_without_a_list_are_refused() -> None:
    """With the forms that have one."""
    with pytest.raises(ConfigError, match=r"cannot be listed .* Write k=1,5"):
        split_multirun(["k=interval(1,5)"])
