"""Reasoning is no part of a reply."""

import pytest

from winnow.text.final import extract_final_text, extract_reasoning, find_open_reasoning


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("<think>\nIt may be Bob.\n</think>\n\nAda", "Ada"),
        ("It may be Bob.</think>Ada", "Ada"),
        ("[THINK]It may be Bob.[/THINK]Ada\nLovelace", "Ada\nLovelace"),
        ("<thinking>a</thinking> b <think>c</think> d", "d"),
        (" <think>It may be", ""),
        ("<think></think>", ""),
        (" Ada\n", " Ada\n"),
        ("I think that <think> is a tag", "I think that <think> is a tag"),
        ("", ""),
        ("Paris\n</think>\n\n", "Paris"),
        ("<think>Paris</think>\n", ""),
    ],
)
def test_what_stands_behind_the_last_end_is_the_reply(reply: str, rest: str) -> None:
    """A beginning without an end leaves nothing; text without reasoning is unchanged."""
    assert extract_final_text(reply) == rest
    assert extract_final_text(rest) == rest


@pytest.mark.parametrize(
    ("prompt", "tag"),
    [
        ("<user>who?<assistant><think>\n", "<think>\n"),
        ("a [THINK]", "[THINK]"),
        ("<think></think>\n", ""),
        ("<think> who?", ""),
    ],
)
def test_a_prompt_may_begin_the_reasoning(prompt: str, tag: str) -> None:
    """Only at its end."""
    assert find_open_reasoning(prompt) == tag


@pytest.mark.parametrize(
    ("reply", "reasoning"),
    [
        ("<think>\nIt may be Bob.\n</think>\n\nAda", "It may be Bob."),
        ("It may be Bob.</think>Ada", "It may be Bob."),
        ("<think>It may be", "It may be"),
        (
            "<|channel|>analysis<|message|>Bob?<|end|><|start|>assistant<|channel|>final<|message|>Ada<|return|>",
            "Bob?",
        ),
        ("Ada", ""),
        ("", ""),
        ("I think that <think> is a tag", ""),
    ],
)
def test_reasoning_is_what_stands_before_the_final_text(reply: str, reasoning: str) -> None:
    """Of a reply that was cut in it, all of it; without tags, none."""
    assert extract_reasoning(reply) == reasoning
