"""Settings of generation and dates in a model's files."""

import json
import logging
from pathlib import Path

import pytest

from winnow.modeling.generation_settings import describe_generation
from winnow.readers.seq2seq import Seq2SeqReader
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message
from winnow.testing import make_tiny_t5

REQUEST = Generate((Message("user", "Ada was born in Arlen"),), Decoding(max_new_tokens=12))


def reply(folder: Path) -> Generation:
    """The reply of a tiny T5, which is the same at each call."""
    reader = Seq2SeqReader(str(folder), "tiny", dtype="float32", device="cpu")
    reader.submit([REQUEST])
    ((_, result),) = reader.collect(60.0)
    reader.close()
    assert isinstance(result, Generation)
    return result


@pytest.mark.parametrize(
    "settings",
    [
        {"no_repeat_ngram_size": 1},
        {"suppress_tokens": list(range(3, 30))},
        {"min_length": 12},
        {"stop_strings": ["a"]},
        {"repetition_penalty": 5.0},
        {"num_beams": 4, "length_penalty": 2.0},
        {"do_sample": True, "temperature": 9.0},
    ],
)
def test_replies_depend_on_the_settings_of_a_request_alone(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    """Whatever generation_config.json says, as in models that are published with settings for
    summaries.
    """
    folder = make_tiny_t5(tmp_path / "t5", ["Ada was born in Arlen"])
    plain = reply(folder)
    file = folder / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    assert reply(folder) == plain


def test_ignored_settings_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In one line."""
    folder = make_tiny_t5(tmp_path / "t5", ["Ada"])
    file = folder / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "no_repeat_ngram_size": 3}))
    with caplog.at_level(logging.WARNING):
        reply(folder)
    assert (
        "generation_config.json sets no_repeat_ngram_size, which readers do not use" in caplog.text
    )


@pytest.mark.parametrize(
    ("settings", "description"),
    [
        ({}, ""),
        (
            {
                "eos_token_id": [1, 2],
                "do_sample": True,
                "temperature": 0.6,
                "no_repeat_ngram_size": 0,
            },
            "",
        ),
        (
            {
                "encoder_repetition_penalty": 1.0,
                "output_attentions": False,
                "suppress_tokens": None,
            },
            "",
        ),
        ({"no_repeat_ngram_size": 1}, "/plain"),
        ({"min_new_tokens": 5}, "/plain"),
    ],
)
def test_replies_that_such_settings_once_changed_have_another_key(
    tmp_path: Path, settings: dict[str, object], description: str
) -> None:
    """Settings that do nothing leave the key as it is."""
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    assert describe_generation(str(tmp_path)) == description


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json", "model.gguf"])
def test_a_template_with_a_date_is_found_in_every_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its prompts had another date each day. A hub that cannot be reached is not waited for."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    file = tmp_path / name
    path = str(file if name.endswith(".gguf") else tmp_path)
    file.write_text("{{ strftime_now('%d') }}")
    assert describe_generation(path) == "/dated"
    file.write_text("{{ bos_token }}")
    assert describe_generation(path) == ""
    file.write_text("")
    assert describe_generation(path) == ""
    (tmp_path / "generation_config.json").write_text("no JSON")
    assert describe_generation("owner/name") == describe_generation(path) == ""
