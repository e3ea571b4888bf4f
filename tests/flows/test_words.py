"""Words of a command line."""

import pytest

from flows.stages.words import complete_words, compose_jobs, take_value
from winnow.errors import ConfigError


def test_overrides_are_completed_and_flags_are_not() -> None:
    """Also not the value of a flag, even if it looks like an override."""
    new = "dataset.split.shuffle=true"
    words = ["--cfg", "job", "--package", "k=1", "-m", "k=1,2"]
    assert complete_words([*words, new], grid=True) == [*words, f"++{new}"]


def test_only_some_words_need_hydra_itself() -> None:
    """Its flags but -m, its settings, and launchers."""
    jobs = compose_jobs(["-m", "k=1,5", "depth=7"])
    assert jobs is not None
    assert [(job.k, job.depth) for job in jobs] == [(1, 7), (5, 7)]
    for words in (["--cfg", "job"], ["hydra.verbose=true"], ["-m", "k=1,2", "runner=joblib"]):
        assert compose_jobs(words) is None


def test_a_flag_with_a_value() -> None:
    """Its value may be anywhere among the words, but must be there."""
    words = ["k=1", "--track", "folder", "depth=3"]
    assert take_value(words, "--track", "a folder") == ("folder", ["k=1", "depth=3"])
    assert take_value(words[:1], "--track", "a folder") == ("", ["k=1"])
    with pytest.raises(ConfigError, match=r"^--track needs a folder\.$"):
        take_value(["--track"], "--track", "a folder")
