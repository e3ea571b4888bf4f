"""Keys of artifacts: what changes a result changes them, what only says how fast does not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from flows import _artifacts
from flows._conf import compose
from winnow.errors import ConfigError

Name = Callable[[DictConfig], _artifacts.Artifact]


def key(name: Name, *words: str) -> str:
    return name(compose(["sweep.closed_book_filter=false", *words])).key


@pytest.mark.parametrize(
    ("name", "word"),
    [
        (_artifacts.corpus, "corpus.asset.sha256=" + "0" * 64),
        (_artifacts.questions, "dataset.split.seed=2"),
        (_artifacts.questions, "answerable.depth=5"),
        (_artifacts.retrieval, "depth=50"),
        (_artifacts.retrieval, "retriever.engine.k1=1.2"),
        (_artifacts.relevance, "encoder.asset.sha256=" + "0" * 64),
        (_artifacts.relevance, "encoder.model.pooling=cls"),
        (_artifacts.trained_reader, "training.settings.batch_size=8"),
        (_artifacts.trained_reader, "training.mix.unknown=5"),
        (_artifacts.trained_reader, "prompt.system=Hello"),
        (_artifacts.trained_reader, "reader.asset.sha256=" + "0" * 64),
        (_artifacts.cell, "k=3"),
        (_artifacts.cell, "placement=gold_first"),
        (_artifacts.cell, "decoding.max_new_tokens=8"),
        (_artifacts.cell, "rank_by=estimator"),
        (_artifacts.cell, "revisions.retrieve=2"),
        (_artifacts.closed_book, "closed_book.limit=3"),
    ],
)
def test_what_changes_a_result_changes_the_key(name: Name, word: str) -> None:
    """Also where it is an input of an input."""
    assert key(name) != key(name, word)


def test_a_key_holds_the_precision_that_auto_stands_for_on_this_machine() -> None:
    """Which of the two it is, the processor says; a sweep in the other is another result."""
    single, half = (key(_artifacts.cell, f"reader.engine.dtype={dtype}") for dtype in ("float32", "bfloat16"))
    assert single != half
    assert key(_artifacts.cell) in {single, half}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        (_artifacts.cell, "reader.engine.device=cpu"),
        (_artifacts.cell, "reader.engine.batch_size=2"),
        (_artifacts.cell, "estimator.engine.scale=3"),
        (_artifacts.cell, "sweep.name=other"),
        (_artifacts.trained_reader, "training.settings.save_steps=7"),
        (_artifacts.trained_reader, "training.evaluation.limit=3"),
        (_artifacts.trained_reader, "retriever=dense"),
        (_artifacts.relevance, "+encoder.model.batch_tokens=100"),
    ],
)
def test_what_only_says_how_fast_or_what_else_does_not(name: Name, word: str) -> None:
    """So that another machine finds the same artifacts, and retrievers are compared with one reader."""
    assert key(name) == key(name, word)


def test_a_reader_trained_on_demonstrations_knows_whose_passages_they_show() -> None:
    """Another retriever draws others; without demonstrations it changes nothing."""
    shots = ["prompt=re_rag"]
    assert key(_artifacts.trained_reader, *shots) != key(_artifacts.trained_reader, *shots, "retriever=dense")
    assert key(_artifacts.cell, *shots) != key(_artifacts.cell, *shots, "prompt.shots.count=2")


def test_an_asset_without_hash_is_known_by_what_it_gave(tmp_path: Path) -> None:
    """A file: or hf: asset needs no sha256; its content decides."""
    asset = f"+corpus.asset={{address: 'file:{tmp_path}', path: '{tmp_path}'}}"
    words = ["corpus=plain_text", f"corpus.reader.path={tmp_path}", asset]
    (tmp_path / "a.txt").write_text("one")
    before = key(_artifacts.corpus, *words)
    (tmp_path / "a.txt").write_text("other")
    assert key(_artifacts.corpus, *words) != before


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    """A corpus folder whose text changes is another corpus, wherever it lies."""
    words = ["corpus=plain_text", f"corpus.reader.path={tmp_path}"]
    (tmp_path / "a.txt").write_text("one")
    before = key(_artifacts.corpus, *words)
    (tmp_path / "a.txt").write_text("two words")
    assert key(_artifacts.corpus, *words) != before


def test_a_trained_estimator_is_its_teachers_and_serves_any_reader() -> None:
    """Another reader, prompt or decoding of the sweep, or another precision or runtime of scoring, trains nothing anew."""
    words = ["estimator=cross_encoder"]
    scoring = ("estimator.engine.dtype=float32", "estimator.engine.runtime=torch")
    trained = key(_artifacts.joint, *words)
    for more in ("reader=openai", "prompt=t5", "decoding.max_new_tokens=4", *scoring):
        assert key(_artifacts.joint, *words, more) == trained
    for more in (
        "joint.teacher.decoding.max_new_tokens=4",
        "joint.teacher.prompt.system=Hello",
        "reader@joint.teacher.reader=smollm2",
        "joint.method.objective=paper",
        "estimator.engine.max_length=100",
        "training.mix.unknown=5",
    ):
        assert key(_artifacts.joint, *words, more) != trained
    assert key(_artifacts.relevance, *words) == key(_artifacts.relevance, *words, "reader=openai")
    by = {
        name: key(_artifacts.relevance, *words, f"estimator.engine.runtime={name}") for name in ("auto", "torch", "openvino")
    }
    assert by["auto"] == by["openvino"] != by["torch"]


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        (_artifacts.joint, [], "estimator=bi_encoder has nothing to train"),
        (_artifacts.relevance, ["estimator=cross_encoder", "joint=fid"], "joint=fid trains none"),
        (_artifacts.cell, ["estimator=t5", "reader=joint"], "joint=frozen makes none"),
    ],
)
def test_joint_settings_that_do_not_fit_are_refused(name: Name, words: list[str], message: str) -> None:
    """With what to choose instead."""
    with pytest.raises(ConfigError, match=message):
        key(name, *words)
