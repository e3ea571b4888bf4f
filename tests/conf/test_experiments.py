"""What the cells of every experiment resolve to: models, sizes, splits, decoding, k, mixtures."""

from tests.conf import reported_table
from tests.conf.experiment_table import TABLE, format_table


def test_every_experiment_resolves_to_the_committed_table() -> None:
    """A change of a default, of an option or of the grid's rule shows here, cell by cell."""
    recorded, current = TABLE.read_text(encoding="utf-8").splitlines(), format_table().splitlines()
    lost, new = ([line for line in one if line not in other] for one, other in ((recorded, current), (current, recorded)))
    assert (lost, new) == ([], []), "Run `PYTHONPATH=. python tests/conf/experiment_table.py` and look at the difference."


def test_every_cell_has_the_paper_s_value_of_its_row_and_condition() -> None:
    """RAG has its own values and not those of RE-RAG; a cell without a counterpart has none."""
    recorded = reported_table.TABLE.read_text(encoding="utf-8").splitlines()
    current = reported_table.format_table().splitlines()
    assert recorded == current, "Run `PYTHONPATH=. python tests/conf/reported_table.py` and look at the difference."
    assert "re_rag/rag,rag,NQ,base,marginal,25,retrieved,1,retriever,retriever,em,39.5" in current
    assert "re_rag/fid,table1,NQ,base,fid,25,retrieved,1,retriever,none,em," in current
