"""The share of questions that are answered with "unknown"."""

from winnow.metrics.base import evaluate
from winnow.metrics.unknown import Unknown
from winnow.testing import make_sample


def test_the_flag_counts_and_not_the_text() -> None:
    """A strategy decides what "unknown" is; one of two questions has the flag."""
    samples = [
        make_sample("nobody knows", 0, unknown=True),
        make_sample("unknown", 1, ("unknown",), unknown=False),
    ]
    interval = evaluate([Unknown("unk", "%Unk")], samples)["unk"]
    assert (interval.mean, interval.n) == (0.5, 2)
