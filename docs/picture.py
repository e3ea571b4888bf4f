"""Takes the picture of the quick start's page, docs/page.png, and keeps the numbers that it shows
in docs/page.json.

    make demo && python docs/picture.py

It needs Chromium. tests/test_docs.py compares picture, numbers and the cells of the quick start.
"""

import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE, NUMBERS = ROOT / "docs/page.png", ROOT / "docs/page.json"
_SIZE = "1280,720"


def take(page: Path) -> None:
    """Take the picture of a page in a report's folder, and write the numbers of the report next to
    it.
    """
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        sys.exit("There is no Chromium here: apt-get install chromium")
    with tempfile.TemporaryDirectory() as profile:
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--virtual-time-budget=10000",
        ]
        view = [*flags, f"--window-size={_SIZE}", "--hide-scrollbars"]
        subprocess.run(
            [chromium, *view, f"--screenshot={PICTURE}", page.as_uri()],
            check=True,
            capture_output=True,
        )
        shown = subprocess.run(
            [chromium, *view, "--dump-dom", page.as_uri()],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    headline = re.search(r'<p class="answer">(.*?)</p>', shown)
    if headline is None:
        sys.exit(f"{page} shows no answer. Open it in a browser.")
    cells = json.loads((page.parent / "metrics.json").read_text())
    numbers = {
        "picture": hashlib.sha256(PICTURE.read_bytes()).hexdigest(),
        "headline": html.unescape(re.sub(r"<[^>]+>", "", headline[1])).replace("\u00a0", " "),
        "cells": {
            cell["cell"]: {"em": [round(value, 4) for value in cell["em"][:3]], "n": cell["em"][3]}
            for cell in cells
        },
    }
    NUMBERS.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    take((Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "reports/dvc/index.html").resolve())
