"""The joint methods over the small world's model, shared by their tests."""

from collections.abc import Mapping
from typing import Any

import pytest

from winnow.estimators.t5 import T5Estimator
from winnow.training.fid import Fid
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.method import Method
from winnow.training.rag import Rag
from winnow.training.re_rag import ReRag
from winnow.training.settings import LoopSettings

SETTINGS = LoopSettings(
    epochs=2, learning_rate=1e-3, batch_questions=2, accumulation=2, precision="float32",
    device="cpu", save_steps=2, logging_steps=1, chunk_tokens=200,
)  # fmt: skip


def silent(metrics: Mapping[str, float], step: int) -> None:
    """Log nothing."""


def re_rag(base: str, **more: str) -> Method[Any]:
    estimator = T5Estimator(base, dtype="float32", device="cpu")
    return ReRag(estimator, Seq2SeqGenerator(base, max_answer=4, device="cpu"), **more)  # type: ignore[arg-type]


def rag(base: str) -> Method[Any]:
    return Rag(Seq2SeqGenerator(base, max_answer=4, device="cpu"))


def fid(base: str) -> Method[Any]:
    return Fid(Seq2SeqGenerator(base, max_answer=4, device="cpu"))


METHODS = pytest.mark.parametrize("make", [re_rag, rag, fid])
