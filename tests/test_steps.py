"""Steps: what the driver records of each round, without a line of a strategy's author."""

from pathlib import Path

from tests.plans import PROMPT, ask, run
from winnow.driver.jobs import Job
from winnow.records import Answer, Decoding, Passage
from winnow.requests import (
    Estimate,
    Failed,
    Generate,
    Generation,
    Likelihood,
    Message,
    Pages,
    Plan,
    Score,
    Search,
)
from winnow.steps import NO_REQUEST, Step, describe_round, describe_stop
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.post_fusion import PostFusion
from winnow.testing import ScriptedReader, make_context, make_question

ONE, TWO = Passage("p1", "T", "one"), Passage("p2", "T", "two")


def prompt(*passages: Passage, role: str = "reader") -> Generate:
    """A request of a prompt with passages."""
    return Generate((Message("user", "?"),), Decoding(), passages=passages, role=role)


def test_requests_that_agree_are_one_step() -> None:
    """Samples of a prompt are counted; another passage, end, model, role or kind is another step,
    in order.
    """
    requests = [
        prompt(ONE),
        prompt(ONE),
        prompt(TWO),
        prompt(ONE),
        prompt(ONE),
        prompt(ONE, role="judge"),
        Estimate("q", "t"),
    ]
    results = [
        Generation("a"),
        Generation("b"),
        Generation("a"),
        Generation("c", "length"),
        Generation("d", model="m-1"),
    ]
    assert describe_round(3, requests, [*results, Generation("e"), Score(1.0)]) == [
        Step(3, "generate", "reader", (ONE,), finish="stop", calls=2),
        Step(3, "generate", "reader", (TWO,), finish="stop"),
        Step(3, "generate", "reader", (ONE,), finish="length"),
        Step(3, "generate", "reader", (ONE,), finish="stop", model="m-1"),
        Step(3, "generate", "judge", (ONE,), finish="stop"),
        Step(3, "estimate", "estimator"),
    ]


def test_searches_have_their_query_and_what_they_found() -> None:
    """Also one that found nothing, and one that failed."""
    searches = [Search("ada", 2), Search("bob", 2), Search("eve", 2)]
    assert describe_round(1, searches, [Pages((ONE, TWO)), Pages(()), Failed("quota")]) == [
        Step(1, "search", "search", (ONE, TWO), "ada", "found"),
        Step(1, "search", "search", (), "bob", "nothing found"),
        Step(1, "search", "search", (), "eve", "failed"),
    ]


def test_why_a_plan_ended() -> None:
    """How its last round ended, unless the answer names a reason; a plan without a
    request says so.
    """
    first, last = (
        Step(1, "generate", "reader", finish="length"),
        Step(2, "generate", "reader", finish="stop"),
    )
    assert describe_stop([first, last], Answer("a", unknown=False)) == "stop"
    assert (
        describe_stop([last, Step(2, "generate", "reader", finish="length")], None)
        == "stop, length"
    )
    assert (
        describe_stop([first, last], Answer("a", unknown=False, stop="max rounds")) == "max rounds"
    )
    assert describe_stop([], Answer("a", unknown=False)) == NO_REQUEST


def test_the_driver_records_every_round(tmp_path: Path) -> None:
    """One per passage in Post-Fusion, equal in a replay; two rounds of a plan are numbered."""
    contexts = [make_context(n, f"text {n}") for n in (1, 2)]
    jobs = [
        Job("pf", PostFusion(PROMPT, Decoding()).plan(make_question(), contexts)),
        Job("two", ask(["a"], ["b"])),
    ]
    outcomes, _ = run(tmp_path, jobs, ScriptedReader())
    assert [step.passages for step in outcomes["pf"].steps] == [
        (context.passage,) for context in contexts
    ]
    assert [step.round for step in outcomes["two"].steps] == [1, 2]
    assert outcomes["pf"].stop == "stop"
    again, _ = run(
        tmp_path, [Job("two", ask(["a"], ["b"]))], ScriptedReader(lambda _: "must not be asked")
    )
    assert again["two"].steps == outcomes["two"].steps


def test_passages_that_were_dropped_were_not_shown(tmp_path: Path) -> None:
    """The step has the prompt that was served."""
    contexts = [
        make_context(1, "a" * 40),
        make_context(2, "b" * 40),
        make_context(3, "c" * 40, is_gold=True),
    ]
    reader = ScriptedReader(lambda text: text, context_length=110)
    outcomes, _ = run(
        tmp_path,
        [Job(1, Concatenation(PROMPT, Decoding()).plan(make_question(), contexts))],
        reader,
    )
    (step,) = outcomes[1].steps
    assert [passage.passage_id for passage in step.passages] == ["p1", "p3"]


def test_a_plan_without_a_request(tmp_path: Path) -> None:
    """It has no step."""

    def plan() -> Plan[Answer]:
        yield from ()
        return Answer("x", unknown=False)

    outcomes, _ = run(tmp_path, [Job(1, plan())], ScriptedReader())
    assert (outcomes[1].steps, outcomes[1].stop) == ((), NO_REQUEST)


def test_a_likelihood_shows_the_reader_its_passages() -> None:
    """With the library that computed it; prompts of other roles show the reader nothing."""
    scored = Likelihood((Message("user", "?"),), "Ada", passages=(ONE,))
    generated, likelihood = describe_round(
        1, [prompt(ONE), scored], [Generation("Ada"), Score(-1.0, model="torch 2")]
    )
    assert (generated.is_prompt, likelihood.is_prompt, likelihood.kind) == (
        True,
        True,
        "likelihood",
    )
    assert (likelihood.passages, likelihood.model) == ((ONE,), "torch 2")
    assert not Step(1, "likelihood", "judge").is_prompt
    assert not Step(1, "estimate", "reader").is_prompt
    assert not Step(1, "generate", "judge").is_prompt


def test_a_reply_with_control_tokens_says_so() -> None:
    """In its finish, so that a report can count such replies."""
    request = Generate((Message("user", "q"),), Decoding())
    replies = [Generation("Paris<|im_end|>", "length"), Generation("Paris")]
    steps = describe_round(1, [request, request], replies)
    assert [step.finish for step in steps] == ["length with control tokens", "stop"]


def test_control_tokens_that_the_strategy_itself_uses_are_not_those_of_a_template() -> None:
    """Search-o1 asks for them in its prompt, and ends replies by them."""
    request = Generate(
        (Message("user", "Write <|begin_search_query|> before a query."),),
        Decoding(stop=("<|end_search_query|>",)),
    )
    own = Generation("I look.<|begin_search_query|>who<|end_search_query|>")
    leaked = Generation("<|begin_search_query|>who<|im_end|>")
    steps = describe_round(1, [request, request], [own, leaked])
    assert [step.finish for step in steps] == ["stop", "stop with control tokens"]
