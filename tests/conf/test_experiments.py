"""What the cells of every experiment resolve to: models, sizes, splits, decoding, k, mixtures."""

from tests.conf.experiment_table import TABLE, format_table


def test_every_experiment_resolves_to_the_committed_table() -> None:
    """A change of a default, of an option or of the grid's rule shows here, cell by cell."""
    recorded, current = TABLE.read_text(encoding="utf-8").splitlines(), format_table().splitlines()
    lost, new = ([line for line in one if line not in other] for one, other in ((recorded, current), (current, recorded)))
    assert (lost, new) == ([], []), "Run `PYTHONPATH=. python tests/conf/experiment_table.py` and look at the difference."
