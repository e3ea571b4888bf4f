"""The page in a real browser: small cells, their page, and its views as text."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import pytest

from winnow.metrics.base import Sample
from winnow.reports.cells import CellResult
from winnow.reports.family import Family
from winnow.reports.page.cases import Case, Texts
from winnow.reports.page.page import Page
from winnow.reports.page.tallies import Ballot, Tally
from winnow.reports.report import build_report
from winnow.testing import make_cell_result

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: apt-get install chromium"
)
A, B, CLOSED = "post_fusion k=5 retrieved", "concatenation k=5 gold_first", "closed_book k=0 none"
Open = Callable[..., str]
_SCRIPT = """<script>
(async () => {
  const wait = (time) => new Promise((done) => setTimeout(done, time));
  while (!cells) await wait(50);
  const click = (name) => {  // at once: the time of the page does not wait for files
    const { Blob } = window, { createObjectURL } = URL, saved = [];
    const { click } = HTMLAnchorElement.prototype;
    window.Blob = function (parts) { saved.push(parts.join("")); };
    URL.createObjectURL = () => "#";
    HTMLAnchorElement.prototype.click = function () { saved.unshift(this.download); };
    const link = [...document.querySelectorAll("a")].find((one) => one.textContent === name);
    link.dispatchEvent(new MouseEvent("click", { cancelable: true, bubbles: true }));
    Object.assign(window, { Blob });
    Object.assign(URL, { createObjectURL });
    Object.assign(HTMLAnchorElement.prototype, { click });
    return saved;
  };
  const returned = await (async () => { BODY })();
  document.body.dataset.returned = encodeURIComponent(JSON.stringify(returned));
})();</script>"""


def at_positions(cell: CellResult, positions: Sequence[int]) -> CellResult:
    samples: list[Sample] = [
        replace(sample, prediction=replace(sample.prediction, gold_position=position))
        for sample, position in zip(cell.samples, positions, strict=True)
    ]
    return replace(cell, samples=samples)


CELLS = [
    at_positions(
        make_cell_result("post_fusion", 5, "retrieved", [1, 1, 0, 1, 0, 1]), [1, 1, 1, 2, 0, 2]
    ),
    at_positions(
        make_cell_result("concatenation", 5, "gold_first", [1, 0, 0, 0, 1, 0]), [1, 1, 3, 0, 1, 3]
    ),
    make_cell_result("closed_book", 0, "none", [0, 0, 0, 0, 0, 1]),
]
BALLOTS = [
    Ballot(1, "austen", "Austen", 1.0),
    Ballot(0, "bronte", "Bronte", 1.0),
    Ballot(2, "bronte", "Bronte", 1.0),
]


def call(texts: Texts, prompt: str, reply: str) -> dict[str, object]:
    return {
        "kind": "Generate",
        "role": "reader",
        "prompt": [("user", texts.encode(prompt, ()))],
        "reply": texts.encode(reply, ()),
        "tokens": [7, 1],
    }


def build_page(cells: Sequence[CellResult] = CELLS) -> Page:
    """A page with prompts of the question q0 in two cells."""
    texts = Texts(passages=[("Emma", "Emma is by x."), ("Other", "<b>not bold</b> & more")])
    contexts = [
        [0, 1, 2.5, None, 0.0, 1, 1],
        [1, 2, 1.5, 0.3, 0.0, 0, 0],
        [1, 0, None, None, -0.5, 0, 0],
    ]
    first = Case(
        contexts,
        [[call(texts, "same\nold line", "x")]],
        Tally("votes", False, BALLOTS),
        ["vote: x 2"],
        "x",
    )
    second = Case(
        contexts,
        [[call(texts, "same\nnew line", "y")]],
        None,
        [],
        "y",
        "The calls cannot be shown, or so.",
    )
    cases = {(0, "q0"): first, (1, "q0"): second}
    family = Family(cells, 0)
    report = replace(
        build_report("Winnow: <test>", family, {"Data": "small & made up"}), notes=["Take care."]
    )
    return Page(report, family, texts, cases)


def open_page(
    file: Path,
    query: str = "",
    begin: str = "<main",
    size: str = "1280,800",
    milliseconds: int = 5000,
    **state: str,
) -> str:
    """Return the elements of a view; the console must be quiet, and nothing be loaded from a
    network.
    """
    assert CHROMIUM is not None
    net = file.with_suffix(".net.json")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += [
        f"--window-size={size}",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
        "--disable-ipc-flooding-protection",  # tests open many addresses
        f"--user-data-dir={file.parent / 'profile'}",
    ]
    done = subprocess.run(
        [
            CHROMIUM,
            *flags,
            f"--virtual-time-budget={milliseconds}",
            "--enable-logging=stderr",
            f"--log-net-log={net}",
            "--dump-dom",
            f"{file.as_uri()}{query}#{urlencode(state)}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    urls = {
        entry.get("params", {}).get("url", "")
        for entry in json.loads(net.read_text())["events"]
        if entry.get("params")
    }
    assert {url for url in urls if url.startswith("http") and "google" not in url} == set()
    return html.unescape(done.stdout.partition(begin)[2].partition("<footer")[0])


def run_script(page: Page, folder: Path, script: str, **state: str) -> Any:
    """Return what the body of an asynchronous function returns in a page, which it may change.

    `wait` waits for milliseconds, and `click` returns the name and text of what a link saves.
    """
    file = folder / "script.html"
    text = page.render().replace("</body>", _SCRIPT.replace("BODY", script) + "</body>")
    file.write_text(text, encoding="utf-8")
    elements = open_page(file, begin="<body", milliseconds=20_000, **state)
    match = re.search('data-returned="([^"]*)"', elements)
    assert match is not None, "the script failed"
    return json.loads(unquote(match[1]))


def read_text(elements: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", elements).split())


def count_marks(elements: str, kind: str) -> int:
    """Count the marks of a chart, which name themselves for screen readers."""
    return len(re.findall(rf'aria-roledescription="{kind}"', elements))
