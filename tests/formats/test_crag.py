"""The files of CRAG's authors."""

from pathlib import Path

import pytest

from winnow.corpora.crag import CragCorpus
from winnow.errors import InputError
from winnow.formats.crag import read_crag_rows
from winnow.records import Passage

PUBLISHED = Path(__file__).parents[3] / "shared/data/crag"
PAIRS = "Who is A? [SEP] T // body // rest\nwho is  a? [SEP] no title\nWho is B? [SEP] U // other\n"


def test_pairs(tmp_path: Path) -> None:
    """Adjacent lines of one question are its contexts; without " // " there is no title; ids are
    lines.
    """
    (tmp_path / "test.txt").write_text(PAIRS)
    rows = list(read_crag_rows(tmp_path / "test.txt"))
    assert [(row.question, [(p.title, p.text) for p in row.passages]) for row in rows] == [
        ("who is  a?", [("T", "body // rest"), ("", "no title")]), ("Who is B?", [("U", "other")])
    ]  # fmt: skip
    assert list(CragCorpus(str(tmp_path / "test.txt")))[2] == Passage("test.txt:3", "U", "other")


def test_labels_behind_contexts_are_left_out(tmp_path: Path) -> None:
    """A tab and a number is what the authors' program writes for the evaluator; a number without a
    tab is text.
    """
    contexts = ("T // body\t1", "U // since 1", "V // x\t-1", "W // \t1", "\t0 ")
    (tmp_path / "test.txt").write_text(
        "".join(f"Who is A? [SEP] {context}\n" for context in contexts)
    )
    (row,) = read_crag_rows(tmp_path / "test.txt")
    assert [passage.text for passage in row.passages] == ["body", "since 1", "x", "", ""]


def test_knowledge(tmp_path: Path) -> None:
    """A line a question; "#" alone is no knowledge; a file with a line less is refused."""
    questions, knowledge = tmp_path / "sources.txt", tmp_path / "correct.txt"
    questions.write_text("q one?\nq two?\n")
    knowledge.write_text("#text one\n#\n")
    rows = list(read_crag_rows(knowledge, questions))
    assert [(row.question, [p.text for p in row.passages]) for row in rows] == [
        ("q one?", ["text one"]),
        ("q two?", []),
    ]
    knowledge.write_text("#text one\n")
    with pytest.raises(InputError, match="1 rows, but there are 2 questions"):
        list(read_crag_rows(knowledge, questions))


def test_adjacent_questions_of_one_text(tmp_path: Path) -> None:
    """Equal contexts begin another row; others cannot be told apart, and are refused."""
    file = tmp_path / "x.txt"
    file.write_text(
        "a? [SEP] 1\na? [SEP] 2\na? [SEP] 1\na? [SEP] 2\nb? [SEP] 1\nb? [SEP] 3\nc? [SEP] 1\nc? "
        "[SEP] 2\n"
    )
    assert [[p.text for p in row.passages] for row in read_crag_rows(file)] == [
        ["1", "2"],
        ["1", "2"],
        ["1", "3"],
        ["1", "2"],
    ]
    file.write_text(
        "a? [SEP] 1\na? [SEP] 2\na? [SEP] 3\nb? [SEP] 1\nb? [SEP] 3\nc? [SEP] 1\nc? [SEP] 2\n"
    )
    assert [len(row.passages) for row in read_crag_rows(file)] == [3, 2, 2]
    file.write_text(
        "b? [SEP] 1\nb? [SEP] 2\na? [SEP] 1\na? [SEP] 2\na? [SEP] 3\na? [SEP] 4\nc? [SEP] 1\nc? "
        "[SEP] 2\n"
    )
    with pytest.raises(InputError, match="4 lines in a row of the question 'a\\?', but 2 of most"):
        list(read_crag_rows(file))


def test_an_empty_line_of_knowledge_is_no_knowledge(tmp_path: Path) -> None:
    """With or without "#", also as the last line; empty lines at the end of either file
    are none.
    """
    questions, knowledge = tmp_path / "sources.txt", tmp_path / "correct.txt"
    questions.write_text("q one?\nq two?\nq three?\n\n")
    for text in ("text one\n\n#text three\n", "text one\n\n#text three\n\n\n"):
        knowledge.write_text(text)
        rows = list(read_crag_rows(knowledge, questions))
        assert [[p.text for p in row.passages] for row in rows] == [
            ["text one"],
            [],
            ["text three"],
        ]
    knowledge.write_text("text one\n\n\n")
    assert [len(row.passages) for row in read_crag_rows(knowledge, questions)] == [1, 0, 0]


@pytest.mark.parametrize("line", ["no separator", "q? [SEP] ", " [SEP] text"])
def test_other_lines_are_refused(tmp_path: Path, line: str) -> None:
    """With file and line."""
    (tmp_path / "x.txt").write_text(line)
    with pytest.raises(InputError, match=r"x\.txt, line 1"):
        list(read_crag_rows(tmp_path / "x.txt"))


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="CRAG's published inputs are not beside this checkout"
)
def test_published_files() -> None:
    """Ten passages for each of thirty people, and knowledge for 1,399 questions of PopQA."""
    rows = list(read_crag_rows(PUBLISHED / "bio/test_bio.300.txt"))
    assert [len(row.passages) for row in rows] == [10] * 30
    assert rows[0].passages[0].title == "Mae Beavers"
    assert (
        len(
            list(
                read_crag_rows(PUBLISHED / "popqa/ref/correct.txt", PUBLISHED / "popqa/sources.txt")
            )
        )
        == 1399
    )
