"""PopQA's TSV."""

import json
from pathlib import Path

import pytest

from winnow.datasets.popqa import PopQa
from winnow.errors import InputError


def test_columns_by_name(tmp_path: Path) -> None:
    """The header says where question and answers are; relation and popularity go to meta."""
    path = tmp_path / "p.tsv"
    path.write_text('id\tprop\ts_pop\tquestion\tpossible_answers\n7\toccupation\t42\tWhat is X?\t"[""poet"", ""writer""]"\n')
    (row,) = PopQa(str(path))
    assert (row.question_id, row.answers) == ("7", ("poet", "writer"))
    assert json.loads(row.meta) == {"prop": "occupation", "s_pop": "42"}


def test_a_wrong_header_is_refused(tmp_path: Path) -> None:
    """The message says which columns are needed."""
    path = tmp_path / "p.tsv"
    path.write_text("a\tb\n")
    with pytest.raises(InputError, match="a header with id"):
        list(PopQa(str(path)))
