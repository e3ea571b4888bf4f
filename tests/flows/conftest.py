"""A small world for the flows: a corpus, questions and tiny models, made on the spot;
no network.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stage_process import run_stage

from winnow.testing import make_tiny_causal_lm, make_tiny_encoder
from winnow.tracking.stores import open_store

ROOT = Path(__file__).resolve().parents[2]
TOWNS = [
    "Arlen",
    "Bexley",
    "Corvo",
    "Dunmore",
    "Elsing",
    "Farrow",
    "Gatley",
    "Hexham",
    "Ilmen",
    "Jarrow",
    "Kelso",
    "Lydd",
]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def texts() -> list[tuple[str, str]]:
    """Three passages a town: its mayor, its river, and its trade."""
    return [
        (town, sentence)
        for n, town in enumerate(TOWNS)
        for sentence in (
            f"The mayor of {town} is Mx {town[::-1].title()} since {1990 + n}.",
            f"The river {town[:3]}wash flows by the old walls of {town}.",
            f"{town} trades in {['wool', 'salt', 'tin', 'oats'][n % 4]} and fish.",
        )
    ]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Input files and models."""
    folder = tmp_path_factory.mktemp("world")
    rows = [
        json.dumps({"_id": str(n), "title": title, "text": text})
        for n, (title, text) in enumerate(texts())
    ]
    (folder / "corpus.jsonl").write_text("\n".join(rows))
    questions = [
        {"question": f"Who is the mayor of {t}?", "answer": [f"Mx {t[::-1].title()}"]}
        for t in TOWNS
    ]
    questions += [
        {"question": f"Which river flows by {t}?", "answer": [f"{t[:3]}wash"]} for t in TOWNS
    ]
    questions += [
        {"question": f"What is the anthem of {t}?", "answer": ["nobody knows it"]} for t in TOWNS
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    body = [text for _, text in texts()]
    make_tiny_causal_lm(folder / "lm", body)
    make_tiny_encoder(folder / "encoder", body)
    return folder


def overrides(world: Path) -> list[str]:
    """The settings that put the small world in place of the quick start's."""
    return [
        "corpus=beir", "corpus.name=towns", f"corpus.parser.path={world}/corpus.jsonl",
        "dataset=nq_open", "dataset.name=towns", f"dataset.parser.path={world}/questions.jsonl",
        "dataset.split.all=''", "+dataset.split.test=14", "+dataset.split.dev=10",
        "+dataset.split.seed=1", "encoder=folder", f"encoder.model.path={world}/encoder",
        "encoder.model.dtype=float32", "reader=folder", "reader.name=tiny",
        f"reader.base={world}/lm", "reader.engine.dtype=float32", "reader.engine.runtime=torch",
        "reader.engine.batch_size=4", "training.mix.answered=6", "training.mix.unknown=4",
        "training.mix.crowded=2", "training.settings.precision=float32", "sweep.limit=10",
        "depth=20", "closed_book.limit=null",
    ]  # fmt: skip


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new MLflow store, which takes longer to make than many a stage."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    open_store(f"sqlite:///{path}")
    return path


@pytest.fixture
def run(world: Path, tmp_path: Path, store: Path) -> Run:
    """Run a flow in a folder with a new MLflow store as a user does, with the small world's
    settings and others.
    """
    shutil.copy(store, tmp_path)

    def call(
        stage: str, *arguments: str, check: bool = True, small: bool = True, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        flags = [word for word in arguments if word.startswith("-")]
        settings = [
            *(overrides(world) if small else []),
            *(word for word in arguments if not word.startswith("-")),
        ]
        if any(name.startswith("HF_") for name in env):  # read when huggingface_hub is imported
            command = [sys.executable, "-m", f"flows.{stage}", *flags, *settings]
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env=environment(**env),
                capture_output=True,
                text=True,
                check=False,
            )
        else:
            done = run_stage(stage, [*flags, *settings], tmp_path, environment(**env))
        if check and done.returncode:
            pytest.fail(
                f"{stage} {arguments} ended with "
                f"{done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )
        return done

    return call


def environment(**more: str) -> dict[str, str]:
    """The environment of a user's shell: the repository on the path, no Prefect server, no hub."""
    kept = {k: v for k, v in os.environ.items() if k != "PREFECT_API_URL"}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return {**kept, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "COLUMNS": "200", **more}


@pytest.fixture(scope="session")
def template(world: Path, store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the stages up to the sweep have run, with the untrained reader."""
    folder = tmp_path_factory.mktemp("template")
    shutil.copy(store, folder)
    for stage in ("corpus", "index", "questions", "retrieve", "closed_book"):
        run_stage(stage, overrides(world), folder, environment()).check_returncode()
    return folder


@pytest.fixture
def prepared(run: Run, template: Path, tmp_path: Path) -> Run:
    """Run flows in a copy of the template."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return run
