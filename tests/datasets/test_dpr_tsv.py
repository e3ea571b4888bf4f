"""DPR's question files."""

from pathlib import Path

import pytest

from winnow.datasets.dpr_tsv import DprQuestions

SHARED = Path(__file__).parents[3] / "shared" / "data"


def test_lists_in_fields(tmp_path: Path) -> None:
    """Plain and quoted fields both hold a Python list."""
    path = tmp_path / "q.tsv"
    path.write_text('who sings\t[\'Linda Davis\']\nhow many\t"[""O\'Hara"", \'x\']"\n')
    assert [q.answers for q in DprQuestions(str(path))] == [("Linda Davis",), ("O'Hara", "x")]


@pytest.mark.skipif(
    not SHARED.exists(), reason="real files lie in ../shared/data, which is not here"
)
def test_the_real_files() -> None:
    """Every question of DPR's NQ and TriviaQA samples is read, emoji answers included."""
    assert sum(1 for _ in DprQuestions(str(SHARED / "dpr.nq.dev.1000.tsv"))) == 1000
    trivia = list(DprQuestions(str(SHARED / "dpr.trivia.dev.2000.tsv")))
    assert len(trivia) == 2000
    assert "Helicopters" in trivia[0].answers
