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


def test_a_pickled_model_is_refused_and_the_converted_one_is_the_same(
    pickled: Path, tmp_path: Path
) -> None:
    """The encoder loads afterwards, with equal weights."""
    with pytest.raises(ModelError, match="pickled weights are not loaded"):
        SentenceEncoder(str(pickled), dtype="float32").encode_queries(["rivers"])
    convert(pickled, tmp_path / "converted").check_returncode()
    expected, found = (
        load_file(tmp_path / "expected.safetensors"),
        load_file(tmp_path / "converted/model.safetensors"),
    )
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    vectors = SentenceEncoder(str(tmp_path / "converted"), dtype="float32").encode_queries(
        ["rivers", "the Seine"]
    )
    assert np.isfinite(vectors).all()


def test_the_shards_of_a_large_model_are_converted_each(pickled: Path, tmp_path: Path) -> None:
    """With an index, by which the encoder finds all of its weights."""
    weights = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    names = sorted(weights)
    for number, part in enumerate((names[:3], names[3:]), start=1):
        torch.save(
            {name: weights[name] for name in part},
            pickled / f"pytorch_model-{number:05}-of-00002.bin",
        )
    (pickled / "pytorch_model.bin").unlink()
    (pickled / "pytorch_model.bin.index.json").write_text("{}")
    convert(pickled, tmp_path / "converted").check_returncode()
    files = {file.name for file in (tmp_path / "converted").iterdir() if "model" in file.name}
    shards = {f"model-{number:05}-of-00002.safetensors" for number in (1, 2)}
    assert files == {*shards, "model.safetensors.index.json"}
    vectors = SentenceEncoder(str(tmp_path / "converted"), dtype="float32").encode_queries(
        ["rivers"]
    )
    whole = {
        name: tensor
        for shard in shards
        for name, tensor in load_file(tmp_path / "converted" / shard).items()
    }
    assert np.isfinite(vectors).all()
    assert all(torch.equal(whole[name], tensor) for name, tensor in weights.items())


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
