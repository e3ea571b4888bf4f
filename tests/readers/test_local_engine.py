"""What local readers share: windows, groups of one batch, and what none serves."""

from pathlib import Path

import pytest

from tests.modeling.turn_model import make_turn_model
from winnow.errors import ConfigError, ModelError
from winnow.readers.local import LocalReader
from winnow.records import Decoding
from winnow.requests import Generate, Likelihood, Message, Search
from winnow.testing import make_tiny_causal_lm


def test_a_batch_holds_requests_that_can_share_one(tmp_path: Path) -> None:
    """Same reply length; likelihoods by themselves; the longest prompt decides which group goes
    first.
    """
    reader = LocalReader(
        str(make_tiny_causal_lm(tmp_path, ["a b c"])), "t", "float32", batch_size=8
    )
    short, long = (Message("user", "a " * n) for n in (3, 30))
    reader.submit(
        [
            Generate((short,), Decoding(2)),
            Likelihood((short,), "b"),
            Generate((long,), Decoding(4)),
        ]
    )
    reader.submit([Generate((short,), Decoding(4))])
    batches = []
    while batch := reader.collect(5.0):
        batches.append([type(q).__name__ for q, _ in batch])
    assert batches == [["Generate", "Generate"], ["Likelihood"], ["Generate"]]


def test_likelihoods_have_a_window_too(tmp_path: Path) -> None:
    """Prompt and continuation together."""
    reader = LocalReader(
        str(make_tiny_causal_lm(tmp_path, ["a b c"], context_length=100)), "t", "float32"
    )
    assert reader.fits(Likelihood((Message("user", "a"),), "b"))
    assert not reader.fits(Likelihood((Message("user", "a"),), "x y z " * 60))


def test_what_no_reader_serves_and_what_cannot_work(tmp_path: Path) -> None:
    """Searches; folders without a model, before anything is loaded."""
    with pytest.raises(ConfigError, match="serves Generate and Likelihood"):
        LocalReader("x", "t").submit([Search("q", 1)])
    with pytest.raises(ModelError, match=r"no config\.json"):
        LocalReader(str(tmp_path), "t").check()


def test_a_likelihood_with_its_end_has_the_end_of_a_reply(tmp_path: Path) -> None:
    """Which the model writes, rather than the end of a text; without one it has neither."""
    folder, turn = make_turn_model(tmp_path)
    reader = LocalReader(str(folder), "t", "float32", device="cpu")
    messages = (Message("user", "the"),)
    assert reader.tokenize_target(Likelihood(messages, "cat"))[-1] == turn
    assert not {1, turn} & set(
        reader.tokenize_target(Likelihood(messages, "cat", include_eos=False))
    )
