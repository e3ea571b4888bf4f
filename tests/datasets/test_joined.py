"""Several data sets as one."""

from collections import Counter

from winnow.datasets.joined import JoinedDataset
from winnow.datasets.split import Split
from winnow.records import Question


def test_each_data_set_has_splits_of_its_own() -> None:
    """Three questions of each are withheld; ids and gold passages begin with the name of the data
    set.
    """
    parts = {
        name: [Question(str(n), f"q{n}", ("a",), (f"p{n}",)) for n in range(10)]
        for name in ("nq", "hotpotqa")
    }
    questions = list(JoinedDataset(parts, Split(test=3, dev=2)))  # type: ignore[arg-type]
    counts = Counter(
        (question.question_id.partition("/")[0], question.split) for question in questions
    )
    assert counts == {
        (name, split): n for name in parts for split, n in (("test", 3), ("dev", 2), ("train", 5))
    }
    assert all(
        question.gold_passage_ids == (question.question_id.replace("/", "/p"),)
        for question in questions
    )
    assert len({question.question_id for question in questions}) == 20
