"""Fakes for tests: a scripted reader, plans with scripted replies, tiny models, and a chat server with injected faults."""

from winnow.testing.fakes import METRICS, PASSAGES, ScriptedReader, cell_result, context, play, question, sample
from winnow.testing.tiny_models import tiny_causal_lm, tiny_dpr, tiny_encoder, tiny_t5, tiny_tokenizer

__all__ = [
    "METRICS",
    "PASSAGES",
    "ScriptedReader",
    "cell_result",
    "context",
    "play",
    "question",
    "sample",
    "tiny_causal_lm",
    "tiny_dpr",
    "tiny_encoder",
    "tiny_t5",
    "tiny_tokenizer",
]
