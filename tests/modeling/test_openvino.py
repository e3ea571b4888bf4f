"""Settings of OpenVINO: threads, and what is not imported for them."""

import os
import subprocess
import sys

import psutil
import pytest

from winnow.modeling import openvino

pytest.importorskip("openvino")


@pytest.mark.parametrize(
    ("dtype", "given", "threads"), [("bfloat16", 1, 2), ("bfloat16", 3, 3), ("float32", 1, 1)]
)
def test_bfloat16_has_two_threads_or_more(
    monkeypatch: pytest.MonkeyPatch, dtype: str, given: int, threads: int
) -> None:
    """With one, OpenVINO divides by zero on a CPU with AMX; otherwise the number is
    `count_threads`.
    """
    monkeypatch.setattr(openvino, "count_threads", lambda: given)
    assert openvino.build_properties(dtype)["INFERENCE_NUM_THREADS"] == threads


@pytest.mark.parametrize(("given", "threads"), [("3", 3), ("5,2", 5), ("", None), ("0", None)])
def test_threads_are_those_of_openmp_or_one_a_core(
    monkeypatch: pytest.MonkeyPatch, given: str, threads: int | None
) -> None:
    """Processes that share a machine by OMP_NUM_THREADS share it here, too."""
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 64 if logical else 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    assert openvino.count_threads() == (threads or 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert openvino.count_threads() == (threads or 2)


def test_pytorch_is_not_imported() -> None:
    """A reader on OpenVINO starts without it."""
    code = "import sys, winnow.modeling.openvino; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
