"""The dry run counts what the driver then does."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ConfigError
from winnow.identity.code import get_ledger_identity
from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.predictions import Price
from winnow.protocols import Strategy, build_engine_map
from winnow.readers.openai_chat import OpenAIReader
from winnow.records import Answer, Decoding
from winnow.requests import Estimate, Generate, Likelihood, Message, Pages, Plan, Search, Usage
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.corrective.crag import Crag
from winnow.strategies.marginal import Marginal
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.flare import Flare
from winnow.strategies.rounds.self_ask import SelfAsk
from winnow.strategies.rounds.tagged import TaggedSearch
from winnow.strategies.rounds.tool_agent import ToolAgent
from winnow.strategies.self_rag.long_form import SelfRagLong
from winnow.strategies.self_rag.segments import Retrieval
from winnow.strategies.self_rag.short_form import SelfRag
from winnow.sweeps.dry_run import CostEstimate, _compute_bounds, estimate_cost
from winnow.testing import ScriptedReader, make_context, make_question

PROMPT = Prompt(
    "{contexts} Q {question}", "Q {question}", "{contexts} C {candidates} Q {question}", "<{text}>"
)
CONTEXTS = [make_context(n, f"t{n}") for n in (1, 2, 3)]


_CHAIN = "{contexts} Q {question} A {thoughts}"
_TAGS: dict[str, Any] = {
    "query": ["<search>", "</search>"],
    "result": "[{contexts}]",
    "answer": ["<answer>", "</answer>"],
}
_OTHER_TAGS = _TAGS | {"query": ["<|begin_query|>", "<|end_query|>"]}


def jobs() -> list[Job[Answer]]:
    plans = [Concatenation(PROMPT, Decoding()), ConcatPF(PROMPT, Decoding())]
    return [Job(n, plan.plan(make_question(), CONTEXTS)) for n, plan in enumerate(plans)]


def test_bounds_hold_what_happens(tmp_path: Path) -> None:
    """Two concatenations merge into one call; the fallback adds none to three. Nothing is asked,
    nothing stored.
    """
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        estimate = estimate_cost(jobs, build_engine_map(ScriptedReader()), ledger)["reader"]
        assert (estimate.requests, estimate.missing, estimate.stored, estimate.seconds) == (
            (2, 5),
            (1, 4),
            (0, 0),
            None,
        )
        assert estimate.tokens[0] > 0
        assert len(ledger) == 0


def test_money_bounds(tmp_path: Path) -> None:
    """At the least the certain prompts and no reply; at the most every prompt and full replies."""
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        estimate = estimate_cost(
            jobs, build_engine_map(ScriptedReader()), ledger, {"reader": Price(1.0, 10.0)}
        )["reader"]
        low, high = estimate.tokens
        assert estimate.money == (
            pytest.approx(low / 1e6),
            pytest.approx((high + 10 * 4 * 16) / 1e6),
        )


@pytest.mark.parametrize(("samples", "num_prompts"), [(1, 5), (2, 3), (8, 1)])
def test_samples_of_one_call_pay_for_one_prompt(
    tmp_path: Path, samples: int, num_prompts: int
) -> None:
    """At least: as many prompts as calls of several samples; at most, each sample has its own."""
    message, decoding = Message("user", "q" * 400), Decoding(4, temperature=1.0)

    def sample_jobs() -> list[Job[Any]]:
        def plan() -> Plan[None]:
            yield [Generate((message,), decoding, sample=number) for number in range(5)]

        return [Job(1, plan())]

    reader = OpenAIReader("m", "m", "http://127.0.0.1:9/v1", samples_per_call=samples)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        estimate = estimate_cost(sample_jobs, build_engine_map(reader), ledger)["reader"]
    assert estimate.missing == (5, 5)
    assert estimate.tokens == (num_prompts * 108, 5 * 108)


@pytest.mark.parametrize("most", [0, 1, 20_000])
def test_results_that_are_read_again_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """However few results are kept, plans receive those of the ledger, and a call of several plans
    is one call.
    """
    monkeypatch.setattr("winnow.sweeps.dry_run._MAX_RECENT", most)
    reader = ScriptedReader(lambda prompt: "unknown" if "<t1>" in prompt else "b")

    def more_jobs() -> list[Job[Answer]]:
        plans = [
            (number, strategy) for number in range(3) for strategy in (Concatenation, ConcatPF)
        ]
        return [
            Job(
                (number, strategy),
                strategy(PROMPT, Decoding()).plan(make_question(f"Q{number}?"), CONTEXTS),
            )
            for number, strategy in [*plans, *plans]
        ]

    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        before = estimate_cost(more_jobs, build_engine_map(reader), ledger)["reader"]
        assert (before.requests, before.stored, before.missing) == ((12, 30), (0, 0), (3, 12))
        driver = Driver(build_engine_map(reader), ledger)
        list(driver.run(more_jobs()))
        after = estimate_cost(more_jobs, build_engine_map(reader), ledger)["reader"]
    assert driver.stats.executed == 12
    assert (after.requests, after.stored, after.missing) == ((30, 30), (12, 12), (0, 0))
    assert after.tokens == (0, 0)


def test_after_the_run_nothing_is_missing(tmp_path: Path) -> None:
    """What the ledger holds is used, so that the bounds close."""
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        list(Driver(build_engine_map(ScriptedReader()), ledger).run(jobs()))
        estimate = estimate_cost(jobs, build_engine_map(ScriptedReader()), ledger)["reader"]
        assert (estimate.requests, estimate.stored, estimate.missing) == ((5, 5), (4, 4), (0, 0))
        assert estimate.seconds == (0.0, 0.0)


def test_what_the_engine_cannot_do_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    """A strategy that scores likelihoods, and a reader that only writes."""
    message = r"requested Likelihood .*marginal_fast"
    with SqliteStore(tmp_path / "l.sqlite") as ledger, pytest.raises(ConfigError, match=message):
        strategy = Marginal(PROMPT, Decoding())
        estimate_cost(
            lambda: [Job(0, strategy.plan(make_question(), CONTEXTS))],
            build_engine_map(ScriptedReader()),
            ledger,
        )


def test_roles_are_counted_and_priced_apart(tmp_path: Path) -> None:
    """A judge at 100 dollars a million tokens, a reader at 1; each has its own row."""

    def plan() -> Plan[Answer]:
        yield [Generate((Message("user", "x" * 400),), Decoding())]
        yield [Generate((Message("user", "y" * 40),), Decoding(), role="judge")]
        return Answer("", unknown=True)

    engines = {
        **build_engine_map(ScriptedReader()),
        **build_engine_map(ScriptedReader(identity="j"), "judge"),
    }
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        prices = {"reader": Price(1.0, 0.0), "judge": Price(100.0, 0.0)}
        estimate = estimate_cost(lambda: [Job(1, plan())], engines, ledger, prices)
    assert {role: one.missing for role, one in estimate.items()} == {
        "reader": (1, 1),
        "judge": (1, 1),
    }
    assert estimate["reader"].money == (pytest.approx(1.08e-4), pytest.approx(1.08e-4))
    assert estimate["judge"].money == (pytest.approx(1.8e-3), pytest.approx(1.8e-3))


def verifying(contexts: int) -> Plan[Answer]:
    """A plan whose second round verifies each distinct reply, and whose third repeats what was not
    verified.
    """
    replies = yield [Generate((Message("user", f"c{n}"),), Decoding()) for n in range(contexts)]
    distinct = sorted({reply.text for reply in replies})
    verdicts = yield [
        Generate((Message("user", f"verify {text}"),), Decoding()) for text in distinct
    ]
    again = [text for text, verdict in zip(distinct, verdicts, strict=True) if verdict.text == "no"]
    yield [Generate((Message("user", f"repeat {text}"),), Decoding()) for text in again]
    return Answer(distinct[0], unknown=False)


def test_an_estimate_that_depends_on_replies_says_that_there_may_be_more(tmp_path: Path) -> None:
    """Distinct replies are probed too; what no probe foresees is announced, until every reply is
    known.
    """

    def one() -> list[Job[Answer]]:
        return [Job(0, verifying(4))]

    reader = ScriptedReader(lambda prompt: "no" if prompt.startswith("verify") else prompt)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        estimate = estimate_cost(one, build_engine_map(reader), ledger)["reader"]
        assert estimate.is_open
        assert estimate.requests == (5, 8)
        single = estimate_cost(lambda: jobs()[:1], build_engine_map(reader), ledger)["reader"]
        assert not single.is_open
        list(Driver(build_engine_map(reader), ledger).run(one()))
        assert len(reader.prompts) == 12
        estimate = estimate_cost(one, build_engine_map(reader), ledger)["reader"]
        assert (estimate.requests, estimate.missing, estimate.is_open) == ((12, 12), (0, 0), False)


def test_answers_marginalized_by_their_own_tokens_are_estimated_too(tmp_path: Path) -> None:
    """The stand-in for a reply has the log-probabilities that the plan needs."""
    plan = Marginal(PROMPT, Decoding(), scoring="generated")
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        engines = build_engine_map(ScriptedReader())
        estimate = estimate_cost(
            lambda: [Job(1, plan.plan(make_question(), CONTEXTS))], engines, ledger
        )["reader"]
    assert estimate.requests == (3, 3)


def test_calls_that_an_earlier_estimate_counted_are_not_counted_again(tmp_path: Path) -> None:
    """Two groups of cells share the concatenation's call: the second counts its other three calls,
    and all its requests.
    """
    counted: set[bytes] = set()
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        first = estimate_cost(
            lambda: jobs()[:1], build_engine_map(ScriptedReader()), ledger, counted=counted
        )["reader"]
        second = estimate_cost(
            lambda: jobs()[1:], build_engine_map(ScriptedReader()), ledger, counted=counted
        )["reader"]
    assert (first.requests, first.missing) == ((1, 1), (1, 1))
    assert (second.requests, second.missing) == ((1, 4), (0, 3))
    assert len(counted) == 1  # the fallback's three calls are only possible


def test_bounds_of_adaptive_strategies(tmp_path: Path) -> None:
    """Corrective retrieval may search or not, and Self-RAG may retrieve or not; both ends are
    counted.
    """
    engines = {(kind, role): AnyEngine() for kind, role in
               ((Generate, "reader"), (Estimate, "estimator"), (Search, "search"))}  # fmt: skip

    def estimate(strategy: Strategy) -> dict[str, CostEstimate]:
        with SqliteStore(tmp_path / "l.sqlite") as ledger:
            return estimate_cost(
                lambda: [Job(1, strategy.plan(make_question(), CONTEXTS))], engines, ledger
            )

    crag = estimate(Crag(PROMPT, Decoding()))
    assert (crag["search"].requests, crag["reader"].requests) == ((0, 1), (1, 1))
    assert crag["estimator"].requests == (
        3,
        6,
    ), "passages, and their strips unless they are discarded"
    assert crag["reader"].is_open
    assert estimate(SelfRag(PROMPT, Decoding()))["reader"].requests == (2, 4)
    assert estimate(SelfRag(PROMPT, Decoding(), Retrieval("never")))["reader"].requests == (1, 1)
    for retrieval, requests in (
        (Retrieval("always"), (3, 3 + 2 * 2 * 3)),
        (Retrieval(), (2, 1 + 3 + 2 * 2 * 3)),
    ):
        long = estimate(SelfRagLong(PROMPT, Decoding(), retrieval, max_segments=3))["reader"]
        assert (long.requests, long.is_open) == (requests, True)


def test_what_the_ledger_holds_is_not_refused(tmp_path: Path) -> None:
    """An engine that only replays, such as a search of a past month, serves what is recorded; the
    rest is refused.
    """
    engine = AnyEngine(refuses=True)

    def plan(query: str) -> Plan[Answer]:
        yield [Search(query, 1)]
        return Answer("", unknown=False)

    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        identity = get_ledger_identity(engine)  # type: ignore[arg-type]
        ledger.put(
            identity,
            [(compute_request_key(identity, Search("a", 1)), Search("a", 1), Pages(()), 0.1)],
        )
        known = estimate_cost(lambda: [Job(1, plan("a"))], {(Search, "search"): engine}, ledger)
        assert (known["search"].stored, known["search"].missing) == ((1, 1), (0, 0))
        with pytest.raises(ConfigError, match="only replayed"):
            estimate_cost(lambda: [Job(1, plan("b"))], {(Search, "search"): engine}, ledger)


class AnyEngine:
    """An engine that is never run."""

    revision = 1
    identity = "any"
    capacity = 1
    serves = (Generate, Estimate, Search)

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses

    def explain_refusal(self, _: object) -> str | None:
        """Return a reason, or None."""
        return "only replayed" if self.refuses else None


@pytest.mark.parametrize(
    ("strategy", "reader", "searches"),
    [
        (SelfAsk(PROMPT, Decoding(), _CHAIN, max_follow_ups=2), (1, 5), (0, 2)),
        (Flare(PROMPT, Decoding(), _CHAIN, max_sentences=2), (1, 4), (0, 2)),
        (ToolAgent(PROMPT, Decoding(), max_searches=2), (1, 4), (0, 2)),
        (
            TaggedSearch(PROMPT, Decoding(), "{contexts}{question}", **_TAGS, max_searches=2),
            (1, 4),
            (0, 2),
        ),
        (
            TaggedSearch(PROMPT, Decoding(), "{contexts}{question}", **_OTHER_TAGS, max_searches=2),
            (1, 4),
            (0, 2),
        ),
    ],
)
def test_bounds_of_agents_are_those_of_their_limits(
    tmp_path: Path, strategy: Strategy, reader: tuple[int, int], searches: tuple[int, int]
) -> None:
    """From a reply that ends at once to one that searches in each round; what an engine cannot do
    is said before.
    """
    engines = {
        (kind, role): AnyEngine() for kind, role in ((Generate, "reader"), (Search, "search"))
    }
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        estimates = estimate_cost(
            lambda: [Job(1, strategy.plan(make_question(), CONTEXTS))], engines, ledger
        )
    assert estimates["reader"].requests == reader
    assert estimates["search"].requests == searches


def test_calls_that_exclude_each_other_are_not_added(tmp_path: Path) -> None:
    """A plan makes one of two calls, depending on a reply: at most one, of the larger cost."""
    runs: Any = [
        SimpleNamespace(
            requests=[{"reader": 1}],
            calls={
                name: SimpleNamespace(role="reader", usage=usage, prompt=name, samples=1)
                for name, usage in ((b"a", Usage(10, 3)), (b"b", Usage(7, 5)))
            },
            stored=set(),
            missing={key},
            open_roles=set(),
        )
        for key in (b"a", b"b")
    ]
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        bounds = _compute_bounds("reader", runs, Price(1e6, 1e6), ScriptedReader(), ledger)
    assert (bounds.requests, bounds.missing, bounds.tokens) == ((1, 1), (0, 1), (0, 10))
    assert bounds.money == (0.0, 15.0)


def test_what_shares_no_call_pays_for_its_own_prompt(tmp_path: Path) -> None:
    """Replies without sampling are requested one by one, and likelihoods have no samples."""
    message = Message("user", "q" * 400)

    def build_jobs() -> list[Job[Any]]:
        def plan() -> Plan[None]:
            yield [Generate((message,), Decoding(4), sample=number) for number in range(5)]
            yield [Likelihood((message,), text) for text in ("a", "b")]

        return [Job(1, plan())]

    reader = OpenAIReader(
        "m", "m", "http://127.0.0.1:9/v1", dialect="vllm", end_token="<end>", samples_per_call=8
    )
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        estimate = estimate_cost(build_jobs, build_engine_map(reader), ledger)["reader"]
    assert estimate.missing == (7, 7)
    assert estimate.tokens[0] == estimate.tokens[1]
