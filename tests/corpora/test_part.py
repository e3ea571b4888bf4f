"""Parts of a corpus."""

import pytest

from winnow.corpora.part import CorpusPart
from winnow.errors import ConfigError
from winnow.records import Passage

PASSAGES = [Passage(str(number), "", f"text {number}") for number in range(300)]


def test_parts_divide_the_corpus() -> None:
    """Each passage is in one part; another seed divides differently; the order is kept."""
    parts = [list(CorpusPart(PASSAGES, number, 3)) for number in range(3)]  # type: ignore[arg-type]
    assert (
        sorted((passage for part in parts for passage in part), key=lambda p: int(p.passage_id))
        == PASSAGES
    )
    assert all(70 < len(part) < 130 for part in parts)
    assert [int(passage.passage_id) for passage in parts[0]] == sorted(
        int(passage.passage_id) for passage in parts[0]
    )
    assert list(CorpusPart(PASSAGES, 0, 3, seed=1)) != parts[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "of"), [(2, 2), (-1, 2), (0, 0)])
def test_a_part_that_does_not_exist_is_refused(number: int, of: int) -> None:
    """With the values received."""
    with pytest.raises(ConfigError, match=f"received number={number} and of={of}"):
        CorpusPart(PASSAGES, number, of)  # type: ignore[arg-type]
