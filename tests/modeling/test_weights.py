"""Which weights are loaded, and which are missing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from winnow.errors import ModelError
from winnow.modeling.loading import check_model, load_causal_lm, load_encoder
from winnow.modeling.weights import load_pretrained
from winnow.testing import make_tiny_causal_lm, make_tiny_encoder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pytorch_model.bin", "names the weights 'pytorch_model.bin'. Only safetensors files"),
        (
            "../outside.safetensors",
            "names the weights '../outside.safetensors'. Only safetensors files",
        ),
        ("missing.safetensors", "which do not exist"),
    ],
)
def test_an_index_names_only_safetensors_in_the_folder(
    tmp_path: Path, name: str, message: str
) -> None:
    """Neither pickled weights nor those of another folder; a whole index passes."""
    folder = make_tiny_causal_lm(tmp_path / "m", ["some text"])
    (tmp_path / "outside.safetensors").touch()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors"}}))
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"weight_map": {"a": "pytorch_model.bin"}})
    )
    check_model(str(folder))
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors", "b": name}}))
    with pytest.raises(ModelError, match=message):
        check_model(str(folder))
    index.write_text("[]")
    with pytest.raises(ModelError, match="is not an index of weights"):
        check_model(str(folder))


def test_missing_weights_are_named_instead_of_drawn_at_random(tmp_path: Path) -> None:
    """Of a language model, and of an encoder, which may lack only the pooler that nobody reads."""
    folder = make_tiny_causal_lm(tmp_path / "m", ["some text"])
    _drop(folder, lambda name: "layers.0.mlp" in name)
    with pytest.raises(
        ModelError,
        match=r"lacks the weights model\.layers\.0\.mlp\.down_proj.*Check that it is a complete",
    ):
        load_causal_lm(str(folder), "float32", "cpu")
    encoder = make_tiny_encoder(tmp_path / "e", ["some text"])
    _drop(encoder, lambda name: "pooler" in name)
    load_encoder(str(encoder), "float32", "cpu")
    load_encoder(str(encoder), "float32", "cpu", classes=1)
    _drop(encoder, lambda name: "attention.self.query" in name)
    with pytest.raises(ModelError, match="lacks the weights"):
        load_encoder(str(encoder), "float32", "cpu", classes=1)


def _drop(folder: Path, is_dropped: Callable[[str], bool]) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(
        {n: t for n, t in weights.items() if not is_dropped(n)},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    """A damaged file may be read without an error; every reply would be of no meaning."""
    from transformers import AutoModelForCausalLM

    folder = make_tiny_causal_lm(tmp_path / "lm", ["a"])
    file = folder / "model.safetensors"
    weights = load_file(file)
    name = next(name for name in weights if "mlp" in name)
    weights[name][0, 0] = float("nan")
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=f"the weights {name} are not all finite"):
        load_pretrained(AutoModelForCausalLM, str(folder))
