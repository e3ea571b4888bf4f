"""Agreement with people and corrected rates: by hand, against scikit-learn, and by simulated
coverage.
"""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from winnow.errors import InputError
from winnow.metrics.agreement import Verdicts, compute_agreement, correct_rate

NONE = math.nan


def vector(*values: float) -> Verdicts:
    """Values as a vector."""
    return np.array(values, dtype=float)


def test_agreement_by_hand() -> None:
    """Four of five agree; what lacks a verdict or a label does not count."""
    found = compute_agreement(vector(1, 1, 0, 0, 1, NONE, 1), vector(1, 0, 0, 0, 1, 1, NONE))
    assert (found.accuracy.mean, found.accuracy.n) == (0.8, 5)
    assert (found.precision.mean, found.precision.counts) == (pytest.approx(2 / 3), (2, 3))
    assert (found.recall.mean, found.recall.counts) == (1.0, (2, 2))
    assert found.kappa.mean == pytest.approx((0.8 - (0.6 * 0.4 + 0.4 * 0.6)) / (1 - 0.48))


def test_kappa_is_that_of_scikit_learn() -> None:
    """On drawn verdicts, within an interval that shrinks with their number; equal for
    equal seeds.
    """
    rng = np.random.default_rng(0)
    widths = []
    for n in (20, 200):
        labels = (rng.random(n) < 0.4).astype(float)
        verdicts = np.where(rng.random(n) < 0.8, labels, 1 - labels)
        kappa = compute_agreement(verdicts, labels).kappa
        assert kappa.mean == pytest.approx(cohen_kappa_score(verdicts, labels))
        assert kappa.low < kappa.mean < kappa.high
        assert kappa == compute_agreement(verdicts, labels).kappa
        widths.append(kappa.high - kappa.low)
    assert widths[1] < widths[0] / 2
    perfect = compute_agreement(vector(1, 0, 1, 0), vector(1, 0, 1, 0)).kappa
    assert (perfect.mean, perfect.high) == (1.0, 1.0)
    assert perfect.low < 0.5, "four answers prove little"


def test_what_is_undefined_is_not_zero() -> None:
    """Kappa if all are right, precision if the judge calls none right, and everything without
    labels.
    """
    same = compute_agreement(vector(1, 1), vector(1, 1))
    assert (same.accuracy.mean, same.kappa.n) == (1.0, 0)
    assert compute_agreement(vector(0, 0), vector(1, 0)).precision.n == 0
    empty = compute_agreement(vector(1, 0), vector(NONE, NONE))
    assert [one.n for one in (empty.accuracy, empty.kappa, empty.precision, empty.recall)] == [
        0
    ] * 4
    assert correct_rate(vector(1, 0), vector(NONE, NONE)).n == 0
    with pytest.raises(InputError, match=r"verdict or label is 0\.5"):
        compute_agreement(vector(0.5), vector(1))
    with pytest.raises(InputError, match="verdict or label is 2"):
        correct_rate(vector(1), vector(2))


def test_a_corrected_rate_by_hand() -> None:
    """The judge calls 6 of 10 right, people 1 of 2 of these, 0 of 1 others, and the one without a
    verdict: .6 / 2 + .1.
    """
    verdicts = vector(1, 1, 1, 1, 1, 1, 0, 0, 0, NONE)
    labels = vector(1, 0, NONE, NONE, NONE, NONE, 0, NONE, NONE, 1)
    rate = correct_rate(verdicts, labels)
    assert (rate.mean, rate.n) == (pytest.approx(0.4), 4)
    assert 0 < rate.low < 0.4 < rate.high < 1


def _draw(
    rng: np.random.Generator, rate: float, right: float, wrong: float, n: int, labeled: int
) -> tuple[Verdicts, Verdicts]:
    """Verdicts of a judge that finds a share of the right and of the wrong answers, and labels of
    the first of them.
    """
    truth = (rng.random(n) < rate).astype(float)
    verdicts = np.where(truth == 1, rng.random(n) < right, rng.random(n) > wrong).astype(float)
    verdicts[rng.random(n) < 0.03] = NONE
    return verdicts, np.where(np.arange(n) < labeled, truth, NONE)


@pytest.mark.parametrize(
    ("rate", "right", "wrong", "n", "labeled"),
    [
        (0.3, 0.9, 0.9, 500, 50),
        (0.05, 0.9, 0.95, 500, 50),
        (0.5, 0.7, 0.7, 1000, 100),
        (0.15, 0.85, 0.97, 2000, 200),
        (0.9, 0.95, 0.6, 300, 60),
    ],
)
def test_the_interval_covers_the_rate_of_people(
    rate: float, right: float, wrong: float, n: int, labeled: int
) -> None:
    """In 93 to 98 % of simulated sweeps, and it is narrower than that of the labels alone where the
    judge is good.
    """
    rng = np.random.default_rng(7)
    covered = naive = 0
    width = alone = 0.0
    for seed in range(400):
        verdicts, labels = _draw(rng, rate, right, wrong, n, labeled)
        interval = correct_rate(verdicts, labels, seed)
        covered += interval.low <= rate <= interval.high
        judged = verdicts[~np.isnan(verdicts)].mean()
        naive += abs(judged - rate) < 1.96 * math.sqrt(judged * (1 - judged) / n)
        width += interval.high - interval.low
        low, high = stats.binomtest(int(np.nansum(labels)), labeled).proportion_ci(method="wilson")
        alone += high - low
    assert 0.925 <= covered / 400 <= 0.985
    assert width < 1.02 * alone
    if (right, wrong) == (0.9, 0.95):
        assert width < 0.85 * alone
        assert naive / 400 < 0.5, "the judge's own rate"


def test_it_covers_where_the_normal_interval_does_not() -> None:
    """Few right answers and few labels: PPI++'s normal interval with its best weight misses the
    rate more often.
    """
    rng = np.random.default_rng(3)
    ours = normal = 0
    for seed in range(400):
        truth = (rng.random(500) < 0.05).astype(float)
        verdicts = np.where(truth == 1, rng.random(500) < 0.9, rng.random(500) > 0.95).astype(float)
        interval = correct_rate(verdicts, np.where(np.arange(500) < 50, truth, NONE), seed)
        ours += interval.low <= 0.05 <= interval.high
        judged, others, human = verdicts[:50], verdicts[50:], truth[:50]
        weight = np.clip(np.cov(human, judged)[0, 1] / ((1 + 50 / 450) * verdicts.var()), 0, 1)
        residuals = human - weight * judged
        variance = residuals.var(ddof=1) / 50 + weight**2 * others.var() / 450
        normal += abs(residuals.mean() + weight * others.mean() - 0.05) <= 1.96 * math.sqrt(
            variance
        )
    assert ours / 400 >= 0.93
    assert normal / 400 < 0.9


def test_a_verdict_without_labels_leaves_the_rate_open() -> None:
    """Half of the answers have a verdict that no label speaks of: they count as one half, and the
    interval says so.
    """
    rate = correct_rate(vector(*[1] * 50, *[0] * 50), vector(*[1] * 50, *[NONE] * 50))
    assert rate.mean == pytest.approx(0.75)
    assert rate.high - rate.low > 0.4
    perfect = correct_rate(vector(*[1] * 20), vector(*[1] * 20))
    assert perfect.low < perfect.mean == perfect.high == 1.0


def test_seeds_are_used() -> None:
    """Other draws, other bounds."""
    verdicts, labels = vector(*[1, 0, 1, 1, 0] * 6), vector(*[1, 0, 0, 1, 1] * 6)
    assert (
        compute_agreement(verdicts, labels, 0).kappa != compute_agreement(verdicts, labels, 1).kappa
    )
    assert correct_rate(verdicts, labels, 0) != correct_rate(verdicts, labels, 1)
