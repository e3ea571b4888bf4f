"""Model folders are checked before anything is loaded."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from winnow.errors import ModelError
from winnow.modeling.loading import (
    check_model,
    compute_weights_digest,
    load_causal_lm,
    read_context_length,
)
from winnow.testing import make_tiny_causal_lm


def test_a_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    """The message names the folder and how to mend it; a whole folder passes."""
    folder = make_tiny_causal_lm(tmp_path / "m", ["some text"])
    check_model(str(folder))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="has no tokenizer"):
        check_model(str(folder))


def test_pickled_weights_and_missing_folders_are_refused(tmp_path: Path) -> None:
    """Safetensors or GGUF only; a hub name passes, it is looked up when it is loaded."""
    folder = make_tiny_causal_lm(tmp_path / "m", ["some text"])
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickled weights are not loaded"):
        check_model(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"no config\.json"):
        check_model(str(folder))
    with pytest.raises(ModelError, match="There is no model folder"):
        check_model(str(tmp_path / "none"))
    with pytest.raises(ModelError, match="There is no GGUF file"):
        check_model(str(tmp_path / "none.gguf"))
    check_model("owner/name")


def test_the_digest_follows_the_weights(tmp_path: Path) -> None:
    """Another seed is another model; a hub name stands for itself."""
    one, two = (make_tiny_causal_lm(tmp_path / str(n), ["some text"], seed=n) for n in (1, 2))
    assert compute_weights_digest(str(one)) != compute_weights_digest(str(two))
    assert compute_weights_digest(str(one)) == compute_weights_digest(str(one))
    assert compute_weights_digest("owner/name") == "owner/name"


def test_the_code_of_a_model_folder_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever says yes on the terminal: config, model and tokenizer name a module that would leave
    a file.
    """
    folder, marker = make_tiny_causal_lm(tmp_path / "m", ["some text"]), tmp_path / "was run"
    (folder / "theirs.py").write_text(
        f"open({str(marker)!r}, 'w').close()\nclass Config: pass\nclass Model: pass\nclass "
        "Tokenizer: pass\n"
    )
    names = {
        "AutoConfig": "theirs.Config",
        "AutoModelForCausalLM": "theirs.Model",
        "AutoTokenizer": ["theirs.Tokenizer", None],
    }
    for file in ("config.json", "tokenizer_config.json"):
        body = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(body | {"auto_map": names}))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    assert load_causal_lm(str(folder), "float32", "cpu").model.config.model_type == "llama"
    body = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(body | {"model_type": "theirs"}))
    with pytest.raises(ModelError, match=r"cannot be loaded .*custom code"):
        load_causal_lm(str(folder), "float32", "cpu")
    assert not marker.exists()


def test_the_digest_covers_folders_inside_a_model(tmp_path: Path) -> None:
    """As of models that keep a module in a folder of its own."""
    folder = make_tiny_causal_lm(tmp_path / "m", ["some text"])
    before = compute_weights_digest(str(folder))
    (folder / "1_Dense").mkdir()
    (folder / "1_Dense" / "model.safetensors").write_bytes(b"weights")
    assert compute_weights_digest(str(folder)) != before


def test_what_is_read_from_the_chat_template_is_read_once(tmp_path: Path) -> None:
    """Every likelihood with its end asks for it."""
    lm = load_causal_lm(str(make_tiny_causal_lm(tmp_path / "m", ["some text"])), "float32", "cpu")
    assert lm.text is lm.text


def test_the_record_of_a_download_is_no_part_of_the_weights(tmp_path: Path) -> None:
    """It has times of files, which differ between machines."""
    folder = make_tiny_causal_lm(tmp_path / "lm", ["a b"])
    digest = compute_weights_digest(str(folder))
    (folder / ".asset.json").write_text('{"files": {}}')
    assert compute_weights_digest(str(folder)) == digest


@pytest.mark.parametrize(("model_type", "limit"), [("roberta", 510), ("bert", 512)])
def test_positions_that_a_model_does_not_use_are_not_counted(model_type: str, limit: int) -> None:
    """RoBERTa's begin after the one of the padding token."""
    config = AutoConfig.for_model(model_type, max_position_embeddings=512, pad_token_id=1)
    assert read_context_length(config) == limit


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}}, 4 * 64),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, 64),
    ],
)
def test_scaled_positions_count(config: dict[str, Any], limit: int) -> None:
    """YaRN and linear scaling read more tokens than the model was made for."""
    qwen = AutoConfig.for_model("qwen2", max_position_embeddings=64, **config)
    assert read_context_length(qwen) == limit


def test_relative_positions_have_no_limit() -> None:
    """XLNet has none, and DeBERTa only if its input has positions as well."""
    assert read_context_length(AutoConfig.for_model("xlnet")) == 2**31
    relative = {"relative_attention": True, "position_biased_input": False}
    deberta = AutoConfig.for_model("deberta-v2", max_position_embeddings=512, **relative)
    assert read_context_length(deberta) == 2**31


@pytest.mark.parametrize("name", ["manifest.json", "training.json", ".asset.json"])
def test_records_are_no_part_of_the_weights(tmp_path: Path, name: str) -> None:
    """Times and places differ between machines."""
    folder = make_tiny_causal_lm(tmp_path / "lm", ["a b"])
    digest = compute_weights_digest(str(folder))
    (folder / name).write_text('{"files": {}}')
    assert compute_weights_digest(str(folder)) == digest


@pytest.mark.parametrize(
    "model_type",
    ["camembert", "data2vec-text", "longformer", "mpnet", "roberta", "xlm-roberta", "xmod"],
)
def test_models_that_count_from_the_padding_have_fewer_positions(model_type: str) -> None:
    """A text of 512 tokens would end in an index error."""
    config = AutoConfig.for_model(model_type, max_position_embeddings=514, pad_token_id=1)
    assert read_context_length(config) == 512
