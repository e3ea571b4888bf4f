"""What the cells of every experiment resolve to: models, sizes, splits, decoding, k, mixtures.

Tests of all experiments are in one file, and so in one process, where each experiment is composed
once.
"""

from pathlib import Path

import pytest

from flows.acquire import plan_downloads
from flows.compose import compose_params
from flows.settings.composition import list_options
from flows.settings.door import open_settings
from flows.settings.overrides import load_params
from tests.conf import reported_table
from tests.conf.building import build_components
from tests.conf.experiment_table import TABLE, compose_experiment, format_table, list_plain_cells


def test_every_experiment_resolves_to_the_committed_table() -> None:
    """A change of a default, of an option or of the grid's rule shows here, cell by cell."""
    recorded, current = TABLE.read_text(encoding="utf-8").splitlines(), format_table().splitlines()
    lost, new = (
        [line for line in one if line not in other]
        for one, other in ((recorded, current), (current, recorded))
    )
    assert (lost, new) == (
        [],
        [],
    ), "Run `PYTHONPATH=. python tests/conf/experiment_table.py` and look at the difference."


def test_every_cell_has_the_paper_s_value_of_its_row_and_condition() -> None:
    """RAG has its own values and not those of RE-RAG; a cell without a counterpart has none."""
    recorded = reported_table.TABLE.read_text(encoding="utf-8").splitlines()
    current = reported_table.format_table().splitlines()
    assert recorded == current, (
        "Run `PYTHONPATH=. python tests/conf/reported_table.py` and look at the difference."
    )
    assert "re_rag/rag,rag,NQ,base,marginal,25,retrieved,1,retriever,retriever,em,39.5" in current
    assert "re_rag/fid,table1,NQ,base,fid,25,retrieved,1,retriever,none,em," in current


@pytest.mark.parametrize("name", list_options("experiment"))
def test_the_cells_of_an_experiment_in_a_composed_file_are_those_of_the_command(
    name: str, tmp_path: Path
) -> None:
    """Whatever its options refer to."""
    path = tmp_path / "params.yaml"
    path.write_text(compose_params([f"experiment={name}"]))
    assert list_plain_cells(compose_experiment(name)) == list_plain_cells(
        open_settings(load_params(path, []))
    )


@pytest.mark.parametrize("name", list_options("experiment"))
def test_an_experiment_builds(name: str) -> None:
    """Each `_target_` is found and takes its settings."""
    build_components(compose_experiment(name))


@pytest.mark.parametrize("name", list_options("experiment"))
def test_an_experiment_lists_what_it_needs(name: str) -> None:
    """Without an error, whatever its grid is; each row says where its content is from."""
    for row in plan_downloads([compose_experiment(name)]).rows:
        assert {"asset", "folder", "disk, at most", "checksum", ""} == set(row)
        assert row["asset"] == "no address" or str(row["asset"]).partition(":")[0] in (
            "hub",
            "https",
            "pypi",
            "hf",
            "npm",
        )
