"""TREC's run files and judgments."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.errors import ConfigError, InputError
from winnow.formats.trec import read_trec_run, write_qrels, write_trec_run
from winnow.records import Hit

RUN = "q1 Q0 d2 2 7.5 bm25\nq1 Q0 d1 1 9 bm25\n\nq2\tQ0\td1\t1\t-1e-3\trun\nq1 Q0 d3 3 7.5 bm25\n"


def test_a_run_is_ordered_by_score_then_by_rank(tmp_path: Path) -> None:
    """Whatever the order of the lines; a folder has the runs of several splits."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/test.trec").write_text(RUN)
    expected = {"q1": [Hit("d1", 9.0), Hit("d2", 7.5), Hit("d3", 7.5)], "q2": [Hit("d1", -0.001)]}
    assert read_trec_run(tmp_path / "runs/test.trec") == expected
    (tmp_path / "runs/dev.trec").write_text("q3 Q0 d9 1 1 x\n")
    assert read_trec_run(tmp_path / "runs") == {**expected, "q3": [Hit("d9", 1.0)]}
    (tmp_path / "runs/train.trec").write_text("q3 Q0 d1 1 1 x\n")
    with pytest.raises(
        InputError, match=r"dev.trec and .*train.trec both rank passages for question 'q3'"
    ):
        read_trec_run(tmp_path / "runs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"Check retriever\.engine\.path"):
        read_trec_run(tmp_path / "empty")


def test_tabs_separate_ids_with_spaces(tmp_path: Path) -> None:
    """A line with five tabs is split at them alone."""
    (tmp_path / "run").write_text("my q\tQ0\tNew York\t1\t2.5\tx\nmy q\tQ0\tYork\t2\t1\tx\n")
    assert read_trec_run(tmp_path / "run") == {"my q": [Hit("New York", 2.5), Hit("York", 1.0)]}


def test_equal_scores_are_in_the_order_of_the_ranks(tmp_path: Path) -> None:
    """Not in that of the lines."""
    (tmp_path / "run").write_text("q Q0 b 2 1 x\nq Q0 a 1 1 x\nq Q0 c 3 1 x\n")
    assert [hit.passage_id for hit in read_trec_run(tmp_path / "run")["q"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 d1 1 9", "line 2"),
        ("q1 Q0 d1 one 9 x", "line 2"),
        ("q1 Q0 d1 1 nan x", "line 2"),
        ("q1 Q0 d1 1 inf x", "line 2"),
        ("q1 Q0 d0 2 1 x", "'d0' is there twice"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    """With its number and what is expected."""
    (tmp_path / "run").write_text(f"q1 Q0 d0 1 9 x\n{line}\n")
    with pytest.raises(InputError, match=message):
        read_trec_run(tmp_path / "run")


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_what_is_written_is_read_in_the_same_order(
    tmp_path_factory: pytest.TempPathFactory, scores: list[float]
) -> None:
    """Scores that fall or stay are kept exactly, others become reciprocal ranks."""
    path = tmp_path_factory.mktemp("run") / "run.trec"
    hits = [Hit(f"d{number}", score) for number, score in enumerate(scores)]
    assert write_trec_run(path, [("q", hits)]) == len(hits)
    (read,) = read_trec_run(path).values()
    assert [hit.passage_id for hit in read] == [hit.passage_id for hit in hits]
    if scores == sorted(scores, reverse=True):
        assert read == hits


def test_rankings_without_scores_and_odd_ids(tmp_path: Path) -> None:
    """The first get reciprocal ranks; ids with white space cannot be written, and nothing is left
    behind.
    """
    write_trec_run(tmp_path / "run", [("q", [Hit("a", None), Hit("b", 3.0)])], "mine")
    assert (tmp_path / "run").read_text() == "q Q0 a 1 1.0 mine\nq Q0 b 2 0.5 mine\n"
    with pytest.raises(ConfigError, match="'a b' is empty or contains white space"):
        write_trec_run(tmp_path / "other", [("q", [Hit("a b", 1.0)])])
    assert write_qrels(tmp_path / "qrels", {"q1": ["a", "b"], "q2": []}) == 2
    assert (tmp_path / "qrels").read_text() == "q1 0 a 1\nq1 0 b 1\n"
    with pytest.raises(ConfigError, match="'' is empty"):
        write_qrels(tmp_path / "none", {"": ["a"]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["qrels", "run"]
