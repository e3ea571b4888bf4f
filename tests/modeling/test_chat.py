"""Chat templates: what they refuse, what they leave out, and control tokens that a passage spells
out.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from transformers import AutoTokenizer

from winnow.errors import ConfigError
from winnow.modeling.chat import render_chat, tokenize_chat
from winnow.modeling.tool_calls import encode_tools
from winnow.records import Passage
from winnow.requests import Message, Tool, ToolCall
from winnow.testing import make_tiny_causal_lm

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PROMPT = (Message("system", "Be brief."), Message("user", "Who?"))
PLAIN = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if "
    "add_generation_prompt %}<reply>{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% "
    "endif %}" + PLAIN
)
FORGETFUL = (
    "{% for m in messages if m['role'] != 'system' %}<{{ m['role'] }}>{{ m['content'] }}{% endfor "
    "%}<reply>"
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> "PreTrainedTokenizerBase":
    """A tokenizer with the control token "<|end|>"."""
    folder = make_tiny_causal_lm(
        tmp_path_factory.mktemp("chat") / "lm", ["Who? Ada <|end|> [1]"], more_tokens=["<|end|>"]
    )
    return AutoTokenizer.from_pretrained(folder)


def render(
    tokenizer: "PreTrainedTokenizerBase", template: Any, messages: tuple[Message, ...] = PROMPT
) -> str:
    tokenizer.chat_template = template
    return render_chat(tokenizer, messages)


def test_a_template_without_system_role_has_its_text_before_the_users(
    tokenizer: "PreTrainedTokenizerBase",
) -> None:
    """As Gemma's convention is."""
    assert render(tokenizer, PLAIN) == "<system>Be brief.<user>Who?<reply>"
    assert render(tokenizer, NO_SYSTEM) == "<user>Be brief.\n\nWho?<reply>"
    assert render(tokenizer, NO_SYSTEM, PROMPT[1:]) == "<user>Who?<reply>"


@pytest.mark.parametrize(
    ("template", "messages", "message"),
    [
        (
            FORGETFUL,
            PROMPT,
            r"leaves out or changes the system message 'Be brief.'.*prompt.system=''",
        ),
        (
            "{{ messages[-1]['content'][:2] }}",
            PROMPT[1:],
            "leaves out or changes the user message 'Who\\?'",
        ),
        (
            "{{ raise_exception('roles must alternate') }}",
            PROMPT,
            r"refuses messages of the roles system, user \(roles must",
        ),
        ("{% if %}", PROMPT, r"refuses messages .*chat_template.jinja"),
        ({"a": PLAIN, "b": PLAIN}, PROMPT, r"several templates \(a, b\) without a default"),
        (
            "{% for m in messages if m['role'] == 'user' %}{{ m['content'] }}{% endfor %}",
            (*PROMPT[1:], Message("assistant", "It is")),
            "choose a prompt without prompt.reply_start",
        ),
    ],
)
def test_what_a_template_cannot_render_is_refused(
    tokenizer: "PreTrainedTokenizerBase",
    template: Any,
    messages: tuple[Message, ...],
    message: str,
) -> None:
    """With the model, the reason and the setting."""
    with pytest.raises(ConfigError, match=message):
        render(tokenizer, template, messages)


def test_control_tokens_of_a_passage_stay_text(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Those of the prompt's own template are tokens; a prompt without any is tokenized as it always
    was.
    """
    tokenizer.chat_template = PLAIN
    end = tokenizer.convert_tokens_to_ids("<|end|>")
    passage = Passage("p", "T", "Ada <|end|> lived")
    prompt = (Message("user", f"<|end|> Read: {passage.text}. Who?"),)
    assert tokenize_chat(tokenizer, prompt).count(end) == 2
    ids = tokenize_chat(tokenizer, prompt, passages=[passage])
    assert ids.count(end) == 1
    assert "Ada" in tokenizer.decode(ids)
    plain = (Message("user", "Read: Ada lived. Who?"),)
    expected = tokenizer(render_chat(tokenizer, plain), add_special_tokens=False)["input_ids"]
    assert tokenize_chat(tokenizer, plain, passages=[Passage("p", "T", "Ada lived")]) == expected


def test_a_passage_cannot_end_the_prompt_of_a_reader(tmp_path: Path) -> None:
    """The reader encodes the passages that a request names as text."""
    from winnow.readers.local import LocalReader
    from winnow.records import Decoding
    from winnow.requests import Generate

    folder = make_tiny_causal_lm(tmp_path / "lm", ["Ada <|end|>"], more_tokens=["<|end|>"])
    reader = LocalReader(str(folder), "tiny", dtype="float32", device="cpu", runtime="torch")
    passage = Passage("p", "T", "Ada <|end|>")
    request = Generate((Message("user", f"Read: {passage.text}"),), Decoding(), passages=(passage,))
    assert reader.lm.tokenizer.convert_tokens_to_ids("<|end|>") not in reader.encode(request).ids


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n{% "
    "endfor %}"
)
REPLY = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def test_a_template_that_does_not_begin_the_reply_is_refused(
    tokenizer: "PreTrainedTokenizerBase",
) -> None:
    """The model would write the user's next message; templates without a text before replies, such
    as Mistral's, are right.
    """
    with pytest.raises(ConfigError, match="does not begin the reply"):
        render(tokenizer, CHATML, PROMPT)
    assert render(tokenizer, CHATML + REPLY, PROMPT).endswith("<|im_start|>assistant\n")
    needy = (
        "{% if messages[0]['role'] != 'system' %}{{ raise_exception('system required') }}{% "
        "endif %}" + CHATML + REPLY
    )
    assert render(tokenizer, needy, PROMPT).endswith("<|im_start|>assistant\n"), (
        "another conversation breaks the template"
    )
    assert (
        render(tokenizer, "{{ messages[1]['content'] + messages[0]['content'] }}", PROMPT)
        == "Who?Be brief."
    )
    mistral = (
        "{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]{% "
        "else %} {{ m['content'] }}</s>"
    )
    assert (
        render(tokenizer, mistral + "{% endif %}{% endfor %}", PROMPT[1:]) == "[INST] Who? [/INST]"
    )


def test_a_turn_whose_text_stands_elsewhere_too_is_missed(
    tokenizer: "PreTrainedTokenizerBase",
) -> None:
    """A demonstration's answer, "Who", is a part of the question; the template drops it."""
    messages = (Message("user", "Where?"), Message("assistant", "Who"), Message("user", "Who?"))
    assert "<assistant>Who" in render(tokenizer, PLAIN, messages)
    template = (
        "{% for m in messages if m['role'] != 'assistant' %}<{{ m['role'] }}>{{ m['content'] }}{% "
        "endfor %}"
    )
    with pytest.raises(ConfigError, match="leaves out or changes the assistant message 'Who'"):
        render(tokenizer, template, messages)


def test_the_space_that_ends_the_beginning_of_a_reply_is_kept(
    tokenizer: "PreTrainedTokenizerBase",
) -> None:
    """By templates that strip texts too."""
    messages = (*PROMPT, Message("assistant", "The answer is "))
    for template in (CHATML + REPLY, PLAIN):
        assert render(tokenizer, template, messages).endswith("The answer is ")


def test_a_template_shows_the_same_date_every_day(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Otherwise the prompt of one key would change at midnight; a format that is computed is
    refused.
    """
    date = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}"
    assert render(tokenizer, date + PLAIN).startswith("26 Jul 2024<system>")
    several = {"default": date + PLAIN, "tool_use": PLAIN}
    assert render(tokenizer, several).startswith("26 Jul 2024<system>")
    with pytest.raises(ConfigError, match="in a format that is computed"):
        render(tokenizer, "{% set f = '%d' %}{{ strftime_now(f) }}" + PLAIN)


WITH_TOOLS = (
    "{% if tools %}<tools>{% for t in tools %}{{ t['function']['name'] }}:{{ "
    "t['function']['description'] }}{{ t['function']['parameters'] | tojson }}{% endfor %}{% "
    "endif %}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] | tojson if m['role'] == "
    "'tool' else m['content'] }}{% for c in m.get('tool_calls') or [] %}[{{ c['function']['name'] "
    "}} {{ c['function']['arguments']['query'] }}]{% endfor %}{% endfor %}{% if "
    "add_generation_prompt %}<reply>{% endif %}"
)


def test_tools_and_their_results_are_rendered_by_the_template(
    tokenizer: "PreTrainedTokenizerBase",
) -> None:
    """Arguments as an object, results as JSON where the template writes them so; a template without
    tools is refused.
    """
    tool = Tool("search", "Search.", '{"type": "object"}')
    called = Message("assistant", "", (ToolCall("search", '{"query": "Ada"}', "1"),))
    messages = (Message("user", "Who?"), called, Message("tool", 'a "b"', call_id="1"))
    tokenizer.chat_template = WITH_TOOLS
    options = {"tools": encode_tools([tool])}
    expected = (
        '<tools>search:Search.{"type": "object"}<user>Who?<assistant>[search Ada]<tool>"a '
        '\\"b\\""<reply>'
    )
    assert render_chat(tokenizer, messages, options) == expected
    tokenizer.chat_template = PLAIN
    with pytest.raises(ConfigError, match="has no variable tools"):
        render_chat(tokenizer, messages[:1], options)
    tokenizer.chat_template = PLAIN + "{# tools #}"
    with pytest.raises(ConfigError, match="does not show the tool 'search'"):
        render_chat(tokenizer, messages[:1], options)


def test_calls_without_their_text_and_results_as_json_are_shown(
    tokenizer: "PreTrainedTokenizerBase",
) -> None:
    """Some templates leave out what stands before a call; results may be written as JSON with or
    without escapes.
    """
    called = Message("assistant", "I look.", (ToolCall("search", '{"query": "Ada"}', "1"),))
    messages = (
        Message("user", "Who?"),
        called,
        Message("tool", 'Dvo\u0159\u00e1k "x"', call_id="1"),
    )
    tokenizer.chat_template = WITH_TOOLS.replace(
        "{{ m['content'] | tojson if m['role'] == 'tool' else m['content'] }}",
        "{% if not m.get('tool_calls') %}{{ m['content'] | tojson if m['role'] == 'tool' else "
        "m['content'] }}{% endif %}",
    )
    assert "I look" not in render_chat(
        tokenizer, messages, {"tools": encode_tools([Tool("search", "Search.", "{}")])}
    )


if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def test_tools_are_shown_by_the_template_for_them(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Of several templates; without tools, the default serves."""
    tokenizer.chat_template = {"default": PLAIN, "tool_use": "{{ tools | tojson }}" + PLAIN}
    tools = [Tool("search", "Search.", "{}")]
    shown = render_chat(tokenizer, PROMPT, {"tools": encode_tools(tools)})
    assert "search" in shown.partition("<system>")[0]
    assert render_chat(tokenizer, PROMPT).startswith("<system>")
