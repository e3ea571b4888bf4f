"""Exact match, F1 and accuracy as metrics."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.answer_source import AnswerSource
from winnow.metrics.breakdowns import AnswerType, Sufficiency
from winnow.metrics.citation import Citation
from winnow.metrics.correctness import F1, Accuracy, ExactMatch
from winnow.metrics.distraction import ANSWERED, DistractingEffect, Udcg
from winnow.metrics.judged import JudgedAccuracy
from winnow.metrics.majority import NotMajority, NotMajorityOfPools
from winnow.metrics.rounds import EvidenceRecall
from winnow.metrics.selective import SelectiveAccuracy
from winnow.reports.cells import CellResult
from winnow.reports.tables import build_metrics_table
from winnow.sweeps.labels import CellLabels
from winnow.testing import make_context, make_sample, run_scripted_plan

NM, POOLS = NotMajority("nm", "%NM"), NotMajorityOfPools("nm_pool", "%NM of pools")
TWO = ("Jane Austen", "Austen")


def test_correctness_in_its_dialect_against_every_answer() -> None:
    """The second accepted answer counts; CRAG's containment is raw."""
    one = make_sample("the austen", 0, TWO)
    assert (
        ExactMatch("em", "EM").score(one),
        F1("f1", "F1").score(one),
        Accuracy("a", "A").score(one),
    ) == (1.0, 1.0, 1.0)
    assert Accuracy("a", "A", dialect="crag").score(one) == 0.0


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
    with pytest.raises(
        ConfigError, match="squad, squad_v2, fid, flashrag or crag; received 'nltk'"
    ):
        ExactMatch("em", "EM", dialect="nltk")  # type: ignore[arg-type]


def test_without_accepted_answers_nothing_is_right_or_wrong() -> None:
    """BEIR's questions and biographies have none: each metric that needs them is undefined."""
    context = make_context(1, "Emma")
    bare = make_sample("Emma", 0, (), contexts=[context], candidates=("Emma",))
    metrics = [
        ExactMatch("em", "EM"),
        F1("f1", "F1"),
        Accuracy("a", "A"),
        NotMajority("nm", "%NM"),
        AnswerSource("s", "S", outcome="right"),
    ]
    assert [metric.score(bare) for metric in metrics] == [None] * 5
    assert NotMajorityOfPools("p", "P").compute_terms(bare) == (0.0, 0.0)
    assert SelectiveAccuracy("x", "X").compute_terms(bare) == (0.0, 0.0)
    judged = JudgedAccuracy("j", "J", template="{question}{answers}{answer}")
    assert run_scripted_plan(judged.plan(bare), []) == (None, [])
    assert AnswerType("type", "Type").assign_groups([bare]) == ["none"]
    assert Sufficiency("s", "S").assign_groups([bare]) == ["no accepted answer"]
    assert EvidenceRecall("e", "E").score(bare) is None
    alone = replace(bare, prediction=replace(bare.prediction, trace=(f"{ANSWERED}1",)))
    assert DistractingEffect("d", "D").compute_terms(alone) == (0.0, 0.0)
    assert Udcg("u", "U").score(alone) is None
