"""The start page: links to the sweeps' pages, newest first, to MLflow and to Prefect."""

import json
import os
import re
from pathlib import Path

from flows.tools.start_page import write_start_page


def test_every_page_of_a_sweep_is_linked(tmp_path: Path) -> None:
    """At any depth, but no other page; names are text, whatever they contain."""
    for number, (folder, name) in enumerate(
        (("quick_start", "quick_start"), ("crag/table 1%23", "a <b> & c"))
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "index.html").touch()
        os.utime(tmp_path / folder / "index.html", (1e9 + number, 1e9 + number))
        owner = {"sweep": name, "dataset": "trivia", "corpus": "vital"}
        (tmp_path / folder / "sweep.json").write_text(json.dumps(owner))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/index.html").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/index.html").touch()
    (tmp_path / "foreign/sweep.json").write_text('{"method": "grid"}')
    for _ in range(2):
        page = write_start_page(
            tmp_path,
            "http://127.0.0.1:5000",
            {"quick_start": "http://127.0.0.1:5000/#/experiments/1"},
        )
    text = page.read_text()
    assert re.findall(r'href="(?!data)([^"]*)"', text) == [
        "crag/table%201%2523/index.html", "quick_start/index.html", "http://127.0.0.1:5000", "http://127.0.0.1:5000/#/experiments/1",
        "http://127.0.0.1:4200",
    ]  # fmt: skip
    assert "a &lt;b&gt; &amp; c (crag/table 1%23)" in text
    assert "trivia, vital" in text


def test_without_a_page_it_says_how_to_write_one(tmp_path: Path) -> None:
    """The folder need not exist."""
    assert (
        "python -m flows.report"
        in write_start_page(tmp_path / "reports", "http://127.0.0.1:5000", {}).read_text()
    )
