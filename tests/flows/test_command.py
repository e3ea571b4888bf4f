"""Stages run from Python, as their commands run them."""

import sys
from pathlib import Path

import pytest
from conftest import overrides

from flows.corpus import STAGE as CORPUS
from flows.show import STAGE as SHOW
from flows.stages.command import run
from flows.sweep import STAGE as SWEEP
from winnow.errors import ConfigError


def test_a_stage_runs_from_python(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all jobs of a multirun, with the words of a command line, which it leaves as they are."""
    monkeypatch.chdir(tmp_path)
    before = list(sys.argv)
    words = [word for word in overrides(world) if not word.startswith("corpus.name=")]
    summary = run(CORPUS, ["-m", *words, "corpus.name=one,two"])
    assert [row["passages"] for row in summary.rows] == [36, 36]
    assert len({row["corpus"] for row in summary.rows}) == 2
    assert sys.argv == before
    again = run(CORPUS, [*words, "corpus.name=one"])
    assert [row["passages"] for row in again.rows] == ["finished already"]


@pytest.mark.parametrize(
    ("stage", "words", "message"),
    [
        (SWEEP, ["k=five"], "k='five': expected a valid integer"),
        (SWEEP, ["kk=5"], "There is no setting 'kk'"),
        (CORPUS, ["dry_run=true"], "flows.corpus has no dry run; only .*sweep.* have one"),
        (SHOW, ["seeds=[1,2]"], r"seeds=\[1, 2\]: flows.show shows one training"),
        (SWEEP, ["--cfg", "job"], "these words run no job"),
    ],
)
def test_what_a_command_refuses_is_an_exception(stage: object, words: list[str], message: str) -> None:
    """With the same message, and without leaving the interpreter."""
    with pytest.raises(ConfigError, match=message):
        run(stage, words)  # type: ignore[arg-type]
