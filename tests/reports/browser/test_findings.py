"""Findings: what the sentences state follows from the tests of the cells."""

from dataclasses import replace

from winnow.metrics.base import Shown
from winnow.records import Context
from winnow.reports.browser.findings import build_findings
from winnow.reports.cells import CellResult, name_cells
from winnow.testing import make_cell_result, make_context

N = 40
TESTS = "McNemar's exact test, Holm's correction"
LOW = make_cell_result("concatenation", 5, "retrieved", [float(n < 4) for n in range(N)])
HIGH = make_cell_result("post_fusion", 5, "retrieved", [float(n < 30) for n in range(N)])
CLOSE = make_cell_result("pf_concat", 5, "retrieved", [float(n < 29) for n in range(N)])


def _texts(*cells: object) -> list[str]:
    return [finding.text for finding in build_findings(cells, name_cells(cells), 0)]  # type: ignore[arg-type]


def test_the_best_cell_is_compared_with_all_others() -> None:
    """30 of 40 is the highest; it is above 4 of 40, but not above 29 of 40."""
    texts = _texts(LOW, HIGH, CLOSE)
    assert texts[0].startswith("The highest EM is 75.0 [59.8, 85.8], of post_fusion k=5 retrieved (40 questions")
    assert "significantly above 1 of the 2 other cells" in texts[1]
    assert "not significantly above pf_concat k=5 retrieved;" in texts[1]


def test_significant_differences_come_with_their_tests() -> None:
    """26 questions are won and none is lost: +65 points; 1 of 40 is not significant, and says what would show it."""
    texts = _texts(LOW, HIGH, CLOSE)
    assert (
        "2 of 3 differences between strategies and settings are significant (McNemar's exact test, Holm's correction)."
        in texts
    )
    (first, *_) = [text for text in texts if text.startswith("post_fusion against concatenation")]
    assert "(k 5, retrieved): +65.0 [" in first
    assert "p <0.001, corrected <0.001, 40 questions." in first
    (rest,) = [text for text in texts if text.startswith("The largest that is not")]
    assert "pf_concat against post_fusion (k 5, retrieved): -2.5" in rest
    assert "a single test shows it with 317 questions (80 % power)" in rest


def test_the_largest_differences_come_first() -> None:
    """65 points before 62.5."""
    named = [text for text in _texts(LOW, CLOSE, HIGH) if " against concatenation" in text]
    assert [text.split(" ")[0] for text in named] == ["post_fusion", "pf_concat"]


def test_significance_is_that_of_the_corrected_test() -> None:
    """Six won questions have p = 0.031, which three tests correct to 0.094."""
    none = make_cell_result("a", 5, "retrieved", [0.0] * 40)
    six = make_cell_result("b", 5, "retrieved", [float(n < 6) for n in range(40)])
    others = make_cell_result("c", 5, "retrieved", [float(n >= 34) for n in range(40)])
    expected = (
        "None of 3 differences between strategies and settings is significant (McNemar's exact test, Holm's correction)."
    )
    assert expected in _texts(none, six, others)


def test_a_cell_that_is_lower_on_the_common_questions_is_not_above() -> None:
    """The highest of all, with 70 of 100, has none of the 30 questions of which the other has 18."""
    highest = make_cell_result("a", 5, "retrieved", [float(n >= 30) for n in range(100)])
    other = make_cell_result("b", 5, "retrieved", [float(n < 18) for n in range(30)])
    texts = _texts(highest, other)
    assert "70.0" in texts[0]
    assert "significantly above 0 of the 1 other cells" in texts[1]


def test_the_cells_of_a_finding_are_those_of_the_sentence() -> None:
    """Links lead to the cells that are named, in their order."""
    cells = [LOW, HIGH, CLOSE]
    findings = build_findings(cells, name_cells(cells), 0)
    for finding in findings:
        if " against " in finding.text and "corrected" in finding.text:
            first, second = (cells[index].labels.strategy for index in finding.cells)
            assert f"{first} against {second}" in finding.text
    marked = {finding.text.split(" ")[0] for finding in findings if finding.significant}
    assert marked == {"It", "2", "post_fusion", "pf_concat"}


def test_nothing_is_claimed_without_a_test() -> None:
    """One cell has no comparison; other questions are not compared; without a defined value there is no best cell."""
    only, gold = _texts(LOW)
    assert gold.startswith("The gold passages of 20 questions are the first stored contexts that contain")
    assert only.startswith("The highest EM is 10.0")
    other = replace(HIGH, labels=replace(HIGH.labels, questions="another selection"))
    assert not any("significant" in text for text in _texts(LOW, other))
    empty = replace(LOW, samples=[])
    assert _texts(empty) == ["EM is undefined in every cell."]


def test_cost_is_compared_among_cells_with_passages() -> None:
    """Both read 119.5 tokens per question on average: the sample n reads 100 + n."""
    text = _texts(make_cell_result("closed_book", 0, "none", [0.0] * 4), LOW, HIGH)[-1]
    assert "closed_book" not in text
    assert "reads 120 tokens per question, 1.0 times as many as" in text


def _give(cell: CellResult, number: int, contexts: list[Context], ranking: list[Context]) -> CellResult:
    """The cell with contexts and a ranking for one question."""
    samples = list(cell.samples)
    samples[number] = replace(samples[number], placed=contexts, shown=Shown(tuple(contexts)), ranking=ranking)
    return replace(cell, samples=samples)


def test_the_limits_of_the_best_cell() -> None:
    """Inserted gold, questions whose ranking has no answer, and gold passages that are only text."""
    inserted = make_context(9, "x", is_gold=True, has_answer=True)
    other = make_context(1, "y")
    best = _give(_give(HIGH, 0, [inserted], [other, inserted]), 1, [other], [other])
    first, second, limit, answerable, *_ = _texts(LOW, best, CLOSE)
    assert "of post_fusion k=5 retrieved" in first
    assert "significantly above 1" in second
    assert limit.startswith("That cell puts the gold passage into the prompt even where it is not among the first k.")
    assert "The highest EM of a cell that does not is 72.5 [57.2, 83.9], of pf_concat k=5 retrieved." in limit
    assert answerable.startswith("1 of 2 questions have no stored context that holds an answer. On the other 1, post_fusion")
    assert "has 100.0 [" in answerable


def test_the_same_answers_count_once() -> None:
    """Two placements with the same answers are named together, and the best is not compared with its equal."""
    cells = [
        make_cell_result("concatenation", 1, "retrieved", [float(n < 4) for n in range(N)]),
        make_cell_result("concatenation", 1, "gold_first", [float(n < 30) for n in range(N)]),
        make_cell_result("concatenation", 1, "gold_last", [float(n < 30) for n in range(N)]),
    ]
    texts = _texts(*cells)
    assert texts[0].endswith("concatenation k=1 gold_last gave the same answers.")
    assert "above all 1 other cells" in texts[1]
    (placement,) = [text for text in texts if text.startswith("gold_first against retrieved")]
    assert placement.endswith("The same answers: gold_last against retrieved (concatenation, k 1).")


def test_pairs_are_merged_only_if_both_cells_answer_alike() -> None:
    """The better cell is the same at both placements, and so is the worse one in the first report only."""
    best = [make_cell_result("post_fusion", 5, gold, [1.0] * 30) for gold in ("a", "b")]
    same = [make_cell_result("concatenation", 5, gold, [float(n < 4) for n in range(30)]) for gold in ("a", "b")]
    other = make_cell_result("concatenation", 5, "b", [float(n > 25) for n in range(30)])

    def count(*cells: CellResult) -> tuple[int, int]:
        texts = _texts(*cells)
        named = [text for text in texts if text.startswith("concatenation against post_fusion")]
        return len(named), sum("The same answers" in text for text in named)

    assert count(*best, *same) == (1, 1)
    assert count(*best, same[0], other) == (2, 0)


def test_only_distant_gold_passages_are_said_to_be_text_alone() -> None:
    """Every second question of a cell has a distant one; annotated ones need no such sentence."""
    assert any("The gold passages of 20 questions" in text for text in _texts(HIGH))
    annotated = [replace(sample, prediction=replace(sample.prediction, provenance="annotated")) for sample in HIGH.samples]
    assert not any("The gold passages of" in text for text in _texts(replace(HIGH, samples=annotated)))
