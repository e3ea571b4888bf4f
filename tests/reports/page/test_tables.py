"""Tables of the page: sorted, and saved as they are shown; and the numbers of their texts."""

import csv
import json
from pathlib import Path

from tests.reports.page.page_browser import build_page, needs_chromium, run_script
from winnow.metrics.comparisons import format_p
from winnow.text.containment import has_answer

_SORT = """
const sort = (values, isDescending) =>
  sortRows(values.map((value) => [value]), 0, isDescending).map((row) => row[0]);
const numbers = ["– (20)", "10.0 [1, 20]", "not reported", "5.0", "–", "90.0 (9/10)"];
const chosen = [null, 0.5].map(chooseConfidence({ confidence: "0.000000300000-100" }));
return {
  up: sort(numbers, false), down: sort(numbers, true),
  words: sort(["b", "not run", "a", "–"], false),
  p: [0.0494, 0.0495, 0.04995, 0.04999, 0.05].map(formatP),
  chosen, saved: click("save as CSV")[1].split("\\n")[0],
};"""


@needs_chromium
def test_rows_are_sorted_and_saved_as_they_are_shown(tmp_path: Path) -> None:
    """Numbers by their value, undefined ones last; a CSV has the columns that one chose."""
    page = build_page()
    table = page.report.tables[0]
    found = run_script(page, tmp_path, _SORT, view="tables", table="0", hide="1")
    numbers, undefined = ["5.0", "10.0 [1, 20]", "90.0 (9/10)"], ["– (20)", "not reported", "–"]
    assert found["up"] == [*numbers, *undefined]
    assert found["down"] == [*reversed(numbers), *undefined]
    assert found["words"] == ["a", "b", "not run", "–"]
    p_values = (0.0494, 0.0495, 0.04995, 0.04999, 0.05)
    assert found["p"] == [f"p = {format_p(p)}" for p in p_values]
    assert found["chosen"] == [False, True]
    columns = [name for index, name in enumerate(table.columns) if index != 1]
    assert next(csv.reader([found["saved"]])) == columns


@needs_chromium
def test_answers_are_marked_as_whole_words(tmp_path: Path) -> None:
    """Where `has_answer` finds them, in any script and with any spaces."""
    cases = [
        ("телефон звонит", "он"), ("Éric was here", "ric"), ("the München trip", "nchen"),
        ("Peña is here", "Pe"), ("东京是首都", "首都"), ("new  york", "new york"), ("он", "Он"),
        ("it is (a) b", "(a)"), ("5 a/b", "a/b"),
    ]  # fmt: skip
    has_marks = "([text, answer]) => markAnswers(text, [answer]).length > 1"
    script = f"return {json.dumps(cases)}.map({has_marks});"
    found = run_script(build_page(), tmp_path, script)
    assert found == [has_answer(text, [answer]) for text, answer in cases]
    assert found == [False] * 5 + [True] * 4
