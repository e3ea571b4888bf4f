"""Judging on a CPU with OpenVINO: the estimator's own functions, traced and laid out for the processor.

PyTorch runs a layer operation by operation. OpenVINO joins attention, activation and norms with the products around them, and
keeps the weights in the order in which the processor reads them: bench/bench_estimator.py tells what that comes to. Training
needs gradients and stays with PyTorch.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from winnow.errors import ConfigError, ModelError

Inputs = tuple[torch.Tensor, ...]
_HINTS = {"float32": "f32", "bfloat16": "bf16"}
_UNWRITTEN = np.float32(-1.2345679e37)
"""Put where an output begins: no layer gives it, and found there after a call it tells that nothing was written."""


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out what a trace makes of Python values that it keeps (`other` tells whether they matter), and of settings.

    A conversion that fails leaves the process's root logger changed, at ERROR: what it was comes back.
    """
    from transformers.utils import logging as hf_logging

    root = logging.getLogger()
    told, level, filters, handlers = hf_logging.get_verbosity(), root.level, root.filters[:], root.handlers[:]
    hf_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hf_logging.set_verbosity(told)
        root.setLevel(level)
        root.filters[:], root.handlers[:] = filters, handlers


class Traced(torch.nn.Module):
    """A function of tensors over a model's weights, as something that can be traced."""

    def __init__(self, model: torch.nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Call the function."""
        return self.function(*inputs)


class Compiled:
    """A traced function, run by OpenVINO.

    Args:
        model: whose weights the function reads, as they are now; in float32, from which OpenVINO makes what it needs.
        function: of tensors; it returns a tensor. The model is set to inference first.
        example: inputs to trace it with; rows of two lengths, so that a mask is not taken for needless.
        other: inputs of another batch size and length, for which the trace must give what the function gives: some models
            (Longformer, LongT5) decide by the size of their input how they go on.
        dtype: float32 or bfloat16, of the products.
        name: of the model, for messages.

    Raises:
        ModelError: if OpenVINO lacks an operation, or the trace holds for the example's size alone.
        ConfigError: if this CPU does not compute in `dtype`.

    """

    def __init__(
        self, model: torch.nn.Module, function: Callable[..., Any], example: Inputs, other: Inputs, dtype: str, name: str
    ) -> None:
        if dtype not in _HINTS:
            raise ConfigError(f"runtime=openvino computes in float32 or bfloat16; received dtype={dtype}. Use runtime=torch.")
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # its converter would report each use
        import openvino

        settings = {
            "INFERENCE_PRECISION_HINT": _HINTS[dtype],
            "INFERENCE_NUM_THREADS": str(torch.get_num_threads()),
            "NUM_STREAMS": "1",
            "ENABLE_CPU_PINNING": "NO",  # several processes may share the machine
        }
        try:
            with torch.no_grad(), _quietly():
                graph = torch.jit.trace(Traced(model, function).eval(), example, check_trace=False)  # type: ignore[no-untyped-call]
                if not torch.allclose(graph(*other), function(*other), rtol=1e-3, atol=1e-3, equal_nan=True):
                    raise ValueError("it goes another way for inputs of another size")
                compiled = openvino.Core().compile_model(openvino.convert_model(graph, example_input=example), "CPU", settings)
        except Exception as error:
            raise ModelError(
                f"OpenVINO cannot run {name}: {' '.join(str(error).split())}. Set estimator.engine.runtime=torch."
            ) from error
        if compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name() != _HINTS[dtype]:
            raise ConfigError(f"This CPU does not compute in {dtype}. Use dtype=float32 or auto, or runtime=torch.")
        self._request, self._name = compiled.create_infer_request(), name

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the function's output, which the next call overwrites.

        Raises:
            ModelError: if OpenVINO left the output as it was, which it does where PyTorch says what is wrong with an input.

        """
        self._request.output_tensors[0].data.reshape(-1)[:1] = _UNWRITTEN
        why: Exception | None = None
        try:
            self._request.infer([one.numpy() for one in inputs], share_inputs=True)
        except RuntimeError as error:
            why = error
        found = self._request.output_tensors[0].data
        if why or len(found) != len(inputs[0]) or found.reshape(-1)[:1] == _UNWRITTEN:
            shapes = [tuple(one.shape) for one in inputs]
            raise ModelError(
                f"{self._name}: OpenVINO gave nothing for inputs of {shapes}. Set estimator.engine.runtime=torch."
            ) from why
        return torch.from_numpy(found)
