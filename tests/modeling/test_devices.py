"""Devices and precisions by name, and what "auto" means."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from winnow.errors import ConfigError
from winnow.modeling import devices
from winnow.modeling.devices import pick_device, pick_dtype, resolve_dtype


@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize(
    ("has", "expected"),
    [("sse avx512_bf16", "bfloat16"), ("amx_bf16 sse", "bfloat16"), ("sse bf16", "float32")],
)
def test_auto_takes_bfloat16_where_the_processor_multiplies_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has: str, expected: str, device: str
) -> None:
    """Emulated, it would be slower than float32; a name is taken as it is. Elsewhere than on Linux,
    PyTorch is asked.
    """
    monkeypatch.setattr(devices, "_GPU_DRIVERS", ())
    monkeypatch.setattr(devices, "_CPU_FEATURES", tmp_path / "cpuinfo")
    monkeypatch.setattr(
        "torch.cpu.get_capabilities",
        lambda: dict.fromkeys(has.split(), True) | {"amx_bf16": "amx" in has},
    )
    for text in (None, f"processor: 0\nflags\t\t: {has}\nflags: amx_bf16\n"):
        if text:
            (tmp_path / "cpuinfo").write_text(text)
        devices._read_cpu_features.cache_clear()
        assert resolve_dtype("auto", device) == expected
    devices._read_cpu_features.cache_clear()
    assert resolve_dtype("bfloat16", device) == "bfloat16"


def test_precision_is_known_without_pytorch() -> None:
    """Settings are checked before anything large is imported; both ways of asking agree on this
    machine.
    """
    code = (
        "import sys; from winnow.modeling.devices import resolve_dtype as r; print(r('auto', "
        "'cpu'), 'torch' in sys.modules)"
    )
    found, imported = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    capabilities = torch.cpu.get_capabilities()
    native = capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    assert (found, imported) == ("bfloat16" if native else "float32", str(sys.platform != "linux"))


def test_devices_without_a_rule_of_their_own_have_that_of_the_processor() -> None:
    """Only CUDA is asked for its precisions."""
    assert resolve_dtype("auto", "meta") == resolve_dtype("auto", "cpu")


def test_devices_and_precisions_by_name() -> None:
    """Unknown ones are refused with the choices."""
    assert pick_device("cpu").type == "cpu"
    with pytest.raises(ConfigError, match="device must be"):
        pick_device("gpu!")
    with pytest.raises(ConfigError, match="float32, bfloat16, float16"):
        pick_dtype("int3", "cpu")
