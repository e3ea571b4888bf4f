"""The text that a reply ends with, without reasoning and control tokens of the chat template.

Servers and converted models with a wrong template or wrong stop tokens let such tokens through. The
forms are used by DeepSeek-R1 and Qwen ("<think>"), Magistral ("[THINK]"), Kimi ("◁think▷"),
Command A ("<|START_THINKING|>"), Seed-OSS ("<seed:think>"), Gemini and EXAONE ("<thought>"), and
gpt-oss, which writes its answer in a channel "final". A token that is named in a sentence ("The
<think> tag encloses ...") is a word like any other.
"""

import re

_NAMES = r"(?:think(?:ing)?|thoughts?|reasoning|seed:think)"
_BEGIN_TAG = (
    rf"(?:<{_NAMES}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|inner_prefix\|>|"
    rf"<\|channel>thought\b|<unused94>thought\b)"
)
_END_TAG = (
    rf"(?:</{_NAMES}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|inner_suffix\|>|<channel\|>|"
    rf"<unused95>)"
)
_MARKS = ("<", "[THINK]", "◁")
"""Texts of which one is in every tag."""
_NAMED = r"(?<![a-z,] (?=\S{1,40} [a-z]))"
"""Condition that what follows is not named in a sentence, between a word and another one."""
_END = re.compile(rf"{_NAMED}{_END_TAG}")
_OPEN_PROMPT = re.compile(rf"{_BEGIN_TAG}\s*$")
_HARMONY = re.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
"""Beginning of a message of gpt-oss, with its channel."""
_STRIPPED_FINAL = re.compile(r"(?:(?<=\W)|^)assistant\s?final(?![a-z])|assistantfinal")
_STRIPPED_ANALYSIS = re.compile(
    r"\s*(?:assistant)?analysis(?=[A-Z\d\"'(\[*]|\s*\n|\w*assistant(?:final|commentary))"
)
"""Beginning of a reply of gpt-oss whose special tokens a server left out."""
_NAMED_REPLY = re.compile(r"Here is my response:\s*")
"""Beginning of a reply of Granite, after "Here is my thought process:"."""
_TOOL_CALL = re.compile(
    r"<(?:seed:)?tool_call>|<\|tool_calls?_(?:section_)?begin\|>|<\|START_ACTION\|>|"
    r"<\|python_tag\|>|\[TOOL_CALLS\]|<function=|```tool_code|<｜tool▁calls▁begin｜>"
)
_JSON_CALL = re.compile(
    r"\s*(?:\[\s*)?\{\s*\"name\":\s*\"[^\"]*\",\s*\"(?:parameters|arguments)\":"
)
"""Beginning of a call of a tool, which is not an answer."""
_TOKEN = re.compile(
    _NAMED
    + r"(?:<\|[^<>|\n]{1,40}\|>|<｜[^<>｜\n]{1,40}｜>|\[\|[^\[\]|\n]{1,40}\|\]|<\|turn>|<turn\|>|"
    r"<(?:bos|eos|pad|sep|sop|eop|eoa|eoh|start_of_turn|end_of_turn|seed:bos|seed:eos|SPECIAL_\d+|"
    r"unused\d+)>|\[(?:BOS|EOS|gMASK|sMASK)\]|\[/?INST\])"
)
"""A control token, which no answer contains."""
_BOX = re.compile(r"<\|(?:begin|end)_of_box\|>")
_CITATION = re.compile(r"</?co(?::[^<>]*)?>")
_END_OF_SENTENCE = re.compile(r"</s>(?=\s*(?:$|<|\[INST\]|\n))")
"""`</s>` where it ends a text, rather than being named in one."""
_FIRST_SENTENCE_TOKEN = re.compile(r"<s>|</s>(?=\s*(?:$|\n|<))")
_ROLE = re.compile(r"[ \t]*(?:assistant|model|chatbot|bot|final)[ \t]*(?=\n|$|<|\[)", re.IGNORECASE)
_FIRST_ROLE = re.compile(r"\s*(?:assistant|model)(?:[ \t]*\n+(?=\s*\S)|(?=<\|))")
_NEXT_TURN = re.compile(
    r"(?<=[^\s\w])(?:assistant|user)\n\n|(?<=\w)(?:assistant|user)\n\n(?=[A-Z])|"
    r"\n[ \t]*### (?:Instruction|Input|User|Human)\b"
)
"""Turn that a model writes next, where a server left out the special tokens."""
_USER_TURN = re.compile(
    r"(?:<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>|<\|turn>|<\|start\|>|"
    r"<seed:bos>)\s*user\b|<\|(?:user|im_user|USER_TOKEN|human)\|>|<｜User｜>|\[\|(?:user|Human)\|\]"
)
"""Beginning of the next question that a model writes itself."""
_PROMPT = re.compile(r"\s*(?:(?:<s>|<bos>)\s*)?\[INST\].*?\[/INST\]", re.DOTALL)


def extract_final_text(reply: str) -> str:
    """Return a reply without its reasoning, control tokens, and text after the end of its turn.

    Reasoning ends at the last tag that ends it; the tag that begins it may be missing. Of a reply
    that begins with the tag and was cut before the end of its reasoning, nothing is left, nor of a
    call of a tool. A tag with nothing behind it ends no reasoning if none began. A reply with none
    of these is returned unchanged.
    """
    turn = _USER_TURN.search(reply)
    own = reply[: turn.start()] if turn and reply[: turn.start()].strip() else reply
    return _remove_tokens(_remove_reasoning(_select_channel(own)))


def remove_reasoning(reply: str) -> str:
    """Return a reply without the reasoning before it; calls of tools and control tokens stay."""
    return _remove_reasoning(_select_channel(reply))


def is_reasoning_open(reply: str) -> bool:
    """Return whether a reply begins reasoning, and does not end it."""
    return _begins_reasoning(reply) and not _END.search(reply)


def extract_reasoning(reply: str) -> str:
    """Return a reply's reasoning, enclosed in tags or channels before its final text, or ""."""
    if "<|channel|>" in reply:
        marks = list(_HARMONY.finditer(reply))
        ends = [match.start() for match in marks[1:]] + [len(reply)]
        parts = [
            reply[match.end() : end]
            for match, end in zip(marks, ends, strict=True)
            if match[1] == "analysis"
        ]
        return "\n".join(_remove_tokens(part).strip() for part in parts)
    rest = _remove_reasoning(reply)
    if rest == reply or not reply.endswith(rest):
        return ""
    inner = reply[: len(reply) - len(rest)]
    return re.sub(rf"{_BEGIN_TAG}|{_END_TAG}", "", inner).strip()


def compute_reasoning_share(reply: str, reasoning: str = "", others: int = 0) -> float:
    """Compute the share of reasoning in the characters of a reply and its tool calls, from 0 to 1.

    Args:
        reply: Text of the reply, which may enclose its reasoning in tags.
        reasoning: Reasoning that a server returned with it.
        others: Number of characters of calls of tools.
    """
    if not reasoning and not any(mark in reply for mark in _MARKS):
        return 0.0
    thoughts = reasoning or extract_reasoning(reply)
    return len(thoughts) / max(
        1, len(thoughts) + len(_remove_reasoning(_select_channel(reply))) + others
    )


def find_control_tokens(reply: str) -> set[str]:
    """Return the control tokens of a chat template that a reply contains."""
    return {match[0] for one in (_TOKEN, _END_OF_SENTENCE) for match in one.finditer(reply)}


def find_open_reasoning(prompt: str) -> str:
    """Return the end of a prompt that begins the reasoning, as in some chat templates, or ""."""
    match = _OPEN_PROMPT.search(prompt)
    return match[0] if match else ""


def _select_channel(reply: str) -> str:
    """Return the first message in the channel "final" of gpt-oss, "" if it has other channels only,
    or any other reply.
    """
    if "<|channel|>" in reply:
        messages = [(match[1], match.end()) for match in _HARMONY.finditer(reply)]
        final = next((start for channel, start in messages if channel == "final"), None)
        return reply[final:] if final is not None else "" if messages else reply
    if _STRIPPED_ANALYSIS.match(reply):
        final_marks = list(_STRIPPED_FINAL.finditer(reply))
        return reply[final_marks[-1].end() :] if final_marks else ""
    reply_match = (
        _NAMED_REPLY.search(reply)
        if reply.lstrip().startswith("Here is my thought process")
        else None
    )
    return reply[reply_match.end() :] if reply_match else reply


def _begins_reasoning(reply: str) -> bool:
    pattern = rf"(?:\s|{_TOKEN.pattern}|<s>|\b(?:assistant|model)\b)*{_BEGIN_TAG}"
    return re.match(pattern, reply) is not None


def _remove_reasoning(reply: str) -> str:
    """Return a reply without the reasoning before it, and without the blank lines between them."""
    begins = _begins_reasoning(reply)
    ends = list(_END.finditer(reply))
    if not ends:
        return "" if begins else reply
    rest = reply[ends[-1].end() :].lstrip()
    return rest if rest or begins else reply[: ends[0].start()].rstrip()


def _remove_tokens(reply: str) -> str:
    """Remove the control tokens that begin a reply, and all from the first one that ends it."""
    text = _CITATION.sub("", _BOX.sub("", reply)) if "<" in reply else reply
    call = re.match(_JSON_CALL, text) or _TOOL_CALL.search(text)
    text = text[: call.start()].rstrip() if call else text
    prompt = _PROMPT.match(text)
    text = text[prompt.end() :] if prompt else text
    role = _FIRST_ROLE.match(text)
    text = text[role.end() :] if role else text
    while match := _TOKEN.match(text.lstrip()) or _FIRST_SENTENCE_TOKEN.match(text.lstrip()):
        text = text.lstrip()[match.end() :]
        role = _ROLE.match(text)
        text = text[role.end() :] if role else text
    ends = [
        match.start()
        for match in (_TOKEN.search(text), _END_OF_SENTENCE.search(text), _NEXT_TURN.search(text))
        if match
    ]
    return text[: min(ends)].rstrip() if ends else text
