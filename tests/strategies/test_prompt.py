"""The shared prompt template."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Message
from winnow.strategies.demonstrations import Demonstration, Shots
from winnow.strategies.prompt import Prompt, build_request, fill_template
from winnow.testing import make_context, make_question

PROMPT = Prompt("{contexts}|{question}", "{question}", "{contexts}|{candidates}|{question}")


def test_passages_are_numbered_with_their_titles() -> None:
    """As in the paper's figures: [1] title | text."""
    (message,) = PROMPT.render(
        make_question("Q?"), [make_context(1, "one"), make_context(2, "two {brace}")]
    )
    assert message.content == "[1] Title 1 | one\n[2] Title 2 | two {brace}|Q?"


def test_a_passage_without_a_title_has_no_separator() -> None:
    """A separator with words stays, as in "title: ... context: ..."."""
    untitled = replace(make_context(1, "one"), passage=Passage("p", "", "one"))
    contexts = [untitled, make_context(2, "two")]
    (message,) = PROMPT.render(make_question("Q?"), contexts)
    assert message.content == "[1] one\n[2] Title 2 | two|Q?"
    for template, expected in (
        ("title: {title} context: {text}", "title:  context: one"),
        ("Title: {title}\n{text}", "Title: \none"),
        ("Document [{number}](Title: {title}) {text}", "Document [1](Title: ) one"),
        ("({title}) {text}", "() one"),
        ("{title}\n{text}", "one"),
        ("{number}: {title} - {text}", "1: one"),
        ("{text} ({title})", "one ()"),
    ):
        (message,) = replace(PROMPT, passage=template).render(make_question("Q?"), contexts[:1])
        assert message.content == f"{expected}|Q?"


def test_candidates_and_system_have_their_place() -> None:
    """Candidates switch the template; a system text is a message of its own."""
    prompt = Prompt(
        PROMPT.with_contexts, PROMPT.without_contexts, PROMPT.with_candidates, system="Be short."
    )
    system, user = prompt.render(make_question("Q?"), [make_context(1, "one")], ["a", "b"])
    assert (system.role, system.content) == ("system", "Be short.")
    assert user.content == "[1] Title 1 | one|a; b|Q?"


def test_a_template_without_a_field_is_refused() -> None:
    """A prompt that would never show the passages cannot be configured."""
    with pytest.raises(
        ConfigError,
        match=r"with_contexts must have \{contexts\} and \{question\}.*received '\{question\}'",
    ):
        Prompt("{question}", "{question}", PROMPT.with_candidates)
    with pytest.raises(ConfigError, match="passage"):
        Prompt(PROMPT.with_contexts, "{question}", PROMPT.with_candidates, passage="{body}")
    for hidden in ("[{number}] {title}", "{text:.5}"):
        with pytest.raises(ConfigError, match=r"passage must (have|show the whole) \{"):
            Prompt(PROMPT.with_contexts, "{question}", PROMPT.with_candidates, passage=hidden)


def test_demonstrations_stand_before_the_question() -> None:
    """Numbered, each with its passage, question and answer; the prompt without passages has none
    (RE-RAG, table 9).
    """
    prompt = replace(
        PROMPT,
        with_contexts="{demonstrations}#{contexts}|{question}",
        with_candidates="{demonstrations}#{contexts}|{candidates}|{question}",
        demonstration="{number} {contexts} {question} {answer}",
        shots=Shots(2),
        demonstrations=[
            Demonstration(f"d{n}", f"D{n}?", make_context(n, f"text {n}").passage, f"A{n}")
            for n in (1, 2, 3)
        ],
    )
    (message,) = prompt.render(make_question("Q?"), [make_context(3, "three")])
    assert (
        message.content
        == "1 [1] Title 1 | text 1 D1? A1\n2 [1] Title 2 | text 2 D2? A2#[1] Title 3 | three|Q?"
    )
    assert prompt.render(make_question("Q?"), [])[0].content == "Q?"
    with pytest.raises(ConfigError, match="needs its demonstrations"):
        replace(prompt, demonstrations=()).render(make_question("Q?"), [make_context(3, "three")])
    with pytest.raises(ConfigError, match=r"prompt\.demonstration must have"):
        replace(prompt, demonstration="{question}")
    (own,) = prompt.render(make_question("D1?", question_id="d1"), [make_context(3, "three")])
    assert "A1" not in own.content  # no question sees its own answer
    assert "A3" in own.content
    assert (
        replace(prompt, shots=None).render(make_question("Q?"), [make_context(3, "t")])[0].content
        == "#[1] Title 3 | t|Q?"
    )
    with pytest.raises(ConfigError, match=r"with_contexts must have .*demonstrations"):
        replace(prompt, with_contexts=PROMPT.with_contexts)


def test_shedding_keeps_the_gold_passage_to_the_last() -> None:
    """Of ranks 1, 2 and gold 3 the second goes first, then the first, then nothing more."""
    request = build_request(
        PROMPT,
        make_question(),
        [make_context(1, "A"), make_context(2, "B"), make_context(3, "C", is_gold=True)],
        Decoding(),
    )
    assert request.shorter is not None
    shorter = request.shorter()
    assert shorter is not None
    assert "B" not in shorter.messages[0].content.split("|")
    assert shorter.shorter is not None
    shortest = shorter.shorter()
    assert shortest is not None
    assert "C" in shortest.messages[0].content
    assert shortest.shorter is None
    assert shortest.drop_passage() is None


def test_a_prompt_may_begin_the_reply() -> None:
    """With the contexts, as Self-RAG's models expect; a title that is missing leaves no line break
    in a paragraph.
    """
    prompt = Prompt(
        "Do {question}",
        "Do {question}",
        "Do {question} {candidates}",
        "<p>{title}\n{text}</p>",
        reply_start="R{contexts}",
    )
    titled, untitled = (
        make_context(1, "one"),
        replace(make_context(2, "two"), passage=Passage("p2", "", "two")),
    )
    messages = prompt.render(make_question("who?"), [titled, untitled])
    title = titled.passage.title
    assert messages == (
        Message("user", "Do who?"),
        Message("assistant", f"R<p>{title}\none</p>\n<p>two</p>"),
    )
    assert prompt.render(make_question("who?"), []) == (Message("user", "Do who?"),)
    with pytest.raises(ConfigError, match="with_contexts"):
        replace(prompt, reply_start="R")
    with pytest.raises(ConfigError, match="reply_start"):
        replace(prompt, reply_start="{contexts} {question}")


@pytest.mark.parametrize(
    "text", ["{contexts}", "x {contexts} y", "{{contexts}}", "{}", "{question}"]
)
def test_a_text_in_braces_is_no_field(text: str) -> None:
    """A model may write anything; the prompt shows it."""
    filled = fill_template(PROMPT, "{contexts} S {question} C {candidate}", candidate=text)
    (with_contexts,) = filled.render(make_question("Q?"), [make_context(1, "one")])
    (without,) = filled.render(make_question("Q?"), [])
    assert with_contexts.content == f"[1] Title 1 | one S Q? C {text}"
    assert without.content == f"S Q? C {text}"
