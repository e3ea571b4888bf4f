"""Sections of trainings: what a training lacks, or has of the wrong kind."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from flows import train_reader
from flows.project.artifacts import Project
from flows.project.models import resolve_joint_models
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


def test_the_models_that_a_joint_training_trains_are_in_its_key() -> None:
    """With the same teacher and method, it is another training if the generator is trained too."""
    pinned = f"google-t5/t5-base@{'0' * 40}"
    generator = f"{{_target_: winnow.training.generators.Seq2SeqGenerator, path: '{pinned}'}}"
    words = ["joint=frozen", "estimator=t5", f"estimator.base='{pinned}'", "retriever=bm25"]
    words.append(f"+joint.generator={generator}")
    alone, both = (
        resolve_joint_models(Project(compose([*words, f"joint.trainable=[{models}]"]))).key
        for models in ("estimator", "estimator,generator")
    )
    assert alone != both


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["joint=re_rag", "joint.trainable=[estimator]"], r"joint\.teacher is null"),
        (["joint=frozen", "joint.trainable=[generator]"], r"joint\.generator is null"),
        (["joint=rag", "joint.trainable=[]"], r"joint\.trainable=\[\]"),
        (["joint=rag", "joint.trainable=[reader]"], r"expected one of estimator, generator"),
    ],
)
def test_a_joint_training_has_models_to_train_and_to_learn_from(
    words: list[str], message: str
) -> None:
    """What it lacks is said before anything is loaded."""
    with pytest.raises(ConfigError, match=message):
        resolve_joint_models(Project(compose([*words, "estimator=t5", "retriever=bm25"])))


def test_replies_of_a_teacher_that_were_cut_are_not_learned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A reader would learn to stop in the middle; their number is said."""
    outcomes = [
        SimpleNamespace(
            tag=name,
            result=SimpleNamespace(reply=f"reply {name}"),
            steps=[SimpleNamespace(finish="stop"), SimpleNamespace(finish=finish)],
        )
        for name, finish in (("q1", "stop"), ("q2", "length"), ("q3", "length 1"))
    ]
    monkeypatch.setattr(train_reader, "iter_outcomes", lambda *_: iter(outcomes))
    monkeypatch.setattr(train_reader, "open_engines", lambda _: {})
    monkeypatch.setattr(train_reader, "open_ledger", lambda _: nullcontext())
    monkeypatch.setattr(train_reader, "resolve_reader_spec", lambda *_: None)
    mix: Any = SimpleNamespace(
        select_questions=lambda ranked, _: ranked, build_strategy=lambda *_: None
    )
    some: Any = MagicMock()
    replies = train_reader._ask_teacher(some, some, some, mix, [some] * 3, some)
    assert replies == {"q1": "reply q1"}
    assert "2 of 3 replies of the teacher were cut" in caplog.text


@pytest.mark.parametrize(("rank", "expected"), [("1", [1, 1]), ("0", [])])
def test_the_other_ranks_wait_for_the_first_before_the_next_training(
    rank: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It evaluates and finishes the artifact with which the next training starts."""
    finished = iter([False, False, True])

    class Made:
        @property
        def is_finished(self) -> bool:
            return next(finished)

    waits: list[float] = []
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(train_reader.time, "sleep", waits.append)
    made: Any = Made()
    train_reader._wait_for_first_rank(made)
    assert waits == expected
