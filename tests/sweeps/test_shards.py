"""Shards: each question is in exactly one, whatever the others are."""

from pathlib import Path

import pytest

from winnow.errors import ConfigError
from winnow.sweeps.shards import Shard

IDS = [f"question-{number}" for number in range(2000)]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_question_is_in_one_shard(count: int) -> None:
    """The parts are about equal, and do not depend on the other questions or on the process."""
    parts = [
        [name for name in IDS if Shard(number, count).contains(name)]
        for number in range(1, count + 1)
    ]
    assert sorted(name for part in parts for name in part) == sorted(IDS)
    assert all(0.8 < len(part) * count / len(IDS) < 1.2 for part in parts)
    owners = {
        name: [number for number in range(1, 5) if Shard(number, 4).contains(name)]
        for name in IDS[:2]
    }
    assert owners == {
        "question-0": [1],
        "question-1": [4],
    }, "other versions divide the questions alike"


def test_a_shard_is_written_as_number_and_count() -> None:
    """From 1 to the number of shards; anything else is refused with the value."""
    assert Shard.parse("2/4") == Shard(2, 4)
    assert Shard(2, 4).find_ledger(Path("data/shards")) == Path("data/shards/ledger-2-of-4.sqlite")
    for text in ("0/4", "5/4", "2", "a/b", "2/4/8", "-1/4", "1/0"):
        with pytest.raises(ConfigError, match=f"received {text!r}"):
            Shard.parse(text)
