"""Each view of the page at the sizes of two screens, in a real browser."""

import json
import re
from pathlib import Path

import pytest

from tests.reports.page.page_browser import CELLS, A, B, build_page, needs_chromium, open_page
from tests.reports.page.test_curves import with_votes

LOOK = """<script>
(async () => {
  const found = {}, wait = (time) => new Promise((done) => setTimeout(done, time));
  await wait(800);
  for (const address of %s) {
    location.hash = address;
    const isChart = /answer|explore/.test(address);
    const isMissing = () => isChart && !document.querySelector("#chart svg.marks");
    for (let n = 0; n < 40 && (n < 2 || isMissing()); n++) await wait(50);
    await wait(100);
    const bottom = document.getElementById("chart")?.getBoundingClientRect().bottom ?? 0;
    found[address] = [document.documentElement.scrollWidth - innerWidth, Math.round(bottom)];
  }
  document.body.dataset.found = JSON.stringify(found);
})();</script>"""
CHARTS = ("dots", "lines", "difference", "matrix", "cost", "coverage", "calibration", "confidence")
VIEWS = [
    "view=answer", *(f"view=explore&kind={kind}" for kind in CHARTS), "view=outcomes",
    "view=questions", f"view=questions&a={A}&id=q0", f"view=questions&a={A}&b={B}&id=q0",
    f"view=compare&a={A}&b={B}", "view=tables", "view=tables&table=1", "view=about",
]  # fmt: skip
"""Addresses of all views and charts."""


@needs_chromium
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
def test_every_view_fits_the_screen(tmp_path: Path, width: int, height: int) -> None:
    """No view is wider than the window, and the answer's chart is on the first screen."""
    file = tmp_path / "index.html"
    text = build_page([with_votes(CELLS[0]), *CELLS[1:]]).render()
    file.write_text(text.replace("</body>", LOOK % json.dumps(VIEWS) + "</body>"), encoding="utf-8")
    body = open_page(file, begin="<body", size=f"{width},{height}", milliseconds=30_000)
    match = re.search(r"data-found=\"(\{.*?\})\"", body)
    assert match is not None
    found = json.loads(match[1])
    assert found.keys() == set(VIEWS)
    assert {address: overflow for address, (overflow, _) in found.items() if overflow > 0} == {}
    assert 200 < found["view=answer"][1] <= height
