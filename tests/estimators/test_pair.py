"""Estimators that read pairs: tiny models of each kind give the same numbers in any batch, cut and
refuse as they should.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from winnow.errors import ConfigError, ModelError
from winnow.estimators.causal import CausalEstimator
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.estimators.pair import PairEstimator, compute_word_scores
from winnow.estimators.t5 import T5Estimator
from winnow.records import Passage
from winnow.testing import make_tiny_causal_lm, make_tiny_encoder, make_tiny_t5

TEXTS = [
    "question: who wrote emma title: Emma context: Jane Austen wrote Emma true false",
    "the sea is blue true false",
] * 20
PAIRS = [
    ("who wrote emma", Passage("a", "Emma", "Jane Austen wrote Emma.")),
    (
        "who wrote emma",
        Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter."),
    ),
    (
        "what colour is the sea",
        Passage("b", "The sea", "The sea is blue, and wide, and deep, and cold in winter."),
    ),
    ("who wrote emma", Passage("a", "Emma", "Jane Austen wrote Emma.")),
]
Make = Callable[[Path], PairEstimator]


def t5(folder: Path) -> PairEstimator:
    return T5Estimator(
        str(make_tiny_t5(folder / "t5", TEXTS)), dtype="float32", label_words=(" true", " false")
    )


def causal(folder: Path) -> PairEstimator:
    return CausalEstimator(str(make_tiny_causal_lm(folder / "lm", TEXTS)), dtype="float32")


def classes(folder: Path) -> PairEstimator:
    torch.manual_seed(0)
    return CrossEncoder(str(make_tiny_encoder(folder / "bert", TEXTS)), dtype="float32")


def pooled(folder: Path) -> PairEstimator:
    return CrossEncoder(
        str(make_tiny_encoder(folder / "bert", TEXTS)), dtype="float32", head="pooled"
    )


def separate(folder: Path) -> PairEstimator:
    return CrossEncoder(
        str(make_tiny_encoder(folder / "bert", TEXTS)),
        dtype="float32",
        head="pooled",
        separate_layers=1,
    )


KINDS = pytest.mark.parametrize("make", [t5, causal, classes, pooled, separate])


@KINDS
def test_scores_do_not_depend_on_the_batch(make: Make, tmp_path: Path) -> None:
    """All at once, in other batches, or one by one; equal pairs are scored once; none
    gives none.
    """
    estimator = make(tmp_path)
    counts: list[int] = []
    collate = estimator.collate
    estimator.collate = lambda rows, starts: counts.append(len(rows)) or collate(rows, starts)  # type: ignore[method-assign,func-returns-value]
    whole = estimator.score(PAIRS)
    assert sum(counts) == 3
    assert whole.dtype == np.float32
    assert whole[0] == whole[3]
    assert len(set(whole.tolist())) == 3
    single = [estimator.score([pair])[0] for pair in PAIRS]
    assert np.allclose(whole, single, atol=1e-4)
    estimator.batch_tokens = 1
    assert np.allclose(whole, estimator.score(PAIRS), atol=1e-4)
    assert estimator.score([]).shape == (0,)


@KINDS
def test_training_reads_the_same_numbers_and_they_have_gradients(
    make: Make, tmp_path: Path
) -> None:
    """`estimate` gives what `score` gives."""
    estimator = make(tmp_path)
    scores = estimator.score(PAIRS[:2])
    rows = [estimator.tokens.encode(*pair) for pair in PAIRS[:2]]
    estimates = estimator.estimate(
        rows, [estimator.tokens.get_second_start(*pair) for pair in PAIRS[:2]]
    )
    assert torch.allclose(estimates.log_odds.cpu(), torch.tensor(scores), atol=1e-4)
    estimates.log_odds.sum().backward()  # type: ignore[no-untyped-call]
    assert any(p.grad is not None and p.grad.any() for p in estimator.lm.model.parameters())
    assert ((estimates.other_probability >= 0) & (estimates.other_probability <= 1)).all()


@KINDS
def test_what_exceeds_the_window_is_cut_and_counted(make: Make, tmp_path: Path) -> None:
    """The longest of the three distinct pairs is."""
    estimator = make(tmp_path)
    lengths = sorted(len(estimator.tokens.encode(*pair)) for pair in PAIRS[:3])
    estimator.tokens.max_length = lengths[1]
    estimator.score(PAIRS)
    assert estimator.truncated == 1


def test_log_odds_stay_finite_where_a_probability_is_zero() -> None:
    """Logits 300 apart: RE rounds to 1, its log-odds are 300; all mass on the two tokens leaves 0
    for others.
    """
    estimates = compute_word_scores(torch.tensor([[300.0, 0.0, -300.0], [0.0, 0.0, 0.0]]), 0, 1)
    assert estimates.log_odds.tolist() == [300.0, 0.0]
    assert estimates.other_probability.tolist() == pytest.approx([0.0, 1 / 3])


def test_lengths_and_folders_are_checked(tmp_path: Path) -> None:
    """Before anything is scored."""
    with pytest.raises(ConfigError, match="max_length must be at least 1; received 0"):
        T5Estimator("x", max_length=0)
    with pytest.raises(ModelError, match="no model folder"):
        T5Estimator(str(tmp_path / "none")).score(PAIRS)


def test_a_word_of_several_pieces_is_refused(tmp_path: Path) -> None:
    """With its pieces, and what to choose instead."""
    estimator = T5Estimator(
        str(make_tiny_t5(tmp_path / "t5", ["abc"])), dtype="float32", label_words=("true", "false")
    )
    with pytest.raises(
        ModelError,
        match=r"splits 'true' into \['t', 'r', 'u', 'e'\].*estimator\.engine\.label_words",
    ):
        estimator.score(PAIRS[:1])
