"""The closed-book filter of one reader for the sweeps of all readers, and questions
without labels.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import Run, overrides

from flows.gc import Use, _add_engines
from flows.project.artifacts import Project
from flows.project.cells import resolve_closed_book_artifact
from flows.project.checks import check_engines
from flows.project.models import resolve_generator_training, resolve_joint_models
from flows.project.shards import divide_limits
from flows.settings.door import compose
from flows.stages.registry import get_stage
from winnow.errors import ConfigError
from winnow.sweeps.shards import Shard
from winnow.testing.chat_server import ChatServer

KEY = "sk-winnow-test-0123456789abcdef"
SHARED = [
    "dataset=nq_open", "dataset.parser.path=x.jsonl", "reader@closed_book.reader=openai",
    "closed_book.reader.base=gpt-4-0613",
]  # fmt: skip


def test_one_reader_filters_the_questions_of_all(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """A server's answers without passages leave out questions for the local reader, and are those
    of its own sweeps.
    """
    server = ChatServer(reply=lambda prompt: "Mx Nelra" if "Arlen" in prompt else "x")
    with server.serve() as url:
        where = [f"base_url={url}", "api_key_variable=OPENAI_API_KEY"]
        shared = [
            "reader@closed_book.reader=openai",
            *(f"closed_book.reader.engine.{word}" for word in where),
        ]
        out = prepared("closed_book", *shared, OPENAI_API_KEY=KEY).stdout
        assert server.calls > 0
        calls = server.calls
        prepared("sweep", *shared, "k=2", "sweep.limit=null", OPENAI_API_KEY=KEY)
        prepared("report", *shared, "k=2", "sweep.limit=null", OPENAI_API_KEY=KEY)
        own = ["reader=openai", *(f"reader.engine.{word}" for word in where)]
        data = [word for word in overrides(world) if not word.startswith(("reader", "training"))]
        again = prepared("closed_book", *data, *own, small=False, OPENAI_API_KEY=KEY)
    assert server.calls == calls
    (folder,) = (tmp_path / "data/closed_book").glob("gpt-4o-mini-*")
    assert folder.name in out
    assert folder.name in again.stdout
    rows = pq.read_table(folder / "closed_book.parquet").to_pylist()
    dropped = {row["question_id"] for row in rows if not row["kept"]}
    (cell,) = (tmp_path / "data/predictions").iterdir()
    answered = {
        row["question_id"] for row in pq.read_table(cell / "predictions.parquet").to_pylist()
    }
    assert answered == {row["question_id"] for row in rows} - dropped
    assert "without those that gpt-4o-mini answers closed-book" in json.dumps(
        (tmp_path / "reports/towns/report.md").read_text()
    )


def test_labels_are_made_only_where_a_split_is_filtered(
    run: Run, world: Path, tmp_path: Path
) -> None:
    """A test set alone needs no index of the labeling retriever; its questions have no label."""
    words = [
        word
        for word in overrides(world)
        if "dataset.split" not in word and not word.startswith("training")
    ]
    for stage in ("corpus", "index", "questions"):
        out = run(stage, *words, "dataset.split.all=test", "retriever=dense", small=False).stdout
    assert "–" in out
    assert [folder.name.partition("-")[0] for folder in (tmp_path / "data/index").iterdir()] == [
        "dense"
    ]
    (file,) = (tmp_path / "data/questions").glob("*/questions.parquet")
    assert set(pq.read_table(file)["answerable"].to_pylist()) == {None}


def test_the_labeling_retriever_is_part_of_the_key_only_of_labels() -> None:
    """Without labels, the questions depend neither on it nor on the corpus."""
    keys = {
        Project(compose(["dataset=nq_open", "dataset.parser.path=x.jsonl", *words])).questions.key
        for words in (
            [],
            ["answerable=tantivy"],
            ["answerable=none"],
            ["answerable=retriever"],
            ["corpus=jsonl"],
        )
    }
    assert len(keys) == 1
    words = [
        "dataset.split.all=''",
        "+dataset.split.test=1",
        "dataset=nq_open",
        "dataset.parser.path=x.jsonl",
    ]
    options = ("bm25", "tantivy", "none", "retriever")
    labeled = {
        name: Project(compose([*words, f"answerable={name}", "retriever=tantivy"])).questions.key
        for name in options
    }
    assert len(set(labeled.values())) == 3
    assert labeled["tantivy"] == labeled["retriever"]
    stage = get_stage("questions")
    assert stage.list_needs(compose([*words, "answerable=none"])) == {"acquire"}
    assert stage.list_needs(compose(words)) == {"acquire", "index"}


def test_a_shared_reader_gives_every_sweep_the_same_filter() -> None:
    """The filter's key does not depend on the reader of the sweep."""
    words = [
        "reader=openai",
        "reader@closed_book.reader=openai",
        "closed_book.reader.base=gpt-3.5-turbo-16k",
    ]
    keys = {
        resolve_closed_book_artifact(Project(compose([*words, f"reader.base={name}"]))).key
        for name in ("gpt-4-0613", "gpt-3.5-turbo-16k")
    }
    own = resolve_closed_book_artifact(
        Project(compose(["reader=openai", "reader.base=gpt-3.5-turbo-16k"]))
    ).key
    assert keys == {own}


def test_shards_divide_the_budget_and_the_rate_of_the_shared_reader() -> None:
    """As those of every other engine."""
    limits = [
        "closed_book.reader.engine.budget.money=8",
        "closed_book.reader.engine.pacing.requests_per_minute=400",
    ]
    (cfg,) = divide_limits([compose([*SHARED, *limits])], Shard(1, 4))
    assert cfg.closed_book.reader is not None
    engine = cfg.closed_book.reader.engine
    assert (engine["budget"]["money"], engine["pacing"]["requests_per_minute"]) == (2, 100)


def test_calls_of_the_shared_reader_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`winnow gc` keeps them."""
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text('{"question": "Who?", "answer": ["Ada"]}\n')
    use = Use()
    words = [
        *SHARED,
        "reader=openai",
        "reader.base=gpt-4o-mini",
        "corpus=jsonl",
        "corpus.parser.path=x.jsonl",
    ]
    _add_engines(use, Project(compose([*words, "estimator=bi_encoder"])))
    assert any("gpt-4-0613" in engine for engine in use.engines)
    assert any("gpt-4o-mini" in engine for engine in use.engines)


def test_a_missing_key_of_the_shared_reader_is_found_before_a_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader of the sweep is yet to be trained, which hides no other engine."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        check_engines([compose(["reader=smollm2_tuned", *SHARED[2:]])])


def test_the_generator_of_another_training_is_trained_too() -> None:
    """A frozen teacher's estimator and RAG's generator: two trainings, of which shards make the
    teacher's calls.
    """
    pinned = [
        f"{name}=google-t5/t5-base@{'0' * 40}"
        for name in ("estimator.base", "generator.generator.path")
    ]
    words = [
        "estimator=t5",
        "joint=frozen",
        "joint@generator=rag",
        "prompt=t5",
        "training=none",
        *pinned,
    ]
    cfg = compose([*words, "reader=joint"])
    project = Project(cfg)
    stage = get_stage("train_joint")
    artifacts = list(stage.resolve(project))
    assert [artifact.folder.name.partition("-")[0] for artifact in artifacts] == ["frozen", "rag"]
    assert stage.resolve_made(project).key == artifacts[0].key == resolve_joint_models(project).key
    assert resolve_generator_training(project, cfg.reader).key == artifacts[1].key
    assert len(list(stage.resolve(Project(compose([*words, "reader=smollm2"]))))) == 1
