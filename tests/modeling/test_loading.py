"""Model folders are checked before anything is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from winnow.errors import ConfigError, ModelError
from winnow.modeling import loading
from winnow.modeling.loading import (
    check_model,
    compute_weights_digest,
    load_causal_lm,
    pick_device,
    pick_dtype,
    resolve_dtype,
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
    monkeypatch.setattr(loading, "_GPU_DRIVERS", ())
    monkeypatch.setattr(loading, "_CPU_FEATURES", tmp_path / "cpuinfo")
    monkeypatch.setattr(
        "torch.cpu.get_capabilities",
        lambda: dict.fromkeys(has.split(), True) | {"amx_bf16": "amx" in has},
    )
    for text in (None, f"processor: 0\nflags\t\t: {has}\nflags: amx_bf16\n"):
        if text:
            (tmp_path / "cpuinfo").write_text(text)
        loading._read_cpu_features.cache_clear()
        assert resolve_dtype("auto", device) == expected
    loading._read_cpu_features.cache_clear()
    assert resolve_dtype("bfloat16", device) == "bfloat16"


def test_precision_is_known_without_pytorch() -> None:
    """Settings are checked before anything large is imported; both ways of asking agree on this
    machine.
    """
    code = (
        "import sys; from winnow.modeling.loading import resolve_dtype as r; print(r('auto', "
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
