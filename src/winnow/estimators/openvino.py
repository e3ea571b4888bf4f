"""Judging on a CPU with OpenVINO: the estimator's own functions, traced and laid out for the processor.

PyTorch runs a layer operation by operation. OpenVINO joins attention, activation and norms with the products around them, and
keeps the weights in the order in which the processor reads them: bench/bench_estimator.py tells what that comes to. Training
needs gradients and stays with PyTorch.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from winnow.errors import ConfigError, ModelError

Runtime = Literal["auto", "torch", "openvino"]
_HINTS = {"float32": "f32", "bfloat16": "bf16"}


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
        function: of tensors; it returns a tensor or a tuple of them, and takes any batch size and length.
        example: inputs to trace it with; rows of two lengths, so that a mask is not taken for needless.
        dtype: float32 or bfloat16, of the products.
        name: of the model, for messages.

    """

    def __init__(
        self, model: torch.nn.Module, function: Callable[..., Any], example: Sequence[torch.Tensor], dtype: str, name: str
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
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of Python values that a trace keeps: none depends on the rows
                graph = torch.jit.trace(Traced(model, function).eval(), tuple(example), check_trace=False)  # type: ignore[no-untyped-call]
            converted = openvino.convert_model(graph, example_input=tuple(example))
            self._request = openvino.Core().compile_model(converted, "CPU", settings).create_infer_request()
        except Exception as error:
            raise ModelError(
                f"OpenVINO cannot run {name}: {' '.join(str(error).split())}. Set estimator.engine.runtime=torch."
            ) from error

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the function's outputs, which are the caller's to keep."""
        self._request.infer([one.numpy() for one in inputs], share_inputs=True)
        return tuple(torch.from_numpy(one.data.copy()) for one in self._request.output_tensors)
