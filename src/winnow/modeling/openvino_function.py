"""CPU inference with OpenVINO, which runs functions of a model after they are traced and compiled.

PyTorch runs a layer operation by operation. OpenVINO fuses attention, activations and norms with
the matrix products around them, and keeps the weights in the processor's preferred layout.
bench/bench_estimator.py measures the gain. Training needs gradients and therefore uses PyTorch.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from winnow.errors import ModelError
from winnow.modeling.openvino import build_properties, check_precision, disable_telemetry

Inputs = tuple[torch.Tensor, ...]
_SENTINEL = np.float32(-1.2345679e37)
"""Value that no layer produces, written to the output before calls to detect a missing output."""


@contextmanager
def suppress_conversion_messages() -> Iterator[None]:
    """Suppress warnings during a conversion, and restore the root logger afterwards.

    The warnings are about constants in the trace, which is checked with other inputs instead. A
    failed conversion would leave the root logger at level ERROR.
    """
    from transformers.utils import logging as hf_logging

    root = logging.getLogger()
    verbosity, level, filters, handlers = (
        hf_logging.get_verbosity(),
        root.level,
        root.filters[:],
        root.handlers[:],
    )
    hf_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hf_logging.set_verbosity(verbosity)
        root.setLevel(level)
        root.filters[:], root.handlers[:] = filters, handlers


class _Traceable(torch.nn.Module):
    """A wrapper of a model's function, so that it can be traced with the model's weights."""

    def __init__(self, model: torch.nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Call the function."""
        return self.function(*inputs)


class CompiledFunction:
    """A function of tensors that is traced and then run by OpenVINO.

    Args:
        model: Model whose current weights the function uses. The weights must be float32; OpenVINO
            converts them to `dtype`.
        function: Function of tensors that returns a tensor. The model is set to evaluation mode
            before tracing.
        example: Inputs for tracing. Their rows must have two different lengths, so that the mask is
            not optimized away.
        other: Inputs of another batch size and length. The trace and the function must agree on
            them, because some models (Longformer, LongT5) branch on the size of their input.
        dtype: Precision of the matrix products: float32 or bfloat16.
        name: Name of the model in error messages.

    Raises:
        ModelError: If OpenVINO lacks an operation, or if the trace is only valid for the size of
            the example.
        ConfigError: If this CPU does not compute in `dtype`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        function: Callable[..., Any],
        example: Inputs,
        other: Inputs,
        dtype: str,
        name: str,
    ) -> None:
        disable_telemetry()
        check_precision(dtype)
        import openvino

        settings = build_properties(dtype)
        try:
            with torch.no_grad(), suppress_conversion_messages():
                graph = torch.jit.trace(
                    _Traceable(model, function).eval(), example, check_trace=False
                )  # type: ignore[no-untyped-call]
                if not torch.allclose(
                    graph(*other), function(*other), rtol=1e-3, atol=1e-3, equal_nan=True
                ):
                    raise ValueError("the trace is only valid for inputs of the example's size")
                compiled = openvino.Core().compile_model(
                    openvino.convert_model(graph, example_input=example), "CPU", settings
                )
        except Exception as error:
            raise ModelError(
                f"OpenVINO cannot run {name}: {' '.join(str(error).split())}. Set "
                "estimator.engine.runtime=torch."
            ) from error
        self._request, self._name = compiled.create_infer_request(), name

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute the output of the function. The next call overwrites the returned tensor.

        Raises:
            ModelError: If OpenVINO wrote no output. It does so for inputs for which PyTorch would
                raise an error.
        """
        self._request.output_tensors[0].data.reshape(-1)[:1] = _SENTINEL
        failure: Exception | None = None
        try:
            self._request.infer([tensor.numpy() for tensor in inputs], share_inputs=True)
        except RuntimeError as error:
            failure = error
        output = self._request.output_tensors[0].data
        if failure or len(output) != len(inputs[0]) or output.reshape(-1)[:1] == _SENTINEL:
            shapes = [tuple(tensor.shape) for tensor in inputs]
            raise ModelError(
                f"{self._name}: OpenVINO wrote no output for inputs of {shapes}. Set "
                "estimator.engine.runtime=torch."
            ) from failure
        return torch.from_numpy(output)
