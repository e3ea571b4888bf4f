"""Options of chat templates, and the reasoning that some begin."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.readers.test_local import answers
from winnow.errors import ConfigError
from winnow.readers.local import LocalReader
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message
from winnow.testing import make_tiny_causal_lm
from winnow.text.answers import extract_answer


def test_options_of_the_chat_template(tmp_path: Path) -> None:
    """They change prompt and identity; one that the template does not have, or that belongs to the
    request, is refused.
    """
    folder = make_tiny_causal_lm(tmp_path / "lm", ["who wrote it"])
    template = AutoTokenizer.from_pretrained(folder)
    template.chat_template = (
        "{{ messages[0]['content'] }}{% if not enable_thinking %}</think>{% endif %}"
    )
    template.save_pretrained(folder)
    readers = [
        LocalReader(str(folder), "tiny", dtype="float32", device="cpu", template_options=options)
        for options in (
            {},
            {"enable_thinking": True},
            {"enable_thinking": False},
            {"thinking": True},
        )
    ]
    request = Generate((Message("user", "who"),), Decoding())
    texts = [
        reader.lm.tokenizer.decode(reader.encode(request).ids).replace(" ", "")
        for reader in readers[:3]
    ]
    assert texts == ["who</think>", "who", "who</think>"]
    assert len({reader.identity for reader in readers}) == 4
    assert readers[0].identity + '/template {"enable_thinking": true}' == readers[1].identity
    with pytest.raises(ConfigError, match="has no variable thinking"):
        readers[3].encode(request)
    with pytest.raises(ConfigError, match="may not set tokenize"):
        LocalReader(str(folder), "tiny", template_options={"tokenize": True})


@pytest.mark.parametrize("runtime", ["torch", "openvino"])
def test_reasoning_that_the_chat_template_begins_is_part_of_the_reply(
    tmp_path: Path, runtime: str
) -> None:
    """So that a reply that is cut while the model reasons is known to be no answer; a begun reply
    has no tag before it.
    """
    if runtime == "openvino":
        pytest.importorskip("openvino_genai")
    folder = make_tiny_causal_lm(tmp_path / "lm", ["who wrote it"])
    template = AutoTokenizer.from_pretrained(folder)
    template.chat_template = (
        "{% for m in messages %}{{ m['content'] }} {% endfor %}{% if add_generation_prompt "
        "%}<think>\n{% endif %}"
    )
    template.save_pretrained(folder)
    reader = LocalReader(
        str(folder),
        "tiny",
        dtype="float32",
        device="cpu",
        runtime=runtime,
        converted=str(tmp_path / "converted"),
    )
    reader.submit([Generate((Message("user", "who"),), Decoding(3))])
    ((_, result),) = reader.collect(60.0)
    assert isinstance(result, Generation)
    reply, usage = result.text, result.usage
    assert reply.startswith("<think>\n")
    assert 0 < usage.tokens_reasoning <= usage.tokens_out == 3
    assert extract_answer(reply) == ""
    begun = Generate((Message("user", "who"), Message("assistant", "who")), Decoding(3))
    assert not next(iter(answers(reader, [begun]).values())).startswith("<think>")
