"""Likelihoods with OpenVINO: those of PyTorch, whatever else is in the batch."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

pytest.importorskip("openvino", reason="the extra cpu is not installed")

from tests.readers.openvino_readers import get_runtime
from winnow.errors import ModelError
from winnow.modeling.openvino_conversions import MODEL_FILE
from winnow.modeling.openvino_export import convert_causal_lm
from winnow.readers.local import LocalReader
from winnow.readers.openvino_scoring import ContinuationScorer, select_positions
from winnow.readers.prefix_blocks import BlockPool
from winnow.readers.runtime import TokenizedRequest
from winnow.requests import Likelihood, Message, Request, Score
from winnow.testing import make_tiny_causal_lm

SHARED = (
    "answer the question about foxes and dogs in a few words with the passage below if it holds "
    "the answer please "
)
TEXTS = [SHARED + "the quick brown fox " * (1 + number % 7) for number in range(19)]
CONTINUATIONS = ("fox", "the lazy dog jumps over the quick brown fox", "dog")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, whose weights are so large that a wrong position or beginning shows."""
    folder = make_tiny_causal_lm(tmp_path_factory.mktemp("lm"), [*TEXTS, *CONTINUATIONS])
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(10)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of conversions."""
    return tmp_path_factory.mktemp("converted")


def compute(reader: LocalReader, requests: Sequence[Request]) -> list[float]:
    """Return the likelihood of each request."""
    reader.submit(requests)
    values: dict[int, float] = {}
    while results := reader.collect(1.0):
        values.update(
            {id(request): result.value for request, result in results if isinstance(result, Score)}
        )
    return [values[id(request)] for request in requests]


def build(texts: Sequence[str]) -> list[Request]:
    """Build a request for each text, with continuations of several lengths, with and without the
    end.
    """
    return [
        Likelihood((Message("user", text),), CONTINUATIONS[number % 3], include_eos=number % 2 == 0)
        for number, text in enumerate(texts)
    ]


@pytest.mark.parametrize("batch_tokens", [1, 100, 4096])
def test_likelihoods_are_those_of_pytorch(folder: Path, converted: Path, batch_tokens: int) -> None:
    """With a shared beginning, without one, and with another one afterwards; more rows than are
    read together.
    """
    ours, reference = (
        LocalReader(
            str(folder),
            "tiny",
            "float32",
            runtime=runtime,
            converted=str(converted),
            batch_tokens=batch_tokens,
        )
        for runtime in ("openvino", "torch")
    )
    as_long = [text.replace("foxes and dogs", "dogs and foxes") for text in TEXTS]
    other = [text.replace("answer", "dogs jump over foxes and") for text in TEXTS]
    for texts in (
        TEXTS,
        as_long,
        ["fox " * (number + 1) for number in range(9)],
        other,
        TEXTS[:1],
        TEXTS,
    ):
        requests = build(texts)
        assert compute(ours, requests) == pytest.approx(compute(reference, requests), abs=1e-3)


def test_likelihoods_with_a_small_cache_are_those_of_pytorch(folder: Path, converted: Path) -> None:
    """Blocks are dropped and written again, prompts with several continuations wait for each other,
    and the order is any.
    """
    ours, reference = (
        LocalReader(str(folder), "tiny", "float32", runtime=runtime, converted=str(converted))
        for runtime in ("openvino", "torch")
    )
    scorer = get_runtime(ours).open_scorer()
    longest = max(
        len(ours.encode(request).ids) for request in build(TEXTS) if isinstance(request, Likelihood)
    )
    scorer._pool = BlockPool(2 + longest // scorer._pool.block_size, scorer._pool.block_size)
    requests = [request for _ in range(3) for request in build(TEXTS)]
    random.Random(13).shuffle(requests)
    assert compute(ours, requests) == pytest.approx(compute(reference, requests), abs=1e-3)


def test_an_empty_continuation_is_certain(folder: Path, converted: Path) -> None:
    """With both runtimes; a step without any logits is not run."""
    for runtime in ("openvino", "torch"):
        reader = LocalReader(
            str(folder), "tiny", "float32", runtime=runtime, converted=str(converted)
        )
        empty = Likelihood((Message("user", TEXTS[0]),), "", include_eos=False)
        assert compute(reader, [empty]) == [0.0]
        assert compute(reader, [empty, *build(TEXTS[:2])])[0] == 0.0


def test_a_prompt_that_needs_more_memory_than_there_is(folder: Path, converted: Path) -> None:
    """The message names the setting."""
    reader = LocalReader(
        str(folder), "tiny", "float32", runtime="openvino", converted=str(converted)
    )
    scorer = get_runtime(reader).open_scorer()
    scorer._pool = BlockPool(1, scorer._pool.block_size)
    reader.submit([max(build(TEXTS), key=lambda request: len(str(request)))])
    with pytest.raises(ModelError, match=r"need more than 2 GiB. Set reader.engine.cache_gb=4"):
        reader.collect(0.0)


def test_weights_in_8_bits_are_found(folder: Path, converted: Path) -> None:
    """They are stored with a scale, behind which the matrix product of the logits lies."""
    ours, reference = (
        LocalReader(
            str(folder),
            "tiny",
            "float32",
            runtime="openvino",
            converted=str(converted),
            weights=weights,
        )
        for weights in ("int8", "full")
    )
    assert compute(ours, build(TEXTS)) == pytest.approx(compute(reference, build(TEXTS)), rel=0.2)


def test_a_graph_without_a_matrix_product_is_refused() -> None:
    """The message is part of the one that names the model and runtime=torch."""
    import numpy as np
    import openvino
    from openvino import opset13 as ops

    ids = ops.parameter([-1, -1], dtype=np.float32, name="ids")
    output = ops.relu(ids)
    output.output(0).get_tensor().add_names({"logits"})
    with pytest.raises(ValueError, match="not computed by a matrix product"):
        select_positions(openvino.Model([output], [ids], "graph"))


def test_a_damaged_graph_is_named(folder: Path, converted: Path, tmp_path: Path) -> None:
    """With the two ways out."""
    target = convert_causal_lm(str(folder), tmp_path)
    (target / MODEL_FILE).write_text("<net>")
    with pytest.raises(ModelError, match=r"cannot load .*runtime=torch, or remove the folder"):
        ContinuationScorer(target, "float32", 1, 100)


def test_a_prompt_without_a_token_is_refused(folder: Path, converted: Path) -> None:
    """There is nothing that a continuation could follow."""
    scorer = ContinuationScorer(convert_causal_lm(str(folder), converted), "float32", 1, 100)
    likelihood = Likelihood((Message("user", ""),), "fox")
    with pytest.raises(ModelError, match="a prompt has no token"):
        scorer.add(TokenizedRequest(likelihood, [], [7]))


def test_closing_drops_unfinished_likelihoods(folder: Path, converted: Path) -> None:
    """A closed reader does not load its model again."""
    reader = LocalReader(
        str(folder), "tiny", "float32", runtime="openvino", converted=str(converted)
    )
    reader.submit(build(TEXTS))
    reader.close()
    assert list(reader.collect(0.0)) == []
