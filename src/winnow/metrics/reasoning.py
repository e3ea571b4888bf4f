"""The reasoning that some models write before their reply, such as Qwen3 and DeepSeek-R1, between "<think>" and "</think>"."""

import re

_BEGINNING = re.compile(r"\s*(?:<think(?:ing)?>|\[THINK\])")
_END = re.compile(r"</think(?:ing)?>|\[/THINK\]")


def remove_reasoning(reply: str) -> str:
    """Return a reply without the reasoning before it, and without the blank lines between them.

    Reasoning ends at the last tag that ends it; the tag that begins it may stand in the prompt. Of a reply that was cut before
    the end of its reasoning, nothing is left. A reply without reasoning is returned unchanged.
    """
    ends = list(_END.finditer(reply))
    if ends:
        return reply[ends[-1].end() :].lstrip()
    return "" if _BEGINNING.match(reply) else reply
