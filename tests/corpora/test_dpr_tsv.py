"""DPR's dump of passages."""

import gzip
from pathlib import Path

import pytest

from winnow.corpora.dpr_tsv import DprTsv
from winnow.errors import InputError
from winnow.records import Passage


def test_dpr_dump_with_header_and_quotes(tmp_path: Path) -> None:
    """Gzipped, header skipped, doubled quotes undone; an empty passage is named by line."""
    path = tmp_path / "psgs.tsv.gz"
    path.write_bytes(gzip.compress(b'id\ttext\ttitle\n1\t"He said ""hi"""\tAaron\n2\t\tEmpty\n'))
    passages = iter(DprTsv(str(path)))
    assert next(passages) == Passage("1", "Aaron", 'He said "hi"')
    with pytest.raises(InputError, match="line 3: expected a non-empty passage"):
        next(passages)


def test_dpr_dump_streams(tmp_path: Path) -> None:
    """The first passage comes before the file is read to a broken end."""
    path = tmp_path / "psgs.tsv"
    path.write_text("1\ttext\ttitle\n" + "broken\n")
    assert next(iter(DprTsv(str(path)))).passage_id == "1"
