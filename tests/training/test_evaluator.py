"""CRAG's evaluator: the labeled pairs on which it is trained, its loss, and what it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.training.methods import SETTINGS, silent
from winnow.contexts.gold import is_relevant
from winnow.errors import ConfigError
from winnow.estimators.t5 import T5Estimator
from winnow.estimators.t5_regression import T5Regression
from winnow.testing import make_context, make_question
from winnow.training.evaluator import RelevanceRegression
from winnow.training.groups import Group
from winnow.training.loop import fit
from winnow.training.pair_selection import PairSelection

if TYPE_CHECKING:
    from conftest import SmallWorld


def make_group(name: str, labels: str, answer: str = "Ada") -> Group:
    """A question whose contexts are relevant where `labels` has a "+"."""
    contexts = [
        replace(make_context(rank, f"{name} {rank}"), has_answer=label == "+")
        for rank, label in enumerate(labels, start=1)
    ]
    return Group(
        replace(make_question(f"{name}?"), question_id=name, answers=(answer,)), tuple(contexts)
    )


def test_the_loss_is_the_mean_squared_error_by_question() -> None:
    """By hand: a question with two pairs counts as much as one with one."""
    method = RelevanceRegression(T5Estimator("x"))
    groups = [make_group("a", "+-"), make_group("b", "-")]
    values = torch.tensor([[0.5], [0.0], [-1.0]])
    assert float(method.loss(values, groups)["loss"]) == pytest.approx(((0.25 + 1.0) / 2 + 0.0) / 2)


def test_it_learns_which_passages_are_relevant(small: SmallWorld, tmp_path: Path) -> None:
    """After training, nearly all pairs are on the right side of 0, and the saved estimator says the
    same.
    """
    groups = PairSelection(1, 2).select(small.train)
    assert len(groups) == len(small.train)
    settings = replace(SETTINGS, epochs=40, accumulation=1, batch_questions=12, learning_rate=3e-3)
    method = RelevanceRegression(T5Estimator(small.base, dtype="float32", device="cpu"))
    report = fit(method, groups, groups, settings, tmp_path / "out", silent)
    assert report.history[report.best_epoch - 1]["accuracy"] == max(
        row["accuracy"] for row in report.history
    )
    saved = RelevanceRegression(
        T5Estimator(str(tmp_path / "out/estimator"), dtype="float32", device="cpu")
    )
    rows = saved.evaluate(groups)
    assert (
        sum(row["accuracy"] for row in rows) / len(rows) > 0.85
    )  # with one in three relevant, "no" everywhere gives 0.67
    assert sum(row["squared_error"] for row in rows) / len(rows) < 0.6


def test_pairs_depend_on_the_seed_and_the_question_alone() -> None:
    """As many of each kind as asked for, never a relevant one as a negative; questions with one
    label only are left out.
    """
    groups = [
        make_group("a", "++---"),
        make_group("b", "-----"),
        make_group("c", "+++"),
        make_group("d", "-+"),
    ]
    chosen = PairSelection(1, 2).select(groups)
    assert [
        (group.question.question_id, [is_relevant(c) for c in group.contexts]) for group in chosen
    ] == [
        ("a", [True, False, False]),
        ("d", [True, False]),
    ]
    assert PairSelection(1, 2).select(groups[::-1]) == chosen[::-1]
    assert any(PairSelection(1, 2, seed=seed).select(groups) != chosen for seed in range(5))


def test_random_negatives_come_from_other_questions_and_hold_no_answer() -> None:
    """A passage of another question that holds the answer is no negative."""
    groups = [make_group("a", "+", answer="b 1"), make_group("b", "++"), make_group("c", "+")]
    for seed in range(10):
        chosen = PairSelection(1, 0, 2, seed).select(groups)
        first = next(group for group in chosen if group.question.question_id == "a")
        texts = [context.passage.text for context in first.contexts if not is_relevant(context)]
        assert texts
        assert not {"a 1", "b 1"} & set(texts)
        assert all(context.rank == 0 for context in first.contexts if not is_relevant(context))


def test_settings_are_checked() -> None:
    """One label alone teaches nothing; other runtimes keep the weights of their first call."""
    for settings in ({"positives": 0}, {"hard_negatives": 0}, {"random_negatives": -1}):
        with pytest.raises(ConfigError, match="at least one hard or random negative"):
            PairSelection(**settings)
    with pytest.raises(ConfigError, match="trained only with runtime=torch; received 'openvino'"):
        RelevanceRegression(T5Estimator("x", runtime="openvino")).chunks(
            [make_group("a", "+-")], 0, 0, 100
        )


def test_a_regression_head_learns_without_bounds(small: SmallWorld, tmp_path: Path) -> None:
    """The authors' evaluator: its output itself is regressed, and may exceed 1."""
    groups = PairSelection(1, 1).select(small.train)
    settings = replace(SETTINGS, epochs=40, accumulation=1, batch_questions=12, learning_rate=3e-3)
    method = RelevanceRegression(
        T5Regression(small.base, dtype="float32", device="cpu"), scale="none"
    )
    fit(method, groups, groups, settings, tmp_path / "out", silent)
    saved = RelevanceRegression(
        T5Regression(str(tmp_path / "out/estimator"), dtype="float32", device="cpu"), scale="none"
    )
    rows = saved.evaluate(groups)
    assert sum(row["accuracy"] for row in rows) / len(rows) > 0.85
    pairs = [
        (group.question.text, context.passage) for group in groups for context in group.contexts
    ]
    labels = [
        1.0 if is_relevant(context) else -1.0 for group in groups for context in group.contexts
    ]
    errors = [
        (score - label) ** 2
        for score, label in zip(saved.estimator.score(pairs), labels, strict=True)
    ]
    assert sum(row["squared_error"] for row in rows) / len(rows) == pytest.approx(
        sum(errors) / len(errors), rel=1e-4
    )
    with pytest.raises(ConfigError, match="tanh or none"):
        RelevanceRegression(T5Regression("x"), scale="sigmoid")  # type: ignore[arg-type]
