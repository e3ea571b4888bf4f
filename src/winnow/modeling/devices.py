"""Devices, precisions and runtimes of models, and what "auto" means for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from winnow.errors import ConfigError

DTYPES = ("auto", "float32", "bfloat16", "float16")

RUNTIMES = ("auto", "torch", "openvino")

_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
"""Files of GPU drivers: NVIDIA, NVIDIA Jetson, Windows Subsystem for Linux, and AMD."""

_CPU_FEATURES = Path("/proc/cpuinfo")

_BFLOAT16_FEATURES = frozenset(["avx512_bf16", "amx_bf16"])
"""Features of processors that multiply bfloat16."""


if TYPE_CHECKING:
    import torch


def pick_device(name: str) -> torch.device:
    """Convert "auto", "cpu" or "cuda[:n]" to a torch device. "auto" means the GPU if available."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device must be auto, cpu or cuda; received {name!r}.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device={name} was requested, but torch finds no GPU. Use device=auto or device=cpu."
        )
    return device


def resolve_device_type(name: str) -> str:
    """Return the type of a device, which is "cpu" or "cuda"."""
    return "cpu" if _is_on_cpu(name) else pick_device(name).type


def resolve_dtype(name: str, device: str) -> str:
    """Resolve a precision. "auto" means bfloat16 if the device supports it natively, else float32.

    A CPU without AVX512-BF16 or AMX emulates bfloat16, at a quarter of the speed of float32.
    """
    if name not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}; received {name!r}.")
    if name != "auto":
        return name
    if resolve_device_type(device) != "cuda":
        native = not _BFLOAT16_FEATURES.isdisjoint(_read_cpu_features())
    else:
        import torch

        native = torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if native else "float32"


def resolve_dtype_setting(
    settings: Mapping[str, Any], name: str = "dtype", default: str = "auto"
) -> dict[str, Any]:
    """Return a component's settings with its precision resolved for its device."""
    dtype = resolve_dtype(str(settings.get(name, default)), str(settings.get("device", "auto")))
    return {**settings, name: dtype}


def _is_on_cpu(device: str) -> bool:
    """Return whether a device is surely the CPU, for which PyTorch need not be asked."""
    return device == "cpu" or (device == "auto" and not _has_gpu_driver())


def _has_gpu_driver() -> bool:
    """Return whether a GPU driver is loaded. If none is, PyTorch need not be imported to check."""
    return sys.platform != "linux" or any(map(os.path.exists, _GPU_DRIVERS))


@cache
def _read_cpu_features() -> set[str]:
    """Return the CPU's features by Linux's names, from Linux (which is faster) or else PyTorch."""
    with suppress(OSError):
        for line in _CPU_FEATURES.read_text(encoding="utf-8").splitlines():
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    import torch

    return {name for name, has in torch.cpu.get_capabilities().items() if has}


def pick_dtype(name: str, device: str) -> torch.dtype:
    """Convert the name of a precision to a torch dtype."""
    import torch

    return cast("torch.dtype", getattr(torch, resolve_dtype(name, device)))


def resolve_runtime(name: str, device: str, dtype: str = "auto", package: str = "openvino") -> str:
    """Resolve the name of a runtime.

    "auto" means OpenVINO if its package is installed, the device is a CPU and the precision is not
    float16. Otherwise it means PyTorch.

    Args:
        name: "auto", "torch" or "openvino".
        device: "auto", "cpu" or "cuda".
        dtype: Name of the precision.
        package: Package that runtime "openvino" needs: "openvino" or "openvino_genai".
    """
    if name not in RUNTIMES:
        raise ConfigError(f"runtime must be one of {', '.join(RUNTIMES)}; received {name!r}.")
    if name == "torch":
        return name
    on_cpu = _is_on_cpu(device) or (device == "auto" and pick_device(device).type == "cpu")
    is_installed = find_spec(package) is not None
    if name == "auto":
        return "openvino" if on_cpu and is_installed and dtype != "float16" else "torch"
    if not on_cpu:
        raise ConfigError(
            f"runtime=openvino runs on a CPU; received device={device}. Use runtime=torch, or "
            "device=cpu."
        )
    if not is_installed:
        raise ConfigError(
            f"runtime=openvino was requested, but {package} is not installed. Run `pip install "
            f"{package.replace('_', '-')}`, or use runtime=torch."
        )
    return name
