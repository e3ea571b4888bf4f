"""The tokenizer and the limits of a model, stored with its conversion."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from winnow.errors import ModelError
from winnow.modeling.loading import load_causal_lm, load_text_interface
from winnow.modeling.text_interface import TextInterface, read_interface, write_interface
from winnow.testing import make_tiny_causal_lm
from winnow.testing.tiny_models import make_tiny_tokenizer

TEXTS = ["Who wrote Emma? I don't know!", "日本 élan\n\n  x\t1234567", "<pad> a <|end|>"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model whose generation ends with another token, too."""
    folder = make_tiny_causal_lm(tmp_path / "lm", TEXTS, context_length=200)
    file = folder / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "eos_token_id": [1, 7]}))
    return folder


def test_it_is_read_as_the_model_has_it(folder: Path, tmp_path: Path) -> None:
    """Tokens, template and limits: of the loaded model, of its files alone, and as stored."""
    model = load_causal_lm(str(folder), "float32", "cpu").text
    write_interface(model, tmp_path)
    stored = load_text_interface(str(folder), tmp_path)
    assert (model.context_length, 7 in model.end_token_ids) == (200, True)
    for other in (load_text_interface(str(folder)), stored):
        assert (other.context_length, other.end_token_ids) == (200, model.end_token_ids)
        assert other.tokenizer.chat_template == model.tokenizer.chat_template
        assert other.tokenizer.name_or_path == str(folder)
        for text in TEXTS:
            ids = model.tokenizer(text)["input_ids"]
            assert other.tokenizer(text)["input_ids"] == ids
            assert other.tokenizer.decode(ids) == model.tokenizer.decode(ids)
        batch = [other.tokenizer(TEXTS[:2], padding=True)["input_ids"] for _ in (0, 1)]
        assert batch[0] == model.tokenizer(TEXTS[:2], padding=True)["input_ids"]


def test_a_tokenizer_that_changes_when_it_is_read_is_not_stored(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded with the original model, whatever its folder has besides."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    save = type(tokenizer).save_pretrained

    def lose_the_template(self: object, folder: Path) -> None:
        save(self, folder)  # type: ignore[arg-type]
        config = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        (folder / "chat_template.jinja").unlink(missing_ok=True)

    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    text = TextInterface(tokenizer, 200, frozenset([1]))
    with monkeypatch.context() as patch:
        patch.setattr(type(tokenizer), "save_pretrained", lose_the_template)
        write_interface(text, tmp_path)
    assert read_interface(tmp_path) is None
    assert load_text_interface(str(folder), tmp_path).context_length == 200
    write_interface(text, tmp_path)
    stored = read_interface(tmp_path)
    assert stored is not None
    assert stored.tokenizer.chat_template == tokenizer.chat_template


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("tokenizer.json", {"normalizer": {"type": "Lowercase"}}),
        ("tokenizer_config.json", {"split_special_tokens": True}),
        ("tokenizer_config.json", {"eos_token": "another"}),
        ("tokenizer_config.json", {"clean_up_tokenization_spaces": True}),
        ("tokenizer_config.json", {"tokenizer_class": "none", "added_tokens_decoder": 5}),
    ],
)
def test_a_tokenizer_with_other_rules_is_not_stored(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, change: object
) -> None:
    """Nor one that cannot be read: a conversion does not fail for it."""
    text = load_text_interface(str(folder))
    save = type(text.tokenizer).save_pretrained

    def change_it(self: object, folder: Path) -> None:
        save(self, folder)  # type: ignore[arg-type]
        written = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**written, **change}))  # type: ignore[dict-item]

    monkeypatch.setattr(type(text.tokenizer), "save_pretrained", change_it)
    write_interface(text, tmp_path)
    assert read_interface(tmp_path) is None


def test_damaged_settings_of_generation_are_an_error(folder: Path) -> None:
    """Without them, a reply would end at other tokens."""
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_text_interface(str(folder))


def test_the_end_tokens_of_a_model_without_settings_of_generation(tmp_path: Path) -> None:
    """They are those of its configuration, as when the model is loaded."""
    folder = make_tiny_causal_lm(tmp_path / "lm", TEXTS)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=300, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1, eos_token_id=[3, 4], max_position_embeddings=50,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    model = load_causal_lm(str(folder), "float32", "cpu")
    own = load_text_interface(str(folder))
    assert {3, 4} <= own.end_token_ids == model.end_token_ids
    assert own.context_length == model.context_length == 50


def test_neither_pytorch_nor_models_are_imported(folder: Path, tmp_path: Path) -> None:
    """They take two seconds, which a person would wait for."""
    write_interface(load_causal_lm(str(folder), "float32", "cpu").text, tmp_path)
    code = (
        "import sys; from pathlib import Path; from winnow.modeling.loading import "
        f"load_text_interface; load_text_interface({str(folder)!r}, Path({str(tmp_path)!r}))"
        ".tokenizer('a'); print({'torch', 'transformers.modeling_utils'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_reply_ends_as_the_chat_template_ends_it() -> None:
    """Gemma's has an end of turn; a template without one, and none, leave the end-of-sequence
    token; so does a token that ends no reply.
    """
    tokenizer = make_tiny_tokenizer(["the cat"], ["<end_of_turn>"])
    turn = int(tokenizer.convert_tokens_to_ids("<end_of_turn>"))  # type: ignore[arg-type]
    template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}END\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    for end, ends, expected in (
        ("<end_of_turn>", {1, turn}, turn),
        ("<end_of_turn>", {1}, 1),
        ("", {1, turn}, 1),
    ):
        tokenizer.chat_template = template.replace("END", end)
        assert TextInterface(tokenizer, 99, frozenset(ends)).reply_end_id == expected
    for other, expected in (
        (template.replace("END", "\n<end_of_turn>"), turn),
        ("{% if messages | length > 1 %}{{ raise_exception('one turn') }}{% endif %}a", 1),
        (None, 1),
    ):
        tokenizer.chat_template = other
        assert TextInterface(tokenizer, 99, frozenset({1, turn})).reply_end_id == expected


def test_settings_beside_a_gguf_file_are_not_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder may have those of other files; the weights know nothing of them either."""
    from winnow.modeling import loading

    file = folder / "model.gguf"
    file.touch()
    source, options, tokenizer = loading._load_tokenizer(str(folder))
    monkeypatch.setattr(loading, "_load_tokenizer", lambda _: (source, options, tokenizer))
    own = load_text_interface(str(folder)).end_token_ids
    assert own - load_text_interface(str(file)).end_token_ids == {7}
