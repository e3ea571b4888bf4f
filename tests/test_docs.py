"""The commands of README and docs exist and take the settings that they name, and the site builds
without network.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from pages import PROGRAMS, list_commands, read_blocks

from flows.project.artifacts import Project
from flows.project.labels import build_labels
from flows.settings.door import compose
from flows.settings.overrides import complete_overrides

ROOT = Path(__file__).parents[1]
TUTORIAL = ("2_your_data", "3_your_reader", "4_your_strategy", "5_your_table")
PAGES = [
    "../README.md",
    *sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")),
]
WRITTEN_BY_A_PAGE = ("strategy=concatenation,second_opinion", "experiment=mine/table1")
"""Choices that a page of the tutorial creates before it uses them."""
RUN_BY_TESTS = ("dvc.md", "mlflow.md", "prefect.md", *(f"tutorial/{name}.md" for name in TUTORIAL))
"""Pages whose blocks are run as they stand, but for those that say why not."""
WITHOUT_SETTINGS = ("compose", "demo", "gc", "replay", "ui")
"""Flows that take no settings."""


def check_flow(module: str, words: list[str]) -> None:
    """Compose the settings of the command of a flow and check them; of a multirun, those of the
    first and of the last job.
    """
    assert find_spec(module), f"there is no {module}"
    if module.removeprefix("flows.") in WITHOUT_SETTINGS:
        return
    others = {"params.yaml", *WRITTEN_BY_A_PAGE}
    settings = [word for word in words if not word.startswith("-") and word not in others]
    for index in (0, -1) if "-m" in words else (0,):
        chosen = [pick(word, index) if "-m" in words else word for word in settings]
        check_words(
            tuple(chosen),
            grid="grid=True" in (ROOT / f"{module.replace('.', '/')}.py").read_text(),
        )


@cache
def check_words(words: tuple[str, ...], *, grid: bool) -> None:
    """Compose settings and check them, as the commands do."""
    compose(complete_overrides(words, grid=grid))


def pick(word: str, index: int) -> str:
    """Return a setting with one of its several values in a multirun."""
    name, _, value = word.partition("=")
    if "," not in value or value.startswith(("[", "{", "'")):
        return word
    return f"{name}={value.split(',')[index]}"


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_take_the_settings_that_they_name(page: str, tmp_path: Path) -> None:
    """Flows compose and check them; other programs have the file, the target or the command."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for command in list_commands("\n".join(read_blocks(page)), tmp_path):
        match command:
            case ["python", "-m", module, *words] if module.startswith("flows."):
                check_flow(module, words)
            case ["torchrun", _, "-m", module, *words]:
                check_flow(module, words)
            case ["python", "-m", module, *_] if module.startswith("bench."):
                assert find_spec(module)
            case ["make", *names]:
                assert {name for name in names if "=" not in name} <= targets
            case ["dvc", "repro", *files] if files:
                assert all((ROOT / file).is_file() for file in files if file.startswith("studies"))
            case _:
                assert command[0] in PROGRAMS


def test_a_block_of_commands_is_run_or_says_why_not() -> None:
    """Blocks that no test runs have a comment with the reason, and tests that it names exist."""
    for page in PAGES:
        reasons = re.findall(
            r"<!-- not run: ([^>]+) -->\n```sh", (ROOT / "docs" / page).read_text()
        )
        if page in RUN_BY_TESTS:
            continue
        assert len(reasons) == len(read_blocks(page)), page
        named = [
            name for reason in reasons for name in re.findall(r"tests/[\w/]+(?:\.py)?", reason)
        ]
        assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.slow
def test_the_site_builds_without_network(tmp_path: Path) -> None:
    """Strictly, that is, without a broken link; with every flow, choice and module; no page loads
    anything from a server.
    """
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stdout + done.stderr
    pages = {
        path.relative_to(tmp_path / "site").as_posix(): path.read_text()
        for path in (tmp_path / "site").rglob("*.html")
    }
    assert not [
        name
        for name, text in pages.items()
        if re.search(r"<(script|link|img)[^>]+(src|href)=\"https?://", text)
    ]
    assert "flows.traces" in pages["reference/commands.html"]
    settings = pages["reference/settings.html"]
    assert all(
        f"{group.name}={path.stem}" in settings
        for group in (ROOT / "conf").iterdir()
        if group.is_dir()
        for path in group.glob("*.yaml")
    )
    assert (
        "request an answer from each context" in pages["reference/python/strategies.html"].lower()
    )
    assert {f"tutorial/{number}" for number in range(1, 6)} <= {
        name[: len("tutorial/1")] for name in pages
    }
    index = json.loads((tmp_path / "site/search/search_index.json").read_text())
    assert len(index["docs"]) > 500


def test_the_picture_is_of_the_quick_start() -> None:
    """Its numbers are kept beside it: of the cells that the quick start has now, and of the demo
    where it was run.
    """
    numbers = json.loads((ROOT / "docs/page.json").read_text())
    assert (
        hashlib.sha256((ROOT / "docs/page.png").read_bytes()).hexdigest() == numbers["picture"]
    ), "run docs/picture.py"
    labels = [
        build_labels(cell, Project(cell)) for cell in compose(["experiment=quick_start"]).cells
    ]
    assert set(numbers["cells"]) == {f"{label.line} k={label.k} {label.gold}" for label in labels}
    best = max(
        (cell["em"] for name, cell in numbers["cells"].items() if name.endswith("retrieved")),
        key=lambda em: em[0],
    )
    mean, low, high = (f"{100 * value:.1f}" for value in best)
    assert f"{mean} % [{low}, {high}]" in numbers["headline"]
    made = ROOT / "reports/dvc/metrics.json"
    found = json.loads(made.read_text()) if made.is_file() else []
    for cell in (
        found if {cell["cell"] for cell in found} == numbers["cells"].keys() else ()
    ):  # not another sweep's
        _, low, high = numbers["cells"][cell["cell"]]["em"]
        assert low <= cell["em"][0] <= high, "the demo has other results: run docs/picture.py"
