"""The program of docs/data.md that converts a pickled model, run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from winnow.errors import ModelError
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.testing import make_tiny_dpr

DOCS = Path(__file__).parents[2] / "docs" / "data.md"


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    """DPR's question encoder with its weights in a pickle."""
    folder, _ = make_tiny_dpr(tmp_path / "dpr", ["Which rivers flow in France?", "the Seine"])
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.rename(tmp_path / "expected.safetensors")
    return folder


def convert(source: Path, target: Path) -> "subprocess.CompletedProcess[str]":
    """Run the program of the page."""
    (program,) = re.findall(r"```python\n(# convert.py\n.*?)```", DOCS.read_text(), flags=re.DOTALL)
    (source.parent / "convert.py").write_text(program)
    command = [sys.executable, "convert.py", str(source), str(target)]
    return subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False)


def test_a_pickled_model_is_refused_and_the_converted_one_is_the_same(pickled: Path, tmp_path: Path) -> None:
    """The encoder loads afterwards, with equal weights."""
    with pytest.raises(ModelError, match="pickled weights are not loaded"):
        SentenceEncoder(str(pickled), dtype="float32").encode_queries(["rivers"])
    convert(pickled, tmp_path / "converted").check_returncode()
    expected, found = load_file(tmp_path / "expected.safetensors"), load_file(tmp_path / "converted/model.safetensors")
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    vectors = SentenceEncoder(str(tmp_path / "converted"), dtype="float32").encode_queries(["rivers", "the Seine"])
    assert np.isfinite(vectors).all()


def test_code_in_a_pickle_is_not_run(pickled: Path, tmp_path: Path) -> None:
    """The program refuses it, and writes no model."""

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (open, (str(tmp_path / "touched"), "w"))  # type: ignore[return-value]

    torch.save({"a": Attack()}, pickled / "pytorch_model.bin")
    done = convert(pickled, tmp_path / "converted")
    assert done.returncode
    assert "weights_only" in done.stderr.lower() or "Weights only" in done.stderr
    assert not (tmp_path / "touched").exists()
    assert not (tmp_path / "converted").exists()
