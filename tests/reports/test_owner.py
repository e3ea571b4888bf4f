"""The file that says whose a report's pages are."""

from pathlib import Path

import pytest

from winnow.errors import ConfigError
from winnow.reports.owner import OWNER, read_owner


@pytest.mark.parametrize("text", ['{"method": "grid"}', "[]", '{"sweep": "a", "data', "", "\xff"])
def test_a_file_of_another_program_is_named(text: str, tmp_path: Path) -> None:
    """With what is in it and what to do."""
    file = tmp_path / OWNER
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"sweep\.json is not a report's: .* Move it away"):
        read_owner(file)
