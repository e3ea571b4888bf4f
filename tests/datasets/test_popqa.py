"""PopQA's TSV."""

import json
from pathlib import Path

import pytest

from winnow.datasets.popqa import PopQa
from winnow.errors import InputError


def test_columns_by_name(tmp_path: Path) -> None:
    """The header says where question and answers are; relation and popularity go to meta."""
    path = tmp_path / "p.tsv"
    path.write_text(
        'id\tprop\ts_pop\tquestion\tpossible_answers\n7\toccupation\t42\tWhat is X?\t"[""poet"", '
        '""writer""]"\n'
    )
    (row,) = PopQa(str(path))
    assert (row.question_id, row.answers) == ("7", ("poet", "writer"))
    assert json.loads(row.meta) == {"prop": "occupation", "s_pop": "42"}


def test_a_wrong_header_is_refused(tmp_path: Path) -> None:
    """The message says which columns are needed."""
    path = tmp_path / "p.tsv"
    path.write_text("a\tb\n")
    with pytest.raises(InputError, match="a header with id"):
        list(PopQa(str(path)))


def test_the_long_tail_by_views(tmp_path: Path) -> None:
    """Fewer than 100 a month; a file without views is refused."""
    path = tmp_path / "p.tsv"
    rows = ['1\t99\ta?\t["x"]', '2\t100\tb?\t["x"]', '3\t5.0\tc?\t["x"]']
    path.write_text("\n".join(["id\ts_pop\tquestion\tpossible_answers", *rows]) + "\n")
    assert [question.question_id for question in PopQa(str(path), views_below=100)] == ["1", "3"]
    assert len(list(PopQa(str(path)))) == 3
    for spoiled in (
        'id\tquestion\tpossible_answers\n1\ta?\t["x"]\n',
        path.read_text().replace("99", "many"),
    ):
        path.write_text(spoiled)
        with pytest.raises(InputError, match="the monthly views of the subject as s_pop"):
            list(PopQa(str(path), views_below=100))
