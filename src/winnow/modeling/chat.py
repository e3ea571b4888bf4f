"""Prompts as the chat template of a model renders them, and their tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from winnow.errors import ConfigError
from winnow.modeling.tool_calls import encode_messages
from winnow.records import Passage
from winnow.requests import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
TEMPLATE_DATE = datetime(2024, 7, 26, tzinfo=UTC)
"""Date that templates show as today's (Llama 3, gpt-oss): the default of Llama's template."""
PLACE_OF_REPLY = "reply1x"
"""Text that no template writes itself, in the place of a reply."""
_DATE = re.compile(r"strftime_now\(\s*([\"'])(.*?)\1\s*\)")
_MARK = re.compile("\ue000(\\d+)\ue001")
"""Place of a spelled-out control token, in characters of Unicode's private area."""


def render_chat(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    options: Mapping[str, Any] = _NO_OPTIONS,
) -> str:
    """Render a prompt with the model's chat template, or as plain text if the model has none.

    If the last message is of the assistant, it is the beginning of the reply, which the model
    continues. If the template refuses a system message, as Gemma's does, its text begins the first
    message of the user.

    Args:
        tokenizer: Tokenizer of the model.
        messages: Messages of the prompt.
        options: Further variables of the template, by name.

    Raises:
        ConfigError: If the template has no variable of that name, so that the option would have no
            effect, if it refuses the messages, or if it leaves one out.
    """
    unknown = [
        name
        for name in options
        if not re.search(rf"\b{re.escape(name)}\b", str(tokenizer.chat_template or ""))
    ]
    if unknown:
        raise ConfigError(
            f"The chat template of {tokenizer.name_or_path} has no variable {', '.join(unknown)}. "
            "Remove it from reader.engine.template_options, or choose a model whose template has "
            "it (`tools` is for strategies which let the model call tools)."
        )
    if tokenizer.chat_template is None:
        is_begun = messages[-1].role == "assistant"
        *turns, beginning = [message.content for message in messages] + ([] if is_begun else [""])
        return (tokenizer.bos_token or "") + "\n\n".join(turns) + "\n" + beginning
    try:
        prompt = _apply_template(tokenizer, messages, options)
    except Exception as error:
        merged_messages = _merge_system(messages)
        try:
            prompt = _apply_template(tokenizer, merged_messages, options) if merged_messages else ""
        except Exception:
            prompt = ""
        if not prompt:
            raise ConfigError(_describe_refusal(tokenizer, messages, error)) from error
    settings = (tokenizer, str(tokenizer.chat_template), json.dumps(dict(options)))
    left_out = _find_left_out(*settings, tuple(message.role for message in messages))
    missing_message = messages[left_out] if left_out is not None else None
    missing_message = missing_message or next(
        (message for message in messages if not _is_shown(message, prompt)), None
    )
    texts = [
        tool["function"][name]
        for tool in options.get("tools", ())
        for name in ("name", "description")
    ]
    texts += [call.name for message in messages for call in message.tool_calls]
    plain = (text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1] == text)
    if unnamed := next((text for text in plain if text not in prompt), None):
        raise ConfigError(
            f"The chat template of {tokenizer.name_or_path} does not show the tool {unnamed!r}, so "
            "that the model would not know of it or of its call. Choose a model whose template "
            "has `tools`, a server, or a strategy without tools."
        )
    if missing_message is not None:
        raise ConfigError(
            f"The chat template of {tokenizer.name_or_path} leaves out or changes the "
            f"{missing_message.role} message {missing_message.content[:60]!r}, so that the model "
            "would not see "
            "it. Choose a prompt without it (prompt.system=''), or correct the template of the "
            "model's folder (chat_template.jinja)."
        )
    if messages[-1].role == "assistant":
        beginning = messages[-1].content
        return (
            prompt if prompt.endswith(beginning) else prompt + beginning[len(beginning.rstrip()) :]
        )
    if _ignores_reply(*settings):
        raise ConfigError(
            f"The chat template of {tokenizer.name_or_path} does not begin the reply (it ignores "
            "add_generation_prompt), so that the model would write the beginning itself, or the "
            "user's next message. Correct the template of the model's folder "
            "(chat_template.jinja): `{% if add_generation_prompt %}` with what is before a "
            "reply."
        )
    return prompt


def _is_shown(message: Message, rendered: str) -> bool:
    """Return whether a prompt shows a message's text. Some templates write tool results as JSON."""
    text = message.content.strip()
    if (
        text in rendered or message.tool_calls
    ):  # some templates write calls without the text before them
        return True
    return message.role == "tool" and any(
        json.dumps(text, ensure_ascii=is_ascii)[1:-1] in rendered for is_ascii in (True, False)
    )


@lru_cache(maxsize=100)
def _find_left_out(
    tokenizer: PreTrainedTokenizerBase,
    template: str,  # noqa: ARG001 (part of the cache's key)
    options: str,
    roles: tuple[Literal["system", "user", "assistant", "tool"], ...],
) -> int | None:
    """Return the index of a message that the template leaves out for these roles, or None.

    The texts of a conversation may contain each other. This one has texts that do not.
    """
    texts = [f"message{number}x" for number in range(len(roles))]
    probe = [Message(role, text) for role, text in zip(roles, texts, strict=True)]
    try:
        prompt = _apply_template(tokenizer, probe, json.loads(options))
    except Exception:
        # it refuses the roles, so that the system's text is in the first message of the user
        return None
    return next(
        (
            index
            for index, text in enumerate(texts)
            if text not in prompt and roles[index] != "tool"
        ),
        None,
    )


@lru_cache(maxsize=4)
def _ignores_reply(tokenizer: PreTrainedTokenizerBase, template: str, options: str) -> bool:  # noqa: ARG001 (cache's key)
    """Return whether the template has text before a reply that its generation prompt lacks."""
    conversation = [{"role": "user", "content": "question1x"}]
    reply = {"role": "assistant", "content": PLACE_OF_REPLY}
    variables = json.loads(options)
    try:
        template_text = _get_template(tokenizer, variables)
        arguments = {"tokenize": False, "chat_template": template_text, **variables}
        plain, prompt = (
            str(
                tokenizer.apply_chat_template(
                    conversation, add_generation_prompt=bool(n), **arguments
                )
            )
            for n in (0, 1)
        )
        whole = str(tokenizer.apply_chat_template([*conversation, reply], **arguments))
    except Exception:
        return False  # it needs other messages, so that this conversation says nothing of it
    suffix = whole[len(plain) :].strip() if whole.startswith(plain) else ""
    return plain == prompt and bool(suffix) and not suffix.startswith(PLACE_OF_REPLY)


@lru_cache(maxsize=100)
def _fix_date(template: str) -> str:
    """Replace `strftime_now` in a template with `TEMPLATE_DATE`, so prompts do not vary by day.

    Raises:
        ConfigError: If the format of the date is not a text in the template.
    """
    fixed_template = _DATE.sub(lambda match: json.dumps(TEMPLATE_DATE.strftime(match[2])), template)
    if "strftime_now(" in fixed_template:
        raise ConfigError(
            "The chat template shows today's date in a format that is computed, so that prompts "
            "would change from day to day. Replace strftime_now in the template of the model's "
            "folder (chat_template.jinja) by a date."
        )
    return fixed_template


def _get_template(tokenizer: PreTrainedTokenizerBase, options: Mapping[str, Any]) -> str:
    """Return the template of a tokenizer, of several the one that serves, with a fixed date."""
    return _fix_date(tokenizer.get_chat_template(tools=options.get("tools")))


def _apply_template(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], options: Mapping[str, Any]
) -> str:
    is_begun = messages[-1].role == "assistant"
    conversation = encode_messages(messages, as_objects=True)
    return str(
        tokenizer.apply_chat_template(
            conversation,
            add_generation_prompt=not is_begun,
            continue_final_message=is_begun,
            tokenize=False,
            chat_template=_get_template(tokenizer, options),
            **options,
        )
    )


def _merge_system(messages: Sequence[Message]) -> list[Message]:
    """Merge the system text into the first user message, or return no messages if impossible."""
    if len(messages) < 2 or [message.role for message in messages[:2]] != ["system", "user"]:
        return []
    return [Message("user", f"{messages[0].content}\n\n{messages[1].content}"), *messages[2:]]


def _describe_refusal(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], error: Exception
) -> str:
    """Return the error message for a failing chat template, with the setting that may fix it."""
    roles = ", ".join(message.role for message in messages)
    if messages[-1].role == "assistant":
        mend = (
            "It may not keep the beginning of a reply: choose a prompt without prompt.reply_start."
        )
    elif isinstance(tokenizer.chat_template, dict):
        names = ", ".join(map(str, tokenizer.chat_template))
        mend = (
            f"It has several templates ({names}) without a default: keep one of them in the "
            "model's folder."
        )
    else:
        mend = (
            "Choose a prompt without these roles (prompt.system=''), or correct "
            "chat_template.jinja in the model's folder."
        )
    reason = " ".join(str(error).split())[:200]
    return (
        f"The chat template of {tokenizer.name_or_path} refuses messages of the roles {roles} "
        f"({reason}). {mend}"
    )


def tokenize_chat(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    options: Mapping[str, Any] = _NO_OPTIONS,
    passages: Sequence[Passage] = (),
) -> list[int]:
    """Render a prompt to token ids. Control tokens spelled out in passages ("<|im_end|>") are text.

    Control tokens in the prompt's own templates, such as Self-RAG's, are tokens.
    """
    pattern = _compile_control_tokens(tokenizer)
    texts = [
        text
        for passage in passages
        for text in (passage.text, passage.title)
        if pattern.search(text)
    ]
    spelled = list(dict.fromkeys(token for text in texts for token in pattern.findall(text)))
    if not spelled:
        return list(
            tokenizer(render_chat(tokenizer, messages, options), add_special_tokens=False)[
                "input_ids"
            ]
        )
    marks = {
        text: pattern.sub(lambda match: f"\ue000{spelled.index(match[0])}\ue001", text)
        for text in texts
    }
    marked_messages = [
        structs.replace(message, content=_replace(message.content, marks)) for message in messages
    ]
    ids: list[int] = []
    for number, piece in enumerate(_MARK.split(render_chat(tokenizer, marked_messages, options))):
        if number % 2:
            ids += tokenizer(
                spelled[int(piece)], add_special_tokens=False, split_special_tokens=True
            )["input_ids"]
        elif piece:
            ids += tokenizer(piece, add_special_tokens=False)["input_ids"]
    return ids


@lru_cache(maxsize=4)
def _compile_control_tokens(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str]:
    """Return a pattern that finds the texts of a tokenizer's special tokens, the longest first."""
    added_tokens = [
        token.content for token in tokenizer.added_tokens_decoder.values() if token.special
    ]
    texts = sorted(
        {*map(str, tokenizer.all_special_tokens), *added_tokens},
        key=lambda text: (-len(text), text),
    )
    return re.compile("|".join(map(re.escape, texts)) or "(?!)")


def _replace(content: str, replacements: Mapping[str, str]) -> str:
    """Replace each text that a message shows, the longest first."""
    for text in sorted(replacements, key=len, reverse=True):
        content = content.replace(text, replacements[text])
    return content
