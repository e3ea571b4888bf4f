"""Metrics as components: rows, aggregates, what is undefined; rewards; judged metrics."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import JudgedMetric, Sample, evaluate
from winnow.metrics.citation import Citation
from winnow.metrics.correctness import F1, Accuracy, ExactMatch
from winnow.metrics.cost import Consumption, Cost
from winnow.metrics.intervals import UNDEFINED
from winnow.metrics.judged import JudgedAccuracy
from winnow.metrics.majority import NotMajority, NotMajorityOfPools
from winnow.metrics.unknown import Unknown
from winnow.prices import Price
from winnow.records import Prediction, RoleUsage
from winnow.reports.cells import CellResult, build_metrics_table
from winnow.sweeps.labels import CellLabels
from winnow.testing import make_context, make_sample, run_scripted_plan

NM, POOLS = NotMajority("nm", "%NM"), NotMajorityOfPools("nm_pool", "%NM of pools")
TWO = ("Jane Austen", "Austen")


def test_not_majority_needs_a_correct_candidate_and_a_wrong_answer() -> None:
    """Pools that hold a right answer, two of them, and one that holds none."""
    missed = make_sample("Emma", 0, TWO, candidates=("Emma", "austen", "Emma"))
    right = make_sample("Jane Austen", 1, TWO, candidates=("Jane Austen", "Emma"))
    never = make_sample("Emma", 2, TWO, candidates=("Emma", "Woodhouse"))
    assert [NM.score(one) for one in (missed, right, never)] == [1.0, 0.0, 0.0]
    assert [POOLS.compute_terms(one) for one in (missed, right, never)] == [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]
    intervals = evaluate([NM, POOLS], [missed, right, never])
    assert (intervals["nm"].mean, intervals["nm"].n) == (pytest.approx(1 / 3), 3)
    assert (intervals["nm_pool"].mean, intervals["nm_pool"].n, intervals["nm_pool"].counts) == (0.5, 2, (1.0, 2.0))


def test_undefined_is_no_number() -> None:
    """%NM without any pool, %NM of pools without a right one, dollars without a price."""
    alone = [make_sample("Emma", 0, TWO), make_sample("Jane Austen", 1, TWO)]
    money = Cost("money", "$", "number", 3)
    intervals = evaluate([NM, POOLS, money], alone)
    assert [intervals[name].n for name in ("nm", "nm_pool", "money")] == [0, 0, 0]
    assert [metric.format(intervals[metric.name]) for metric in (NM, POOLS, money)] == [UNDEFINED] * 3


def test_correctness_in_its_dialect_against_every_answer() -> None:
    """The second accepted answer counts; CRAG's containment is raw."""
    one = make_sample("the austen", 0, TWO)
    assert (ExactMatch("em", "EM").score(one), F1("f1", "F1").score(one), Accuracy("a", "A").score(one)) == (1.0, 1.0, 1.0)
    assert Accuracy("a", "A", dialect="crag").score(one) == 0.0
    assert Unknown("unk", "%Unk").score(make_sample("unknown", 0, unknown=True)) == 1.0


def test_costs_are_by_role() -> None:
    """Ten tokens in at 2 dollars and two out at 5 dollars a million, and a judge at 100: dollars a thousand questions."""
    usage = (RoleUsage("reader", 3, 10, 2, 0.5), RoleUsage("judge", 1, 4, 0, 0.0), RoleUsage("search", 2, 0, 0, 0.25))
    one = make_sample("x")
    prices = {"reader": Price(2.0, 5.0), "judge": Price(100.0, 0.0)}
    priced = Sample(one.question, Prediction("q0", "x", False, usage=usage), (), prices)
    assert Cost("money", "$").score(priced) == pytest.approx(1000 * (30e-6 + 400e-6))
    names = ("tokens_in", "tokens_out", "tokens", "calls", "searches", "seconds")
    counts = {name: Consumption(name, name, of=name).score(priced) for name in names}  # type: ignore[arg-type]
    assert counts == {"tokens_in": 14, "tokens_out": 2, "tokens": 16, "calls": 6, "searches": 2, "seconds": 0.75}


def test_a_question_without_a_priced_call_costs_nothing() -> None:
    """A verifier at a price that one of two questions used: half its price a question, not all of it."""
    prices = {"verifier": Price(1000.0, 0.0)}
    usage = [(RoleUsage("verifier", 1, 2, 0, 0.0),), ()]
    samples = [Sample(make_sample("x").question, Prediction("q0", "x", False, usage=one), (), prices) for one in usage]
    interval = evaluate([Cost("money", "$", "number")], samples)["money"]
    assert (interval.mean, interval.n) == (pytest.approx(1000 * 0.002 / 2), 2)


def test_a_metric_is_a_reward() -> None:
    """The same object scores one reply in training; undefined is 0."""
    assert ExactMatch("em", "EM").compute_reward(make_sample("Austen", 0, TWO)) == 1.0
    assert POOLS.compute_reward(make_sample("Emma", 0, TWO)) == 0.0


def test_a_judge_is_asked_and_its_odd_replies_leave_the_question_out() -> None:
    """A plan of the role "judge"; "Yes." is right, "no" is wrong, prose is undefined."""
    metric = JudgedAccuracy("judged", "judged", template="{question}|{answers}|{answer}")
    assert isinstance(metric, JudgedMetric)
    requests = next(metric.plan(make_sample("Emma", 0, TWO)))
    assert [request.role for request in requests] == ["judge"]
    verdicts = [
        run_scripted_plan(metric.plan(make_sample("Emma", 0, TWO)), [[reply]]) for reply in ("Yes.", "no", "It depends", "")
    ]
    assert [verdict for verdict, _ in verdicts] == [1.0, 0.0, None, None]
    assert verdicts[0][1] == [["Who wrote Emma?|Jane Austen; Austen|Emma"]]
    with pytest.raises(ConfigError, match=r"metric.judged.template must contain \{answer\}"):
        JudgedAccuracy("judged", "judged", template="{question} {answers}")


def test_headings_name_any_dialect_but_squads() -> None:
    """So that two columns of one metric can be told apart."""
    dialects = ("squad", "squad_v2", "fid", "flashrag", "crag")
    headings = [ExactMatch("em", "EM", dialect=dialect).heading for dialect in dialects]  # type: ignore[arg-type]
    assert headings == ["EM", "EM (squad_v2)", "EM (fid)", "EM (flashrag)", "EM (crag)"]
    assert F1("f1", "F1", dialect="crag").heading == "F1 (crag)"
    assert Citation("c", "citation F1").heading == "citation F1 (rage)"
    cell = CellResult(
        CellLabels("s", 5, "g"),
        [make_sample("Emma", 0, TWO)],
        [ExactMatch("em", "EM"), ExactMatch("em_fid", "EM", dialect="fid")],
    )
    assert build_metrics_table("t", "c", [cell], 0).columns[-2:] == ["EM", "EM (fid)"]
    with pytest.raises(ConfigError, match="one of squad, squad_v2, fid, flashrag, crag; received 'nltk'"):
        ExactMatch("em", "EM", dialect="nltk")  # type: ignore[arg-type]


def test_citations_are_of_the_passages_that_the_prompt_showed() -> None:
    """[1] is the first passage of the prompt, whatever else was retrieved; without a relevant one there is nothing to cite."""
    base = make_sample("Emma", 0, TWO, reply="Emma [1]. Really [2].", used_ids=("p3", "p1"))
    contexts = [make_context(1, "a"), make_context(3, "b", has_answer=True), make_context(4, "c", has_answer=True)]
    shown = replace(base, contexts=contexts)
    values = {of: Citation("c", "c", of=of).score(shown) for of in ("precision", "recall", "f1")}  # type: ignore[arg-type]
    assert values == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3)}
    assert Citation("c", "c").score(replace(base, contexts=contexts[:1])) is None
    with pytest.raises(ConfigError, match=r"precision, recall, f1, .* received 'auc'"):
        Citation("c", "c", of="auc")  # type: ignore[arg-type]
