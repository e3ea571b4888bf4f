"""RAGAS' answer relevancy, against the values of its formula on given vectors and verdicts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from winnow.errors import ConfigError
from winnow.metrics.answer_relevancy import AnswerRelevancy
from winnow.metrics.base import Sample
from winnow.testing import make_sample, run_scripted_plan

VECTORS = {"asked?": (1, 0), "same?": (2, 0), "half?": (1, 1), "other?": (0, 3)}


class Encoder:
    """An encoder with given vectors, of any length."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vector of each text."""
        return np.array([VECTORS[text] for text in texts], dtype=np.float32)


SAMPLE = make_sample("Paris")
SAMPLE = replace(SAMPLE, question=replace(SAMPLE.question, text="asked?"))
STRICT = AnswerRelevancy("m", "M", encoder=Encoder())
RAGAS = replace(STRICT, dialect="ragas")


def run(metric: AnswerRelevancy, sample: Sample, replies: list[str]) -> float | None:
    """The value of a sample, to which the judge gives these replies in one round."""
    return run_scripted_plan(metric.plan(sample), [replies])[0]


def reply(question: str, flag: str = "no") -> str:
    return f"Question: {question}\nNoncommittal: {flag}"


def test_similarities_are_averaged() -> None:
    """(1 + 1/sqrt(2) + 0) / 3 = 0.569035593728849, as in the published formula; the length of
    vectors does not count.
    """
    replies = [reply("same?"), reply("half?"), reply("other?")]
    for metric in (STRICT, RAGAS):
        assert run(metric, SAMPLE, replies) == pytest.approx(0.569035593728849, abs=1e-6)


def test_an_answer_is_noncommittal_if_all_replies_say_so() -> None:
    """One of three is not enough, as since version 0.3.6; an answer "unknown" asks no judge in the
    strict dialect.
    """
    mixed = [reply("same?", "Yes"), reply("half?"), reply("other?")]
    assert run(STRICT, SAMPLE, mixed) == pytest.approx(0.569035593728849, abs=1e-6)
    assert run(STRICT, SAMPLE, [reply("same?", "yes")] * 3) == 0.0
    unknown = replace(SAMPLE, prediction=replace(SAMPLE.prediction, unknown=True))
    assert run(STRICT, unknown, []) == 0.0


def test_incomplete_replies_are_no_silent_zero() -> None:
    """Prose, an empty question or no verdict: undefined in the strict dialect; RAGAS leaves them
    out, and has 0 with none.
    """
    for bad in (
        "The answer is about Paris.",
        reply(""),
        "Question: same?",
        reply("same?", "perhaps"),
    ):
        replies = [bad, reply("same?"), reply("half?")]
        assert run(STRICT, SAMPLE, replies) is None
        assert run(RAGAS, SAMPLE, replies) == pytest.approx((1 + 0.5**0.5) / 2, abs=1e-6)
        assert run(RAGAS, SAMPLE, [bad] * 3) == 0.0


def test_the_judge_is_asked_for_samples() -> None:
    """As many as there are questions; a greedy judge once. It sees the answer, and not the
    question.
    """
    requests = next(STRICT.plan(SAMPLE))
    assert [request.sample for request in requests] == [0, 1, 2]
    assert {request.decoding.temperature for request in requests} == {0.3}
    assert "Answer: Paris\n" in requests[0].messages[0].content
    assert "asked?" not in requests[0].messages[0].content
    assert len(next(replace(STRICT, temperature=0.0).plan(SAMPLE))) == 1


def test_wrong_settings_are_refused() -> None:
    """Without an encoder, or without the answer in the prompt."""
    with pytest.raises(ConfigError, match=r"metric\.m needs an encoder"):
        AnswerRelevancy("m", "M")
    with pytest.raises(ConfigError, match="template"):
        replace(STRICT, template="Which question?")
