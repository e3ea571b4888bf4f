"""Every benchmark starts, at its smallest size; what it measures is not tested."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = sorted(file.stem for file in (ROOT / "bench").glob("bench_*.py"))
WORDS = {
    "bench_batch_effect": ["1"],
    "bench_estimator": ["1", "rescoring"],
    "bench_peers": ["retrieval"],
}
"""Words of command lines that leave out the parts that take long at any size."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs(name: str) -> None:
    """It prints what it measured, or that it needs the data of the quick start."""
    environment = os.environ | {"WINNOW_BENCH_SIZE": "0.001"}
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *WORDS.get(name, [])],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert any(word in done.stdout for word in (" x", "results/s", "%", "exponents", "Skipped")), (
        done.stdout
    )
