"""Every choice of every menu of the charts draws something or says why not, and leaves the reader
where they were.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

from tests.reports.page.page_browser import (
    CELLS,
    CLOSED,
    build_page,
    needs_chromium,
    open_page,
    read_text,
)
from tests.reports.page.test_curves import with_votes

WALK = """<script>
(async () => {
  const wait = (time) => new Promise((done) => setTimeout(done, time)), faults = [];
  let numDrawn = 0, numTold = 0;
  await wait(800);
  const open = async (address) => {
    location.hash = address;
    await wait(20);
    const chart = document.getElementById("chart");
    for (let n = 0; n < 40 && !chart.textContent; n++) await wait(20);
    const svg = chart.querySelector("svg.marks");
    if (svg) numDrawn += 1; else numTold += 1;
    const isLarge = svg && !(svg.getBoundingClientRect().height < 3000);
    if (isLarge || /cannot be drawn/.test(chart.textContent)) faults.push(address);
  };
  for (const kind of Object.keys(listKinds())) {
    const start = `#view=explore&kind=${kind}`;
    await open(start);
    const selects = [...document.querySelectorAll(".controls select")];
    for (const select of selects) for (const option of [...select.options]) {
      if (select.name === "Chart") continue;
      await open(start);
      const own = [...document.querySelectorAll(".controls select")]
        .find((one) => one.name === select.name);
      own.value = option.value;
      own.dispatchEvent(new Event("change"));
      await open(location.hash);
    }
  }
  await open("#view=explore&kind=lines");
  document.querySelector("select[name=Panels]").focus();
  await open("#view=explore&kind=lines&facet=-");
  const focus = document.activeElement.name, title = document.title;
  document.body.dataset.found = JSON.stringify({ faults, numDrawn, numTold, focus, title });
})();</script>"""


@needs_chromium
def test_every_choice_is_drawn_or_explained(tmp_path: Path) -> None:
    """Panels by k, cells without passages alone, costs that no cell has; after a choice, the focus
    stays on its menu.
    """
    file = tmp_path / "index.html"
    more = [
        replace(CELLS[0], labels=replace(CELLS[0].labels, k=1)),
        with_votes(CELLS[0]),
        *CELLS[1:],
    ]
    text = build_page(more).render()
    file.write_text(text.replace("</body>", WALK + "</body>"), encoding="utf-8")
    match = re.search(
        r"data-found=\"(\{.*?\})\"", open_page(file, begin="<body", milliseconds=120_000)
    )
    assert match is not None
    found = json.loads(match[1])
    assert found["faults"] == []
    assert found["numDrawn"] > 100
    assert found["numTold"] < found["numDrawn"] / 4
    assert (found["focus"], found["title"]) == ("Panels", "Charts · Winnow: <test>")


@needs_chromium
def test_a_choice_that_the_page_does_not_have_is_named(tmp_path: Path) -> None:
    """In place of a chart of other cells than the address says; panels by a number say
    what it is.
    """
    cells = [replace(CELLS[0], labels=replace(CELLS[0].labels, k=k)) for k in (1, 5)]
    (tmp_path / "index.html").write_text(build_page([*cells, CELLS[2]]).render(), encoding="utf-8")
    wrong = read_text(open_page(tmp_path / "index.html", view="explore", **{"only k": "3"}))
    assert "The address says only k=3, which this page does not have. It has 1, 5." in wrong
    panels = read_text(open_page(tmp_path / "index.html", view="explore", facet="k"))
    assert "k = 1" in panels
    alone = read_text(
        open_page(
            tmp_path / "index.html", view="explore", **{"only strategy": CLOSED.partition(" ")[0]}
        )
    )
    assert CLOSED.partition(" ")[0] in alone


PROBE = """<script>
setTimeout(() => {
  const marks = [...document.querySelectorAll("svg.marks .mark-symbol path")];
  const styles = marks.map((mark) => getComputedStyle(mark));
  const fills = styles.map((one) => `${one.fill} ${one.stroke}`);
  const rows = ["100.0", "– (0)", "90.0"].map((text) => [text]);
  const orders = [false, true].map((isDescending) => sortRows(rows, 0, isDescending).flat());
  document.body.dataset.found = JSON.stringify({ fills, orders });
}, 1500);</script>"""


@needs_chromium
def test_cells_without_passages_have_a_color_and_undefined_values_are_last(tmp_path: Path) -> None:
    """Where settings vary, which cells without passages do not have; no question, no number."""
    cells = [
        replace(
            cell,
            labels=replace(
                cell.labels, setting=f"retriever={name}", varying=(("retriever", name),)
            ),
        )
        for cell, name in zip([CELLS[0], CELLS[0]], ("bm25", "dense"), strict=True)
    ]
    text = build_page([*cells, CELLS[2]]).render()
    file = tmp_path / "index.html"
    file.write_text(text.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    page = open_page(
        file, begin="<body", view="explore", kind="cost", color="strategy and settings"
    )
    match = re.search(r"data-found=\"(\{.*?\})\"", page)
    assert match is not None
    found = json.loads(match[1])
    assert len(found["fills"]) >= 3
    assert "none none" not in found["fills"]
    assert found["orders"] == [["90.0", "100.0", "– (0)"], ["100.0", "90.0", "– (0)"]]
