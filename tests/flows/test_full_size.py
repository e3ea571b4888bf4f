"""The full-size recipes of the papers' pages, from their first command to their last table, on
small files and models.

Files have the forms of the real ones, a hub on this machine has small models under the real names,
and servers of the protocols answer, so that only sizes differ. Commands are read from the pages.
"""

import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import toys
from conftest import ROOT, TOWNS, environment
from local_hub import serve_hub
from pages import list_commands

from winnow.testing.chat_server import ChatServer

TABLE = ROOT / "tests/data/experiments.csv"
SMALLER: dict[str, list[tuple[str, list[str]]]] = {
    "re_rag": [
        (
            "",
            [
                "joint.settings.epochs=1",
                "joint.data.contexts=4",
                "joint.data.dev_contexts=5",
                "joint.settings.batch_questions=2",
            ],
        ),
        (
            "",
            [
                "joint.settings.accumulation=1",
                "estimator.engine.runtime=torch",
                "decoding.max_new_tokens=4",
            ],
        ),
        ("published_fid|table7|published_rag|figure2|table6", ["sweep.limit=2"]),
        ("published_fid|published_rag", ["k=25"]),
        (
            "published_table7",
            [
                "generator.settings.epochs=1",
                "generator.data.contexts=4",
                "generator.data.dev_contexts=5",
            ],
        ),
        (
            "published_table7",
            ["generator.settings.batch_questions=2", "generator.settings.accumulation=1"],
        ),
        ("published_table6", ["reader.engine.base_url={api}"]),
    ],
    "post_fusion": [
        (
            "",
            [
                "corpus.asset.address={hub}/site/psgs_w100.tsv.gz",
                "dataset.asset.address={hub}/site/biencoder-nq-dev.json.gz",
            ],
        ),
        ("", ["depth=20", "closed_book.reader.engine.base_url={api}"]),
        ("^(?!.*reader=folder)", ["reader.engine.base_url={api}"]),
        (
            "reader=folder",
            ["reader.engine.runtime=torch", "decoding.max_new_tokens=4", "sweep.limit=4"],
        ),
        ("figure[1345]|table2", ["sweep.limit=4"]),
        ("figure[14]", ["grid.k=[2,3]"]),
        ("figure5", ["grid.decoding.samples=[1,3]"]),
    ],
    "citations": [
        ("published_ppo|published_sft_ppo", ["corpus.sources.nq.asset.address={hub}/site/nq.zip"]),
        (
            "published_ppo|published_sft_ppo",
            ["corpus.sources.hotpotqa.asset.address={hub}/site/hotpotqa.zip"],
        ),
        (
            "published_ppo|published_sft_ppo",
            ["dataset.parser.split.test=4", "training.mix.examples=4", "method.quantize=none"],
        ),
        (
            "published_ppo|published_sft_ppo",
            ["method.lora_rank=2", "training.settings.batch_questions=2"],
        ),
        (
            "published_ppo|published_sft_ppo",
            ["training.settings.precision=float32", "training.decoding.max_new_tokens=8"],
        ),
        (
            "published_sft_ppo",
            ["training.start.settings.quantize=none", "training.start.settings.lora_rank=2"],
        ),
        (
            "published_sft_ppo",
            ["training.start.settings.precision=float32", "training.start.settings.epochs=1"],
        ),
        (
            "published_sft_ppo",
            [
                "training.start.teacher.reader.engine.base_url={api}",
                "training.start.evaluation.limit=2",
            ],
        ),
        (
            "published_(table1|figure2|sft) ",
            [f"{group}.asset.address={{hub}}/site/nq.zip" for group in ("corpus", "dataset")],
        ),
        (
            "published_sft ",
            [
                "dataset.split.test=4",
                "training.settings.quantize=none",
                "training.settings.lora_rank=2",
            ],
        ),
        ("published_sft ", ["training.settings.precision=float32", "training.settings.epochs=1"]),
        ("published_sft ", ["training.teacher.reader.engine.base_url={api}"]),
        (
            "published_",
            [
                "reader.engine.runtime=torch",
                "reader.engine.dtype=float32",
                "decoding.max_new_tokens=8",
            ],
        ),
        ("published_", ["encoder.model.dtype=float32", "pipeline.goal=report"]),
    ],
    "corrective": [
        ("", ["rewriter.engine.base_url={api}", "search.engine.api.url={hub}/site/search.json"]),
        (
            "",
            ["search.engine.pages.allow_private=true", "depth=10"],
        ),
        ("biography", ["judge.engine.base_url={api}", "decoding.max_new_tokens=12"]),
    ],
}
"""Settings that are added to the commands of a page that match, to make them small or to name the
servers.
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files and models of all recipes."""
    folder = tmp_path_factory.mktemp("full_size")
    site, data = folder / "site", folder / "data"
    site.mkdir()
    data.mkdir()
    toys.make_models(folder / "models", folder / "own")
    toys.make_fid(data / "nq")
    toys.make_dpr(site)
    toys.make_beir(site)
    toys.make_crag(data)
    return folder


def read_recipe(page: str) -> str:
    """Return the block of commands of a page that this test runs."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    (block,) = re.findall(
        r"<!-- not run: [^>]*test_full_size.py[^>]* -->\n```sh\n(.*?)^```",
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
    return block


def make_small(page: str, words: list[str], files: Path, addresses: dict[str, str]) -> list[str]:
    """Return the words of a command with the paths of the small files, and with further
    settings.
    """
    line = " ".join(words) + " "
    more = [
        word.format(**addresses)
        for pattern, added in SMALLER[page]
        if re.search(pattern, line)
        for word in added
    ]
    named = [
        re.sub(
            "=/(data|models)/", lambda m: f"={files}/{'own' if m[1] == 'models' else m[1]}/", word
        )
        for word in words
    ]
    return [*named, *more]


@contextmanager
def serve(files: Path) -> Iterator[dict[str, str]]:
    """Run the hub and the server of chat models; yield their addresses."""
    chat = ChatServer(reply=answer)
    with serve_hub(files) as hub, chat.serve() as api:
        toys.make_web(files / "site", hub)
        yield {"hub": hub, "api": api}


def answer(prompt: str) -> str:
    """Reply as a model might that knows the towns."""
    town = next((name for name in TOWNS if name in prompt), "")
    return f"Mx {town[::-1].title()} [1]" if town else "unknown"


def run(commands: list[list[str]], files: Path, folder: Path, hub: str) -> list[dict[str, Any]]:
    """Run commands in a folder with the hub on this machine; return what each printed."""
    (folder / "commands.json").write_text(json.dumps(commands))
    keys = dict.fromkeys(("OPENAI_API_KEY", "SERPER_API_KEY"), "sk-winnow-test-0123456789abcdef")
    hub_settings = {"HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0", "HF_HOME": str(files / "cache")}
    script = Path(__file__).with_name("run_commands.py")
    done = subprocess.run(
        [sys.executable, str(script), "commands.json", str(folder), "results.json"],
        cwd=folder,
        env=environment(**keys, **hub_settings),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    results: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())
    return results


def count_expected_cells(experiment: str) -> Counter[str]:
    """Return the number of cells of each strategy of an experiment, by the committed table of
    settings.
    """
    rows = csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())
    return Counter(row["strategy.name"] for row in rows if row["experiment"] == experiment)


@pytest.mark.slow
@pytest.mark.parametrize("page", list(SMALLER))
def test_a_recipe_runs_from_its_first_command_to_its_last_table(
    page: str, files: Path, tmp_path: Path
) -> None:
    """Every command ends well; the reports have the cells of the committed table of settings,
    beside the paper's values.
    """
    expanded = list_commands(read_recipe(page), tmp_path)
    with serve(files) as addresses:
        commands = []
        for command in expanded:
            module = command.index("-m") + 1
            commands.append(
                [
                    command[module].removeprefix("flows."),
                    *make_small(page, command[module + 1 :], files, addresses),
                ]
            )
        results = run(commands, files, tmp_path, addresses["hub"])
    last = results[-1]
    assert not last["status"], f"{last['stage']} {' '.join(last['words'])}\n{last['text'][-3000:]}"
    assert len(results) == len(commands)
    if os.environ.get("WINNOW_SHOW_TIMES"):
        print(
            "\n".join(
                f"{r['seconds']:.1f} s {r['stage']} {' '.join(r['words'][:2])}" for r in results
            )
        )
    for stage, *words in commands:
        experiment = next(
            (word.partition("=")[2] for word in words if word.startswith("experiment=")), ""
        )
        changed = any(word.startswith(("grid={strategy", "sweep.name")) for word in words)
        if stage == "pipeline" and not changed:
            (file,) = (tmp_path / "reports").glob(f"{experiment}/metrics.json")
            cells = Counter(cell["strategy"] for cell in json.loads(file.read_text()))
            assert cells == count_expected_cells(experiment), experiment
            assert (
                "## Beside the paper" in file.with_name("report.md").read_text()
                or experiment in WITHOUT_VALUES
            )


WITHOUT_VALUES = ("rage/published_figure2", "rage/published_ppo", "rage/published_sft_ppo")
"""Experiments whose values the paper does not print, or prints for other questions."""
