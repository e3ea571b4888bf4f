"""The story: what its sentences state follows from the tests of the cells."""

import re
from dataclasses import replace

import pytest

from tests.reports.page.stories import CLOSE, HIGH, LOW, N, find, make, tell
from winnow.metrics.unknown import Unknown
from winnow.reports.cells import CellResult
from winnow.reports.family import Family
from winnow.reports.page.story import build_story
from winnow.reports.tables import build_matrix_table
from winnow.testing import make_cell_result


def test_the_headline_names_the_best_setting_and_the_simplest() -> None:
    """30 of 40 is the highest, 26 more than 4 of 40, which costs the least."""
    story = tell(_spend(LOW, 20), _spend(HIGH, 60), _spend(CLOSE, 30))
    assert story.headline.text.startswith(
        "post_fusion on five passages retrieved has the highest EM: 75.0 % [59.8, 85.8]."
    )
    assert "That is 65.0 points [" in story.headline.text
    assert story.headline.text.endswith(
        "more than concatenation on five passages retrieved, the simplest setting, has (p <0.001)."
    )
    assert (story.headline.cells, story.headline.is_significant) == ((1, 0), True)
    assert story.headline.interval[0] == pytest.approx(65)
    assert (
        story.cost
        == "40 questions · tokens per question: 60.0, 3.0 times that of the simplest setting"
    )


def test_other_questions_of_the_same_number_are_named() -> None:
    """A closed-book filter leaves each reader questions of its own; both tables say so."""
    names = list(HIGH.columns.question_ids)
    cells = [HIGH.select_questions(names[:30]), LOW.select_questions(names[10:])]
    text = tell(*cells).headline.text
    assert "its own questions for which it is defined, which are not the same in all cells" in text
    assert "different questions" in build_matrix_table(cells, 0).caption
    assert "which are not the same" not in tell(HIGH, LOW).headline.text


def test_costs_are_compared_over_common_questions() -> None:
    """Later questions cost more, which only the cheaper cell answers, so that its own mean is
    higher.
    """
    names = list(HIGH.columns.question_ids)

    def spend(cell: CellResult, factor: int) -> CellResult:
        samples = [
            _spend(cell.select_questions({name}), factor * (1 + number)).samples[0]
            for number, name in enumerate(names)
        ]
        return replace(cell, samples=samples)

    first = spend(HIGH, 10).select_questions(names[:30])
    second = spend(LOW, 9).select_questions(names[20:])
    story = tell(first, second)
    assert "costs the least" not in story.headline.text
    assert "the simplest setting" in story.headline.text
    assert story.cost == (
        "30 questions · tokens per question: 155.0, 1.1 times that of the simplest setting"
    )


def test_a_lead_that_no_test_shows_is_said_to_be_none() -> None:
    """One question of 40 is no difference; the cheaper cell is the baseline wherever it stands."""
    story = tell(HIGH, _spend(CLOSE, 3))
    assert (
        "That is not significantly more than pf_concat on five passages retrieved, the simplest "
        "setting: 2.5 points" in (story.headline.text)
    )
    assert re.search(
        r"p = 1.000. 40 questions do not tell them apart, and it costs \d\d.\d times as much.$",
        story.headline.text,
    )
    assert not story.headline.is_significant


def test_only_a_cheaper_setting_that_anyone_can_use_is_preferred() -> None:
    """One without passages is low by selection, nearly the same cost saves nothing, and nobody has
    gold labels.
    """
    closed = replace(_spend(CLOSE, 3), labels=replace(CLOSE.labels, k=0, placed=""))
    gold = [
        replace(cell, labels=replace(cell.labels, uses_gold=True))
        for cell in (HIGH, _spend(CLOSE, 3))
    ]
    for cells in ([HIGH, closed], [_spend(HIGH, 1000), _spend(CLOSE, 999)], gold):
        assert "not significantly more" in tell(*cells).headline.text
        assert "justify" not in tell(*cells).headline.text


def _spend(cell: CellResult, tokens: int) -> CellResult:
    """The cell with a number of tokens for each question."""
    samples = []
    for sample in cell.samples:
        usage = tuple(
            replace(one, tokens_in=tokens, tokens_out=0) for one in sample.prediction.usage
        )
        samples.append(replace(sample, prediction=replace(sample.prediction, usage=usage)))
    return replace(cell, samples=samples)


def test_the_best_may_be_the_simplest() -> None:
    """It is then compared with the next highest, and nobody else is called the simplest."""
    story = tell(LOW, _spend(HIGH, 3), CLOSE)
    assert (
        "It also costs the least of those with passages. That is not significantly more"
        in story.headline.text
    )
    assert "the next highest: 2.5 points [" in story.headline.text
    assert "simplest" not in story.headline.text + story.cost
    assert story.headline.cells == (1, 2)


def test_a_control_with_gold_labels_is_never_the_winner() -> None:
    """It is what a better ranking could bring, with its own difference."""
    control = make("concatenation", 38, gold="gold_first", placed="with the gold passage first")
    story = tell(LOW, HIGH, control)
    assert (
        "has the highest EM of the settings without gold labels: 75.0 % [59.8, 85.8]."
        in story.headline.text
    )
    finding = find(
        story,
        "With gold labels, concatenation on five passages with the gold passage first reaches "
        "95.0 [",
    )
    assert "20.0 points [" in finding.text
    assert "better than the best setting without (p = 0.008)." in finding.text
    assert (finding.cells, finding.is_significant) == ((2, 1), True)
    alone = tell(
        control, make("post_fusion", 39, gold="gold_first", placed="with the gold passage first")
    )
    assert "All settings use gold labels" in alone.headline.text
    assert not any("With gold labels" in finding.text for finding in alone.findings)


def test_a_control_that_brings_nothing_is_not_mentioned() -> None:
    """Lower than the best setting."""
    assert not any(
        "gold labels" in finding.text
        for finding in tell(HIGH, make("a", 20, gold="gold_last")).findings
    )


def test_the_cheapest_setting_that_is_not_worse_is_named() -> None:
    """It reads a third; the baseline reads less and is significantly below."""
    cells = [_spend(LOW, 10), _spend(HIGH, 300), _spend(CLOSE, 100)]
    finding = find(
        tell(*cells),
        "The cheapest setting that is not significantly worse is pf_concat on five passages",
    )
    assert "at 33 % of the cost" in finding.text
    assert finding.cells == (1, 2)
    assert not any("cheapest" in finding.text for finding in tell(*cells[:2]).findings)


def test_the_number_of_questions_is_that_of_the_power_report() -> None:
    """One calculation: the draws of `flows.power`, whose sizes are steps."""
    (finding,) = [f for f in tell(make("a", 20), make("b", 24)).findings if "would need" in f.text]
    assert "would need up to 100 questions" in finding.text
    (rare,) = [f for f in tell(make("a", 20), make("b", 21)).findings if "would need" in f.text]
    assert "would need over 200 questions" in rare.text


def test_nothing_is_claimed_without_a_test() -> None:
    """One cell has no comparison; other questions are not compared; without a defined value there
    is no best cell.
    """
    only = tell(LOW)
    assert (
        only.headline.text
        == "concatenation on five passages retrieved has the highest EM: 10.0 % [4.0, 23.1]."
    )
    assert (only.headline.cells, only.findings) == ((0,), [])
    other = replace(HIGH, labels=replace(HIGH.labels, questions="another selection"))
    assert "significant" not in tell(LOW, other).headline.text
    assert "it is compared with those that answer the same." in tell(LOW, other).headline.text
    empty = replace(LOW, samples=[])
    assert tell(empty).headline.text == "EM is undefined in every cell."


def test_where_lower_is_better_the_best_is_the_lowest() -> None:
    """These cells have 90, 25 and 27.5 % unknown: HIGH abstains least, and a difference in its
    favor counts.
    """
    unk = Unknown("unk", "%Unk", lower_is_better=True)
    cells = [
        replace(cell, metrics=[unk, *cell.metrics])
        for cell in (_spend(LOW, 20), _spend(HIGH, 60), _spend(CLOSE, 30))
    ]
    story = tell(*cells)
    assert story.best == 1
    assert story.headline.text.startswith(
        "post_fusion on five passages retrieved has the lowest %Unk: 25.0 % [14.2, 40.2]."
    )
    assert "That is 65.0 points [" in story.headline.text
    assert story.headline.text.endswith(
        "less than concatenation on five passages retrieved, the simplest setting, has (p <0.001)."
    )
    assert story.headline.interval[0] == pytest.approx(-65)
    cheaper = find(story, "The cheapest setting that is not significantly worse is pf_concat")
    assert "the best is 2.5 points [" in cheaper.text
    assert (
        tell(cells[1]).headline.text
        == "post_fusion on five passages retrieved has the lowest %Unk: 25.0 % [14.2, 40.2]."
    )


def test_no_setting_is_the_best_where_all_are_level() -> None:
    """Equal values are said to be equal, whether the answers are the same; a tie of some is
    counted.
    """
    level = tell(_spend(LOW, 90), _spend(make("copy", 4), 20))
    assert (
        level.headline.text
        == "All settings have the same EM: 10.0 % [4.0, 23.1]. The one with the lowest cost is "
        "copy on five passages retrieved."
    )
    assert level.best == 1
    gold = make("oracle", 40, gold="gold_first")
    level = tell(LOW, make("copy", 4), gold).headline
    assert level.text.startswith(
        "All settings without gold labels have the same EM: 10.0 % [4.0, 23.1]. The one with"
    )
    assert (level.interval, level.is_significant) == ((), False)
    tied = make_cell_result("b", 5, "retrieved", [float(n >= N - 4) for n in range(N)])
    assert "All settings have the same EM" in tell(LOW, tied).headline.text
    story = tell(_spend(LOW, 90), _spend(tied, 20), make("c", 1))
    assert story.headline.text.startswith(
        "b on five passages retrieved has the highest EM (as have 1 with other answers)"
    )
    text = tell(LOW, tied, make("c", 1)).headline.text
    assert text.startswith(
        "concatenation on five passages retrieved has the highest EM (as have 1 with other "
        "answers): 10.0 %"
    )


def test_of_cells_with_the_same_answers_the_cheapest_is_the_best() -> None:
    """Nobody should pay for the other; and no other cell is called the cheapest that is as good."""
    twin = replace(HIGH, labels=replace(HIGH.labels, strategy="twin"))
    story = tell(_spend(HIGH, 300), _spend(twin, 20), _spend(CLOSE, 100))
    assert story.headline.text.startswith("twin on five passages retrieved has the highest EM")
    assert not any("cheapest" in finding.text for finding in story.findings)


def test_a_setting_without_passages_is_not_the_cheapest_of_those_with_passages() -> None:
    """It is compared with the cheapest of these."""
    alone = _spend(make("closed_book", 30, k=0, gold="none"), 5)
    alone = replace(alone, labels=replace(alone.labels, placed=""))
    story = tell(alone, _spend(CLOSE, 30), _spend(LOW, 20))
    assert "costs the least" not in story.headline.text
    assert (
        "more than concatenation on five passages retrieved, the simplest setting"
        in story.headline.text
    )


def test_without_a_known_cost_no_setting_is_the_simplest() -> None:
    """The best one is compared with the next highest."""
    story = build_story(Family([LOW, CLOSE, HIGH], 0), cost="money")
    assert story.headline.cells == (2, 1)
    assert "the next highest" in story.headline.text
    assert (story.cost, "simplest" in story.headline.text) == ("40 questions", False)


def test_a_cell_without_passages_is_no_baseline_beside_others() -> None:
    """Though it costs the least."""
    closed = _spend(make_cell_result("closed_book", 0, "none", [0.0] * N), 1)
    story = tell(_spend(HIGH, 60), closed, _spend(LOW, 20))
    assert story.headline.cells == (0, 2)
    assert "costs the least" not in story.headline.text


def test_the_baseline_and_the_cheaper_setting_follow_the_rules() -> None:
    """Equal costs are the least; a cheapest setting that is the baseline, or as dear as the best,
    is not named again.
    """
    assert "It also costs the least" in tell(_spend(HIGH, 3), _spend(CLOSE, 3)).headline.text
    closed = _spend(make_cell_result("closed_book", 0, "none", [0.0] * N), 1)
    assert "costs the least" not in tell(_spend(HIGH, 60), closed).headline.text
    for cells in (
        (_spend(LOW, 10), _spend(HIGH, 300), _spend(CLOSE, 300)),
        (_spend(HIGH, 300), _spend(CLOSE, 100)),
    ):
        assert not any("cheapest" in finding.text for finding in tell(*cells).findings)
    family = Family(
        [
            _spend(HIGH, 300),
            _spend(CLOSE, 100),
            _spend(make_cell_result("closed_book", 0, "none", [1.0] * 28 + [0.0] * 12), 1),
        ],
        0,
    )
    assert any(
        "is closed_book without passages, at" in finding.text
        for finding in build_story(family).findings
    )
    filtered = build_story(family, selection="low by selection, because").findings
    assert not any("closed_book without passages, at" in finding.text for finding in filtered), (
        "low by selection"
    )
    controls = make("a", 38, gold="gold_first"), make("b", 39, gold="gold_first")
    assert "without gold labels" not in tell(*controls).headline.text
    level = make_cell_result("a", 5, "gold_first", [float(n >= N - 30) for n in range(N)])
    assert not any(
        "With gold labels" in finding.text for finding in tell(LOW, HIGH, level).findings
    )


def test_the_next_lowest_and_its_bounds_where_lower_is_better() -> None:
    """The cheapest is the best, so that it is compared with the next lowest, in the order of its
    interval.
    """
    unk = Unknown("unk", "%Unk", lower_is_better=True)
    cells = [
        replace(cell, metrics=[unk, *cell.metrics])
        for cell in (_spend(LOW, 20), _spend(HIGH, 3), _spend(CLOSE, 30))
    ]
    headline = tell(*cells).headline
    assert headline.cells == (1, 2)
    assert "the next lowest" in headline.text
    found = re.search(r"65\.0 points \[([\d.-]+), ([\d.-]+)\]", tell(*cells[:2]).headline.text)
    assert found
    assert float(found[1]) < 65 < float(found[2])
