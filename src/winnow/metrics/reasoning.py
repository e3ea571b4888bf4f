"""The reasoning that some models write before their reply, such as Qwen3 and DeepSeek-R1, between "<think>" and "</think>"."""

import re

_TAG = r"(?:<think(?:ing)?>|\[THINK\])"
_BEGINNING = re.compile(rf"\s*{_TAG}")
_OPEN_PROMPT = re.compile(rf"{_TAG}\s*$")
_END = re.compile(r"</think(?:ing)?>|\[/THINK\]")


def remove_reasoning(reply: str) -> str:
    """Return a reply without the reasoning before it, and without the blank lines between them.

    Reasoning ends at the last tag that ends it; the tag that begins it may be missing. Of a reply that begins with the tag and
    was cut before the end of its reasoning, nothing is left. A tag with nothing behind it ends no reasoning if none began. A
    reply without reasoning is returned unchanged.
    """
    begins = _BEGINNING.match(reply) is not None
    ends = list(_END.finditer(reply))
    if not ends:
        return "" if begins else reply
    rest = reply[ends[-1].end() :].lstrip()
    return rest if rest or begins else reply[: ends[0].start()].rstrip()


def find_open_reasoning(prompt: str) -> str:
    """Return the end of a prompt that begins the reasoning of the reply, as some chat templates do, or "" without one."""
    match = _OPEN_PROMPT.search(prompt)
    return match[0] if match else ""
