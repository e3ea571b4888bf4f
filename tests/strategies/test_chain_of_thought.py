"""The pruning and the summary prompt, with scripted replies."""

from dataclasses import replace

import pytest
import yaml

from flows.settings.components import Component
from flows.settings.composition import CONF
from winnow.errors import ConfigError
from winnow.records import Decoding
from winnow.requests import Generate
from winnow.strategies.chain_of_thought import ChainOfThought
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, run_scripted_plan

PROMPT = Prompt(
    "{contexts} Q {question}",
    "Q {question}",
    "{contexts} C {candidates} Q {question}",
    "[{number}] {text}",
)
CONTEXTS = [make_context(1, "one"), make_context(2, "two")]


def strategy(name: str) -> ChainOfThought:
    """As its YAML describes it."""
    settings = yaml.safe_load((CONF / f"strategy/{name}.yaml").read_text())
    strategy: ChainOfThought = Component(settings["plan"]).build(prompt=PROMPT, decoding=Decoding())
    return strategy


@pytest.mark.parametrize("name", ["pruning", "summary"])
def test_structure_of_the_prompt(name: str) -> None:
    """Examples, the format, the rule for unknown, one demonstration, then the question, ending
    where to think on.
    """
    plan = strategy(name).plan(make_question("Who?"), CONTEXTS)
    (requests,) = next(plan)
    assert isinstance(requests, Generate)
    text = requests.messages[-1].content
    order = [
        "Follow the following format.",
        "just say unknown",
        "[1] Lise Meitner",
        "Polonium",
        "[1] one\n[2] two",
        "Who?",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert text.endswith("Rationale: Let's think step by step.")
    assert requests.decoding.max_new_tokens == 256
    assert ("pruning" in text, "Summarizing" in text) == (name == "pruning", name == "summary")


def test_the_answer_comes_after_the_rationale() -> None:
    """What stands behind the last "Answer:"; a rationale without an end may say unknown in its last
    line.
    """
    plan = strategy("pruning")
    assert (
        run_scripted_plan(
            plan.plan(make_question(), CONTEXTS), [["Source 1 is out.\nAnswer: Jane Austen"]]
        )[0].text
        == "Jane Austen"
    )
    assert run_scripted_plan(plan.plan(make_question(), CONTEXTS), [["Answer: unknown"]])[0].unknown


def test_samples_vote() -> None:
    """Self-consistency as it was first meant: over chains of thought."""
    plan = replace(strategy("summary"), decoding=Decoding(temperature=0.7, samples=3))
    assert (
        run_scripted_plan(
            plan.plan(make_question(), CONTEXTS), [["Answer: a", "x\nAnswer: b", "Answer: B"]]
        )[0].text
        == "b"
    )


def _build_self_rag_prompt() -> Prompt:
    """A prompt that shows passages in the reply, as conf/prompt/self_rag.yaml does."""
    return replace(
        PROMPT,
        with_contexts="{question}",
        with_candidates="{question} {candidates}",
        reply_start="{contexts}",
    )


def test_a_template_without_its_fields_is_refused() -> None:
    """By name."""
    with pytest.raises(ConfigError, match="contexts"):
        ChainOfThought(PROMPT, Decoding(), "Think: {question}")
    with pytest.raises(
        ConfigError, match=r"prompt.reply_start='\{contexts\}' would show them again"
    ):
        ChainOfThought(_build_self_rag_prompt(), Decoding(), "{contexts} {question}")
    with pytest.raises(ConfigError, match="at least 1"):
        ChainOfThought(PROMPT, Decoding(), "{contexts} {question}", 0)
