"""Several corpora as one."""

from winnow.corpora.joined import JoinedCorpus
from winnow.records import Passage


def test_ids_begin_with_the_name_of_the_corpus() -> None:
    """Two corpora with the same ids do not collide, and their order is kept."""
    first, second = [Passage("1", "A", "a"), Passage("2", "B", "b")], [Passage("1", "C", "c")]
    joined = list(JoinedCorpus({"nq": first, "hotpotqa": second}))  # type: ignore[dict-item]
    assert [(passage.passage_id, passage.title) for passage in joined] == [
        ("nq/1", "A"),
        ("nq/2", "B"),
        ("hotpotqa/1", "C"),
    ]
