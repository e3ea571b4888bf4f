"""Folders that stages write to."""

import pytest

from flows.stages.outputs import check_outputs
from winnow.errors import ConfigError


def test_two_jobs_do_not_write_to_one_place() -> None:
    """The last would remain; files of one folder may have other names."""
    check_outputs("export.out", [("a", "dev"), ("a", "test"), ("b", "dev")])
    with pytest.raises(ConfigError, match=r"export\.out='a' is the folder of 2 jobs"):
        check_outputs("export.out", [("a",), ("b",), ("./a/",)])
