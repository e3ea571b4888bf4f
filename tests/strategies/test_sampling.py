"""Self-consistency around every strategy."""

import math

import pytest

from winnow.records import Answer, Decoding
from winnow.requests import Generate, Generation
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.pf_concat import PFConcat
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.strategies.sampling import request_replies
from winnow.testing import make_context, make_question, run_scripted_plan

PROMPT = Prompt(
    "{contexts} Q {question}", "Q {question}", "{contexts} C {candidates} Q {question}", "<{text}>"
)
HOT = Decoding(temperature=0.7, samples=3)
CONTEXTS = [make_context(1, "one"), make_context(2, "two")]


def test_each_prompt_is_put_as_often_as_it_has_samples_under_numbers() -> None:
    """The numbers start at 0, so that more samples find the earlier ones in the ledger."""
    plan = PostFusion(PROMPT, HOT).plan(make_question(), CONTEXTS)
    requests = next(plan)
    assert [r.sample for r in requests if isinstance(r, Generate)] == [0, 1, 2, 0, 1, 2]
    assert len({r.messages for r in requests if isinstance(r, Generate)}) == 2
    try:
        plan.send([Generation(text) for text in "abbbac"])
    except StopIteration as stop:
        result = stop.value
        assert isinstance(result, Answer)
        assert (result.text, result.unknown, result.candidates) == (
            "b",
            False,
            ("a", "b", "b", "b", "a", "c"),
        )


def test_concatenation_takes_the_majority_of_its_samples() -> None:
    """One prompt, three samples."""
    answer, prompts = run_scripted_plan(
        Concatenation(PROMPT, HOT).plan(make_question(), CONTEXTS), [["a", "b", "B"]]
    )
    assert (answer.text, len(set(prompts[0])), len(prompts[0])) == ("b", 1, 3)


def test_concat_pf_falls_back_only_if_every_sample_is_unknown() -> None:
    """One known sample is an answer; none starts p * k further calls."""
    strategy = ConcatPF(PROMPT, HOT)
    assert (
        len(
            run_scripted_plan(
                strategy.plan(make_question(), CONTEXTS), [["unknown", "a", "unknown"]]
            )[1]
        )
        == 1
    )
    answer, prompts = run_scripted_plan(
        strategy.plan(make_question(), CONTEXTS),
        [["unknown"] * 3, ["x", "y", "x", "unknown", "x", "y"]],
    )
    assert (answer.text, len(prompts[1])) == ("x", 6)


def test_pf_concat_keeps_a_passage_that_any_sample_answers() -> None:
    """The second round is sampled too."""
    rounds = [["unknown", "x", "unknown", "unknown", "unknown", "unknown"], ["x", "z", "x"]]
    answer, prompts = run_scripted_plan(
        PFConcat(PROMPT, HOT).plan(make_question(), CONTEXTS), rounds
    )
    assert set(prompts[1]) == {"<one> C x Q Who wrote Emma?"}
    assert answer.text == "x"


def test_greedy_asks_once() -> None:
    """No sampling, no numbers beyond 0."""
    plan = request_replies([Generate((), Decoding())])
    assert [r.sample for r in next(plan) if isinstance(r, Generate)] == [0]


def test_each_prompt_has_its_own_number_of_samples() -> None:
    """The passages are those of its first sample, if some were dropped from the prompt."""
    passages = tuple(context.passage for context in CONTEXTS)
    requests = [Generate((), Decoding(), passages=passages), Generate((), HOT, passages=passages)]
    plan = request_replies(requests)
    assert [r.sample for r in next(plan) if isinstance(r, Generate)] == [0, 0, 1, 2]
    replies = [
        Generation("a"),
        Generation("b", dropped=1, passages=passages[:1]),
        Generation("c"),
        Generation("d"),
    ]
    try:
        plan.send(replies)
    except StopIteration as stop:
        first, second = stop.value
        assert (first.replies, first.used) == (("a",), passages)
        assert (second.replies, second.used) == (("b", "c", "d"), passages[:1])


def test_reasoning_is_part_of_neither_answer_nor_reply() -> None:
    """The answer of every strategy comes through here; a reply that was cut while it reasoned has
    none.
    """
    texts = ["<think>Bob? No.</think>\n\nAda", "<think>Bob?"]
    answer, _ = run_scripted_plan(
        PostFusion(PROMPT, Decoding()).plan(make_question(), CONTEXTS), [texts]
    )
    assert (answer.text, answer.candidates, answer.reply) == ("Ada", ("Ada",), "Ada")
    answer, _ = run_scripted_plan(
        Concatenation(PROMPT, Decoding()).plan(make_question(), CONTEXTS), [texts[1:]]
    )
    assert (answer.unknown, answer.reply) == (True, "")


def test_a_reply_with_log_probabilities_has_a_likelihood() -> None:
    """The geometric mean of the tokens' probabilities; a reader without them leaves the trace as it
    is.
    """

    def answer(logprobs: tuple[float, ...] | None) -> tuple[str, ...]:
        plan = Concatenation(PROMPT, Decoding(logprobs=True)).plan(make_question(), CONTEXTS)
        next(plan)
        with pytest.raises(StopIteration) as stop:
            plan.send([Generation("b", logprobs=logprobs)])
        return tuple(stop.value.value.trace)

    assert answer((math.log(0.9), math.log(0.4))) == ("likelihood: 0.6",)
    assert answer(None) == answer(()) == ()
