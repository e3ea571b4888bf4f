"""What an answer follows: the changed passage, memory, or neither."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample, evaluate
from winnow.metrics.conflict import Follows, MemorizationRatio
from winnow.testing import make_context, make_sample


def sample(answer: str, substitute: str = "Emily Bronte", *, unknown: bool = False) -> Sample:
    """An answer to a question whose true answer is Jane Austen."""
    contexts = [
        make_context(1, "text"),
        replace(make_context(2, "text", is_gold=True), substitute=substitute),
    ]
    return make_sample(answer, answers=("Jane Austen",), contexts=contexts, unknown=unknown)


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("It was Emily Bront\u00eb.", "neither"),
        ("It was emily bronte.", "passage"),
        ("Jane Austen", "memory"),
        ("Jane Austen or Emily Bronte", "neither"),
        ("Mary Shelley", "neither"),
    ],
)
def test_each_answer_follows_one_source(answer: str, source: str) -> None:
    """By containment of normalized text, which keeps accents; both at once is neither."""
    for name in ("passage", "memory", "neither"):
        assert Follows("m", "m", source=name).score(sample(answer)) == float(name == source)  # type: ignore[arg-type]


def test_the_ratio_is_of_those_that_follow_something() -> None:
    """Longpre et al.: p_o / (p_o + p_s); unknown answers and questions without a change count in
    neither.
    """
    samples = [
        sample("Jane Austen"), sample("Emily Bronte"), sample("Emily Bronte"), sample("unknown"),
        sample("Jane Austen", unknown=True), sample("Jane Austen", substitute=""),
    ]  # fmt: skip
    ratio = evaluate([MemorizationRatio("m", "m")], samples)["m"]
    assert ratio.mean == pytest.approx(1 / 3)
    shares = evaluate(
        [Follows(name, name, source=name) for name in ("passage", "memory", "neither")], samples
    )  # type: ignore[arg-type]
    assert {name: (value.mean, value.n) for name, value in shares.items()} == {
        "passage": (2 / 5, 5), "memory": (1 / 5, 5), "neither": (2 / 5, 5),
    }  # fmt: skip
    assert Follows("m", "m").score(sample("Jane Austen", substitute="")) is None


def test_an_unknown_source_is_refused() -> None:
    """With the value received."""
    with pytest.raises(ConfigError, match="received 'judge'"):
        Follows("m", "m", source="judge")  # type: ignore[arg-type]
