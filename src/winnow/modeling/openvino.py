"""OpenVINO's CPU settings, without importing PyTorch, so that a reader starts 2 seconds sooner."""

from __future__ import annotations

import os
import sys
from typing import Any

import psutil

from winnow.errors import ConfigError

PRECISION_HINTS = {"float32": "f32", "bfloat16": "bf16"}


def disable_telemetry() -> None:
    """Keep OpenVINO's converter from sending usage data."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]


def count_threads() -> int:
    """Return a model's number of threads: OMP_NUM_THREADS, or the cores this process may use."""
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(psutil.cpu_count(logical=False) or usable, usable)


def check_precision(dtype: str) -> None:
    """Raise ConfigError if OpenVINO does not compute in a precision on this CPU."""
    import openvino

    if dtype not in PRECISION_HINTS:
        raise ConfigError(
            f"runtime=openvino computes in float32 or bfloat16; received dtype={dtype}. Use "
            "runtime=torch."
        )
    if dtype == "bfloat16" and "BF16" not in openvino.Core().get_property(
        "CPU", "OPTIMIZATION_CAPABILITIES"
    ):
        raise ConfigError(
            f"This CPU does not compute in {dtype}. Use dtype=float32 or auto, or runtime=torch."
        )


def build_properties(dtype: str) -> dict[str, Any]:
    """Return OpenVINO's properties for a model on this CPU in a precision of `PRECISION_HINTS`.

    A model in bfloat16 has at least two threads. With one, OpenVINO 2026.4 divides by zero on CPUs
    with AMX, which ends the process (https://github.com/openvinotoolkit/openvino/issues/33300).
    """
    return {
        "INFERENCE_PRECISION_HINT": PRECISION_HINTS[dtype],
        "INFERENCE_NUM_THREADS": max(count_threads(), 2 if dtype == "bfloat16" else 1),
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,  # several processes may share the machine
    }
