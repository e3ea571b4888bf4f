"""Sections of trainings: what a training lacks, or has of the wrong kind."""

import pytest

from flows.settings.door import compose
from flows.train_reader import _build
from winnow.errors import ConfigError
from winnow.training.citing import CitationPrompts, SyntheticCitations
from winnow.training.examples import ExampleMix
from winnow.training.settings import LoopSettings, SftSettings


def test_a_training_says_what_it_lacks() -> None:
    """In one message."""
    with pytest.raises(ConfigError, match="also reward, decoding, which a training needs"):
        compose(["training=cite_sft_rewarded", "~training.reward", "~training.decoding"])


def test_the_kind_of_a_training_decides_what_it_is_built_of() -> None:
    """Rewards need prompts and the settings of the loop, and a teacher a mix that takes replies."""
    rewarded = compose(["training=cite_sft_rewarded"]).training
    assert isinstance(_build(rewarded, "mix", CitationPrompts), CitationPrompts)
    assert isinstance(_build(rewarded, "settings", LoopSettings), LoopSettings)
    with pytest.raises(
        ConfigError,
        match=r"training\.settings\._target_='[a-z.]*LoopSettings': .* derived from .*SftSettings",
    ):
        _build(rewarded, "settings", SftSettings)
    with pytest.raises(ConfigError, match=r"training\.mix\._target_=.* lacks build_examples"):
        _build(rewarded, "mix", ExampleMix)
    with pytest.raises(ConfigError, match=r"training\.mix\._target_=.*SyntheticCitations"):
        _build(rewarded, "mix", SyntheticCitations)
