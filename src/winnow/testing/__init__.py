"""Test utilities: a scripted reader, a plan runner, tiny models, and a chat server with faults."""

from winnow.testing.fakes import (
    METRICS,
    PASSAGES,
    ScriptedReader,
    ScriptedServer,
    make_cell_result,
    make_context,
    make_question,
    make_sample,
    make_search,
    run_scripted_plan,
)
from winnow.testing.tiny_models import (
    make_tiny_causal_lm,
    make_tiny_dpr,
    make_tiny_encoder,
    make_tiny_masked_lm,
    make_tiny_t5,
    make_tiny_tokenizer,
)

__all__ = [
    "METRICS",
    "PASSAGES",
    "ScriptedReader",
    "ScriptedServer",
    "make_cell_result",
    "make_context",
    "make_question",
    "make_sample",
    "make_search",
    "make_tiny_causal_lm",
    "make_tiny_dpr",
    "make_tiny_encoder",
    "make_tiny_masked_lm",
    "make_tiny_t5",
    "make_tiny_tokenizer",
    "run_scripted_plan",
]
