"""The folder listing is the architecture; import rules are import-linter's (pyproject.toml)."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMITS = {
    "flows/project/artifacts.py": 216,
    "flows/sweep.py": 217,
    "flows/evaluate_estimator.py": 170,
}


def test_few_modules_stand_at_the_top() -> None:
    """At most twelve files beside the packages; every package says in one sentence what
    it holds.
    """
    source = ROOT / "src" / "winnow"
    assert len([file for file in source.glob("*.py") if file.name != "__init__.py"]) <= 12
    packages = list(source.glob("*/__init__.py"))
    assert len(packages) > 15
    assert [file.parent.name for file in packages if not file.read_text().startswith('"""')] == []


@pytest.mark.parametrize("folder", ["src", "flows", "tests", "bench"])
def test_files_are_short(folder: str) -> None:
    """At most 400 lines a file, and fewer where the architecture depends on it."""
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text().splitlines())
        for file in (ROOT / folder).rglob("*.py")
    }
    assert {name: count for name, count in lengths.items() if count > LIMITS.get(name, 400)} == {}


def test_tests_mirror_the_source() -> None:
    """Every test folder is a folder of the source or of the repository, or holds data."""
    folders = {"flows", "conf", "golden", "fuzzing", "data", "__pycache__"}
    folders |= {file.name for file in (ROOT / "src" / "winnow").iterdir() if file.is_dir()}
    assert {file.name for file in (ROOT / "tests").iterdir() if file.is_dir()} <= folders
