"""What columns mean."""

from winnow.metrics.answer_source import AnswerSource
from winnow.metrics.correctness import ExactMatch
from winnow.metrics.judged import JudgedAccuracy
from winnow.metrics.replies import LongAnswers
from winnow.reports.family import Family
from winnow.reports.glossary import build_glossary, describe_metric
from winnow.reports.report import build_report
from winnow.testing import make_cell_result


def test_a_metric_is_described_by_its_documentation_and_its_settings() -> None:
    """Choices and changed numbers are named, templates are not."""
    assert (
        describe_metric(ExactMatch("em", "EM"))
        == "Whether the normalized answer equals a normalized accepted answer; in the dialect "
        '"crag", whether the answer contains an accepted one, raw and case-sensitive '
        "(dialect: squad)"
    )
    misled = AnswerSource("misled", "misled", source="other", outcome="wrong")
    assert describe_metric(misled).endswith(
        "by the rules of `has_answer` (source: other, outcome: wrong)"
    )
    template = "{question} Is {answer} one of {answers}?"
    assert "Is {answer}" not in describe_metric(
        JudgedAccuracy("judged", "judged", template=template)
    )
    assert describe_metric(LongAnswers("long", "over 5 words", words=5)).endswith(
        "more than 5 words"
    )


def test_a_report_explains_its_columns() -> None:
    """At the end of the page and of its Markdown."""
    report = build_report(
        "t", Family([make_cell_result("a", 5, "retrieved", [1.0, 0.0])], 0), {"Data": "d"}
    )
    assert report.glossary == build_glossary(make_cell_result("a", 5, "retrieved", [1.0]).metrics)
    assert "## Columns\n\n- EM: Whether the normalized answer equals" in report.render_markdown()
    assert "<dt>%Unk</dt><dd>Share of questions whose final answer is" in report.render_html()
