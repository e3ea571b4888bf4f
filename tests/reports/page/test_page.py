"""The page: opened in a real browser, each view by its address."""

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

from tests.reports.page.page_browser import (
    CELLS,
    CLOSED,
    A,
    B,
    Open,
    build_page,
    call,
    count_marks,
    needs_chromium,
    open_page,
    read_text,
)
from winnow.reports.page.cases import Case, Texts
from winnow.reports.page.page import choose_questions, list_chosen_ids
from winnow.reports.page.tallies import Ballot, Tally
from winnow.testing import make_cell_result


@needs_chromium
def test_the_answer_comes_first(page: Open) -> None:
    """A sentence with a link, what it costs, one chart with a point for each cell with passages,
    and findings as bars.
    """
    elements = page()
    text = read_text(elements)
    assert (
        "post_fusion on five passages retrieved has the highest EM of the settings without gold "
        "labels: 66.7 % [30.0, 90.3]." in text
    )
    assert "not significantly more than closed_book without passages, the simplest setting" in text
    assert "6 questions · tokens per question: 104.5" in text
    assert f"#{urlencode({'view': 'compare', 'a': A, 'b': CLOSED})}".replace("&", "&") in elements
    assert count_marks(elements, "point") == 2
    assert "dashed: without passages" in text
    assert "Take care." in text
    assert "post_fusion on five passages retrieved; EM: 66.7 [30.0, 90.3]; questions: 6" in elements
    assert "small & made up" in read_text(page(view="about"))


@needs_chromium
def test_what_an_address_names_wrongly_is_said(page: Open) -> None:
    """The page shows what it has, and says what it was asked for."""
    text = read_text(page(view="charts", a="another cell"))
    assert (
        "The address says view=charts, which this page does not have. It has answer, explore, "
        "outcomes" in text
    )
    assert (
        f"The address says a=another cell, which this page does not have. It has {A}, {B}, "
        f"{CLOSED}." in text
    )
    assert "has the highest EM" in text
    assert "The address says" not in read_text(
        page(view="compare", a=A, b=B, metric="em", outcome="right")
    )


@needs_chromium
def test_selections_that_share_ids_keep_their_questions(tmp_path: Path) -> None:
    """Two data sets have a question q0; each cell shows its own."""
    samples = [
        replace(s, question=replace(s.question, text=f"other {s.question.question_id}"))
        for s in CELLS[1].samples
    ]
    other = replace(
        CELLS[1], samples=samples, labels=replace(CELLS[1].labels, questions="another selection")
    )
    (tmp_path / "index.html").write_text(build_page([CELLS[0], other]).render(), encoding="utf-8")
    assert "<h2>other q0" in open_page(tmp_path / "index.html", view="questions", a=B, id="q0")
    assert "<h2>other q0" not in open_page(tmp_path / "index.html", view="questions", a=A, id="q0")


@needs_chromium
def test_tables_are_sorted_and_filtered(page: Open) -> None:
    """By the address; numbers as numbers, and rows of other words are left out."""
    every = next(
        str(n)
        for n, table in enumerate(build_page().report.tables)
        if table.title == "All questions"
    )
    rising = read_text(page(view="tables", table=every, by="1"))
    assert rising.index("closed_book 0") < rising.index("concatenation 5")
    falling = read_text(page(view="tables", table=every, by="1", order="down"))
    assert falling.index("concatenation 5") < falling.index("closed_book 0")
    found = read_text(page(view="tables", table=every, search="post_f", hide="2"))
    assert "1 of 3 rows" in found
    assert "gold_first" not in found
    assert "McNemar" in found, "how to read"


@needs_chromium
def test_the_first_comparison_is_of_cells_that_differ(tmp_path: Path) -> None:
    """The best cell is not compared with its twin, unless nothing else is there."""
    twins = [
        make_cell_result("post_fusion", 1, gold, [1, 1, 0]) for gold in ("gold_first", "gold_last")
    ]
    other = make_cell_result("concatenation", 1, "gold_first", [1, 0, 0])
    file = tmp_path / "page.html"
    for cells, won in (([*twins, other], "+33.3"), (twins, "±0.0")):
        file.write_text(build_page(cells).render(), encoding="utf-8")
        assert f"A − B = {won} points" in read_text(open_page(file, view="compare"))


@needs_chromium
def test_outcomes_are_counted(page: Open) -> None:
    """Each count opens its questions; the counts of a cell add up to its questions."""
    elements = page(view="outcomes", a=CLOSED)
    assert (
        f"#{urlencode({'view': 'questions', 'a': CLOSED, 'outcome': 'closed_book_unknown'})}"
        in elements
    )
    text = read_text(elements)
    assert "6 questions" in text
    assert "− 5 unknown, no passages" in text
    assert "= 1 right" in text


@needs_chromium
def test_questions_are_filtered_sorted_and_searched(page: Open) -> None:
    """By outcome, by text and by a metric; the number of questions that are left is shown."""
    assert "6 of 6 questions" in read_text(page(view="questions", a=A))
    right = read_text(page(view="questions", a=A, outcome="right"))
    assert "4 of 6 questions" in right
    assert re.findall(r"q\d", right) == ["q0", "q1", "q3", "q5"]
    assert re.findall(r"q\d", read_text(page(view="questions", a=A, search="q3"))) == ["q3"]
    tokens = page(view="questions", a=A, sort="tokens")
    assert re.findall(r"q\d", read_text(tokens)) == ["q5", "q4", "q3", "q2", "q1", "q0"]


@needs_chromium
def test_a_question_shows_how_it_was_answered(page: Open) -> None:
    """Contexts in prompt order with their marks, prompt and reply, the vote; text of passages is no
    markup.
    """
    elements = page(view="questions", a=A, id="q0")
    text = read_text(elements.replace("<b>not bold</b>", "NOT BOLD"))
    assert "[1] Emma rank 1, score 2.5 gold by its text has answer" in text
    assert "[3] Other not retrieved, log-weight -0.5" in text
    assert "<b>not bold</b> & more" in elements
    assert "Emma is by <mark>x</mark>." in elements
    assert "<user> same old line" in elements.replace("\n", " ")
    assert "7 tokens in, 1 out" in text
    assert "Trace: vote: x 2" in text
    assert 'data-answer="Bronte"' in elements
    assert "There is no question with the id q99" in read_text(
        page(view="questions", a=A, id="q99")
    )


@needs_chromium
def test_rounds_are_a_timeline(tmp_path: Path) -> None:
    """A line a round with the query, what came of it, and whether a search found an answer; one
    round needs none.
    """
    texts = Texts()
    query, reply = texts.encode("who wrote it", ()), texts.encode("by x", ())
    found = {"kind": "Search", "role": "search", "prompt": [("query", query)], "reply": reply}
    rounds = [[call(texts, "Q", "look")], [found], [call(texts, "Q", "x"), call(texts, "Q", "y")]]
    cases = {
        (n, "q0"): Case([], some, None, [], "x") for n, some in enumerate([rounds, rounds[:1]])
    }
    page = replace(build_page(), texts=texts, cases=cases)
    file = tmp_path / "index.html"
    file.write_text(page.render(), encoding="utf-8")
    text = read_text(open_page(file, view="questions", a=A, id="q0"))
    assert (
        "3 rounds Round 1 reader, generate look Round 2 search “who wrote it” → by x found an "
        "answer" in text
    )
    assert "Round 3 2 × reader, generate x | y" in text
    assert "1 round " not in read_text(open_page(file, view="questions", a=B, id="q0"))


@needs_chromium
def test_a_passage_can_be_switched_off(page: Open) -> None:
    """Two votes against one; without one of the two, the best-ranked of the equal ones wins, and
    without all it is unknown.
    """
    tied = page(view="questions", a=A, id="q0", off="0")
    assert 'data-answer="Austen"' in tied
    assert "Austen (a tie of 2: the answer of the passage with the better rank)" in read_text(tied)
    assert 'data-answer="Bronte"' in page(view="questions", a=A, id="q0", off="1")
    assert 'data-answer="unknown"' in page(view="questions", a=A, id="q0", off="0,1,2")


@needs_chromium
def test_two_cells_stand_side_by_side(page: Open) -> None:
    """Won, lost, both right, both wrong with McNemar's test (3 to 1: p = 0.625); prompts are
    compared line by line.
    """
    text = read_text(page(view="compare", a=A, b=B))
    assert (
        "A − B = +33.3 points of exact match: 3 won and 1 lost of 6 questions, p = 0.625 for these "
        "two cells alone" in text
    )
    assert (
        "EM: +33.3 [−45.3, +85.0], p = 1.000 after the correction for the 3 pairs of this page: "
        "not significant." in text
    )
    assert "1 both right 3 only A right 1 only B right 1 both wrong" in text
    assert re.findall(r"q\d", text) == ["q1", "q3", "q5"]
    assert re.findall(r"q\d", read_text(page(view="compare", a=A, b=B, group="B"))) == ["q4"]
    assert "1 of 3" in read_text(page(view="questions", a=A, b=B, id="q1"))
    both = page(view="questions", a=A, b=B, id="q0", group="AB")
    assert '<span class="added">+ new line' in both
    assert '<span class="removed">− old line' in both
    assert '<span class="added">+ y' in both
    assert "The calls cannot be shown, or so." in both


@needs_chromium
def test_three_cells_are_compared_in_pairs(page: Open) -> None:
    """Eight groups, whose questions are those of the letters; each pair has its tests; a question
    shows all three.
    """
    text = read_text(page(view="compare", a=A, b=B, c=CLOSED))
    for pair, points in (("A − B", "+33.3"), ("A − C", "+50.0"), ("B − C", "+16.7")):
        assert f"{pair} = {points} points of exact match: " in text
    groups = (
        "0 all right 1 A and B right 1 A and C right 2 only A right 0 B and C right 1 only B right "
        "0 only C right"
    )
    assert f"{groups} 1 all wrong" in text
    assert re.findall(r"q\d", text) == ["q1", "q3"]
    assert re.findall(r"q\d", read_text(page(view="compare", a=A, b=B, c=CLOSED, group="AC"))) == [
        "q5"
    ]
    question = read_text(page(view="questions", a=A, b=B, c=CLOSED, id="q1"))
    assert "1 of 2" in question
    assert question.count("Answer:") == 3


@needs_chromium
def test_only_answers_of_the_passages_that_are_left_are_candidates(tmp_path: Path) -> None:
    """Under marginalization, "b" is far more probable under every passage, but no longer an answer
    without its own.
    """
    ballots = [
        Ballot(0, "a", "A", -5.0),
        Ballot(1, "b", "B", -1.0),
        Ballot(0, "b", "B", -1.0, False),
        Ballot(1, "a", "A", -9.0, False),
    ]
    page = build_page()
    case = replace(page.cases[0, "q0"], tally=Tally("log-probabilities", False, ballots))
    file = tmp_path / "index.html"
    file.write_text(replace(page, cases={(0, "q0"): case}).render(), encoding="utf-8")
    assert 'data-answer="B"' in open_page(file, view="questions", a=A, id="q0")
    assert 'data-answer="A"' in open_page(file, view="questions", a=A, id="q0", off="1")


@needs_chromium
def test_cells_are_paired_by_question(tmp_path: Path) -> None:
    """The order of the rows does not matter."""
    turned = replace(CELLS[1], samples=list(reversed(CELLS[1].samples)))
    file = tmp_path / "index.html"
    file.write_text(replace(build_page([CELLS[0], turned]), cases={}).render(), encoding="utf-8")
    assert "1 both right 3 only A right 1 only B right 1 both wrong" in read_text(
        open_page(file, view="compare", a=A, b=B)
    )


@needs_chromium
def test_questions_without_answers_are_neither_right_nor_wrong(tmp_path: Path) -> None:
    """They are in no group, and in no test."""
    cells = [
        replace(
            cell,
            samples=[
                replace(one, question=replace(one.question, answers=())) if n < 2 else one
                for n, one in enumerate(cell.samples)
            ],
        )
        for cell in CELLS[:2]
    ]
    file = tmp_path / "index.html"
    file.write_text(replace(build_page(cells), cases={}).render(), encoding="utf-8")
    text = read_text(open_page(file, view="compare", a=A, b=B))
    assert "of 4 questions" in text
    assert sum(map(int, re.findall(r"(\d) (?:both|only) ", text))) == 4


@needs_chromium
def test_numbers_are_rounded_as_in_the_tables(tmp_path: Path) -> None:
    """An exact half to the even digit, as Python does: 1 of 16 is 6.25 %."""
    cells = [
        make_cell_result("a", 1, "retrieved", [1.0] + [0.0] * 15),
        make_cell_result("b", 1, "retrieved", [1.0] * 2 + [0.0] * 14),
    ]
    file = tmp_path / "index.html"
    file.write_text(replace(build_page(cells), cases={}).render(), encoding="utf-8")
    text = read_text(open_page(file, view="compare"))
    assert "EM: +6.2 [" in text
    assert " = +6.2 points" in text


@needs_chromium
def test_cells_of_other_questions_are_not_compared(tmp_path: Path) -> None:
    """The page says so, and computes no test."""
    other = replace(CELLS[1], labels=replace(CELLS[1].labels, questions="another selection"))
    file = tmp_path / "index.html"
    file.write_text(build_page([CELLS[0], other]).render(), encoding="utf-8")
    text = read_text(open_page(file, view="compare", a=A, b=B))
    assert "different selections of questions" in text
    assert "McNemar" not in text


def test_questions_with_prompts_are_chosen_by_what_they_show() -> None:
    """Disagreements first (q1, q3, q4, q5 and q0), then what all answer wrong (q2); the seed orders
    the groups.
    """
    cells = CELLS[:2]
    assert {name for _, name in choose_questions(cells, 4, 0)} == {"q1", "q3", "q4", "q5"}
    assert all(
        choose_questions(cells, 6, seed)[4:] == [("", "q2"), ("", "q0")] for seed in range(8)
    )
    assert choose_questions(cells, 6, 0) == choose_questions([cells[1], cells[0]], 6, 0)
    orders = {tuple(choose_questions(cells, 6, seed)) for seed in range(8)}
    assert len(orders) > 1
    assert choose_questions(cells, 0, 0) == []


def test_questions_of_other_selections_are_no_disagreement() -> None:
    """Two data sets share ids: only q3 of the first one is answered right by one cell alone."""
    cells = [
        replace(cell, labels=replace(cell.labels, questions=name))
        for name, ems in (("first", [1, 1, 1, 1]), ("first", [1, 1, 1, 0]), ("second", [0] * 4))
        for cell in [make_cell_result("a", 5, "retrieved", ems)]
    ]
    for seed in range(8):
        chosen = choose_questions(cells, 3, seed)
        assert chosen[0] == ("first", "q3")
        assert {selection for selection, _ in chosen[1:]} == {"second"}
        own = [question_id for _, question_id in chosen[1:]]
        assert list_chosen_ids(cells[2], chosen) == own
        assert list_chosen_ids(cells[0], chosen) == ["q3"]


def test_the_page_is_repeatable() -> None:
    """Equal inputs give equal bytes, so that a report does not change without a reason."""
    assert build_page().render() == build_page().render()


def test_every_value_stands_by_its_question() -> None:
    """Answers, values, positions and outcomes of a cell are in the order of its questions;
    undefined values are null.
    """
    data = build_page([CELLS[0], replace(CELLS[1], samples=CELLS[1].samples[::-1])])._build_data()
    assert [question[0] for question in data["questions"]] == [f"q{n}" for n in range(6)]
    for cell, source in zip(data["cells"], CELLS, strict=False):
        answers = {
            data["questions"][n][0]: data["answers"][a]
            for n, a in zip(cell["questions"], cell["answers"], strict=True)
        }
        assert answers == {
            sample.question.question_id: sample.prediction.answer for sample in source.samples
        }
        ems = {
            f"q{n}": value for n, value in zip(cell["questions"], cell["values"]["em"], strict=True)
        }
        assert ems == source.get_values("em")
        positions = {
            f"q{n}": value for n, value in zip(cell["questions"], cell["positions"], strict=True)
        }
        assert positions == {
            sample.question.question_id: sample.prediction.gold_position
            for sample in source.samples
        }
    assert data["cells"][1]["questions"] == [5, 4, 3, 2, 1, 0]
    pools = {
        f"q{n}": value
        for n, value in zip(
            data["cells"][0]["questions"], data["cells"][0]["values"]["nm_pool"], strict=True
        )
    }
    assert pools == {"q0": 0.0, "q1": 0.0, "q2": None, "q3": 0.0, "q4": None, "q5": 0.0}
    json.dumps(data["cells"], allow_nan=False)
