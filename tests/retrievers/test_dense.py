"""Dense retrieval."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from winnow.errors import ConfigError
from winnow.identity.markers import get_search_only_settings
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.protocols import VectorSearcher
from winnow.records import Passage
from winnow.retrievers.dense import Dense
from winnow.retrievers.dense_on_disk import DenseOnDisk
from winnow.testing import PASSAGES, make_question

QUESTIONS = [
    make_question("Which rivers flow in France?", question_id="1"),
    make_question("What barks?", question_id="2"),
]


def source() -> Iterator[Passage]:
    return iter(PASSAGES)


@pytest.mark.parametrize("factory", ["Flat", "HNSW16"])
def test_dense_equals_brute_force(tmp_path: Path, encoder: SentenceEncoder, factory: str) -> None:
    """The index ranks by inner product of the vectors."""
    dense = Dense(encoder, factory, block_size=3)
    dense.build(source, tmp_path)
    hits = dense.open(tmp_path).search(QUESTIONS, 4)
    scores = (
        encoder.encode_queries([q.text for q in QUESTIONS]) @ encoder.encode_passages(PASSAGES).T
    )
    expected = [[PASSAGES[n].passage_id for n in row] for row in np.argsort(-scores, axis=1)]
    assert [[hit.passage_id for hit in hits] for hits in hits] == expected
    assert not (tmp_path / "vectors").exists()


def test_dense_goes_on_from_the_shards_that_are_there(
    tmp_path: Path, encoder: SentenceEncoder
) -> None:
    """A killed run's vectors are not encoded again."""

    class KilledError(Exception):
        pass

    def breaks_off() -> Iterator[Passage]:
        yield from PASSAGES[:3]
        raise KilledError

    with pytest.raises(KilledError):
        Dense(encoder, block_size=2).build(breaks_off, tmp_path)
    kept = tmp_path / "vectors" / "00000.npy"
    before = kept.stat().st_mtime_ns
    dense = Dense(encoder, block_size=2)
    assert dense.build_blocks(source, tmp_path, lambda number: number == 0) == [kept]
    assert kept.stat().st_mtime_ns == before
    dense.build(source, tmp_path)
    assert len(dense.open(tmp_path).search(QUESTIONS, 4)[0]) == 4


def test_dense_refuses_bad_factories(tmp_path: Path, encoder: SentenceEncoder) -> None:
    """A string FAISS does not know, and more lists than passages, with advice."""
    with pytest.raises(ConfigError, match="not a FAISS factory string"):
        Dense(encoder, "Nonsense").build(source, tmp_path / "1")
    with pytest.raises(ConfigError, match="Use fewer inverted lists"):
        Dense(encoder, "IVF64,Flat").build(source, tmp_path / "2")
    with pytest.raises(ConfigError, match="corpus is empty"):
        Dense(encoder).build(lambda: iter(()), tmp_path / "3")


def test_settings_of_the_index_make_another_one_and_settings_of_the_search_do_not() -> None:
    """Numbers of lists to visit are no part of an index; none of the numbers may be 0."""
    assert get_search_only_settings(Dense) == ["nprobe", "ef_search"]
    for name in ("nprobe", "ef_search", "max_training_vectors", "block_size"):
        with pytest.raises(
            ConfigError, match=f"retriever.engine.{name} must be at least 1; received 0"
        ):
            Dense(SentenceEncoder("x"), **{name: 0})  # type: ignore[arg-type]


def test_gpus(
    tmp_path: Path,
    encoder: SentenceEncoder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a GPU the setting is refused; a kind of index that GPUs lack stays on the CPU, and
    says so.
    """
    faiss = pytest.importorskip("faiss")
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    with pytest.raises(ConfigError, match="build_on_gpu=true, but FAISS sees no GPU"):
        Dense(encoder, build_on_gpu=True).build(source, tmp_path / "none")

    def refuse(index: object) -> object:
        raise RuntimeError("Error in cloner\nGpuIndexHNSW is not implemented")

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", refuse)
    monkeypatch.setattr(faiss, "index_gpu_to_cpu", lambda index: index, raising=False)
    dense = Dense(encoder, "HNSW16", gpu=True, build_on_gpu=True)
    dense.build(source, tmp_path / "hnsw")
    hits = dense.open(tmp_path / "hnsw").search(QUESTIONS, 4)
    message = (
        "FAISS cannot search IndexHNSWFlat on a GPU; it stays on the CPU (GpuIndexHNSW is not "
        "implemented)."
    )
    assert caplog.text.count(message) == 2
    plain = Dense(encoder, "HNSW16")
    assert hits == plain.open(tmp_path / "hnsw").search(QUESTIONS, 4)


@pytest.mark.parametrize(
    ("factory", "name"),
    [
        ("IVF2,Flat", "nprobe"),
        ("PCA4,IVF2,Flat", "nprobe"),
        ("IVF2,SQ8,RFlat", "nprobe"),
        ("OPQ4,IVF2,Flat,RFlat", "nprobe"),
        ("PCA4,HNSW4", "efSearch"),
    ],
)
def test_search_parameters_reach_wrapped_indexes(
    tmp_path: Path, encoder: SentenceEncoder, factory: str, name: str
) -> None:
    """FAISS would else search them with its own, under the label of ours."""
    faiss = pytest.importorskip("faiss")
    index = faiss.index_factory(8, factory, faiss.METRIC_INNER_PRODUCT)
    Dense(encoder, factory, nprobe=7, ef_search=9)._set_search_parameters(index)
    found: set[int] = set()
    inner = index  # which keeps the ones inside
    while inner is not None:
        inner = faiss.downcast_index(inner)
        parts = (inner, getattr(inner, "hnsw", None))
        found |= {getattr(part, name) for part in parts if hasattr(part, name)}
        inner = getattr(inner, "base_index", None) or getattr(inner, "index", None)
    assert found == {7 if name == "nprobe" else 9}


def test_search_parameters_reach_every_gpu(
    tmp_path: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are set before the index is copied to the GPUs, whose common wrapper has no parameters
    of its own.
    """
    faiss = pytest.importorskip("faiss")
    moved: list[int] = []
    kept: list[object] = []

    def copy(index: object) -> object:
        moved.append(faiss.extract_index_ivf(index).nprobe)
        replicas = faiss.IndexReplicas(index.d)  # type: ignore[attr-defined]
        replicas.add_replica(index)
        kept.append(index)  # FAISS keeps only its address
        return replicas

    Dense(encoder, "IVF2,Flat").build(source, tmp_path)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", copy)
    hits = Dense(encoder, "IVF2,Flat", nprobe=2, gpu=True).open(tmp_path).search(QUESTIONS, 4)
    assert moved == [2]
    assert [len(ranking) for ranking in hits] == [4, 4]


@pytest.mark.parametrize("kind", [Dense, DenseOnDisk])
def test_a_search_averages_the_vectors_of_a_query_and_texts(
    tmp_path: Path, encoder: SentenceEncoder, kind: type[Dense | DenseOnDisk]
) -> None:
    """The query as a query and the texts as passages; a query without texts is searched for as it
    is.
    """
    kind(encoder).build(source, tmp_path)
    searcher = kind(encoder).open(tmp_path)
    assert isinstance(searcher, VectorSearcher)
    texts = ["The Seine flows through Paris.", "Dogs bark."]
    (averaged,) = searcher.search_averages([("What barks?", texts)], 4)
    vectors = [
        encoder.encode_queries(["What barks?"]),
        encoder.encode_passages([Passage("", "", text) for text in texts]),
    ]
    scores = encoder.encode_passages(PASSAGES) @ np.concatenate(vectors).mean(axis=0)
    found = {hit.passage_id: hit.score for hit in averaged}
    expected = {
        passage.passage_id: float(score) for passage, score in zip(PASSAGES, scores, strict=True)
    }
    assert found == pytest.approx({id_: expected[id_] for id_ in found}, abs=1e-2)
    assert found[averaged[0].passage_id] == max(found.values())
    plain, alone = (
        searcher.search(QUESTIONS[1:], 4),
        searcher.search_averages([("What barks?", ())], 4),
    )
    assert [hit.passage_id for hit in plain[0]] == [hit.passage_id for hit in alone[0]]


PAIRS = [
    ("What barks?", ["Dogs bark."]),
    ("Which rivers?", ()),
    ("capital", ["The Seine.", "Paris is large.", "Berlin"]),
]


def test_each_query_is_averaged_with_its_own_texts(encoder: SentenceEncoder) -> None:
    """Whatever their number is."""
    vectors = [
        [
            *encoder.encode_queries([query]),
            *encoder.encode_passages([Passage("", "", text) for text in texts]),
        ]
        for query, texts in PAIRS
    ]
    np.testing.assert_allclose(
        encoder.encode_averages(PAIRS), [np.mean(one, axis=0) for one in vectors], atol=1e-5
    )


@pytest.mark.parametrize("kind", [Dense, DenseOnDisk])
def test_searches_of_averages_together_are_those_alone(
    tmp_path: Path, encoder: SentenceEncoder, kind: type[Dense | DenseOnDisk]
) -> None:
    """Each has its own ranking."""
    kind(encoder).build(source, tmp_path)
    searcher: VectorSearcher = kind(encoder).open(tmp_path)  # type: ignore[assignment]
    for pair, together in zip(PAIRS, searcher.search_averages(PAIRS, 4), strict=True):
        (alone,) = searcher.search_averages([pair], 4)
        expected = {hit.passage_id: hit.score for hit in alone}
        assert {hit.passage_id: hit.score for hit in together} == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("depth", [1, 2, 4, 100])
def test_equal_passages_are_in_the_order_of_the_corpus(
    tmp_path: Path, encoder: SentenceEncoder, depth: int
) -> None:
    """At every depth, as with the other retrievers."""
    copies = [
        replace(passage, passage_id=f"{passage.passage_id}{n}")
        for passage in PASSAGES
        for n in range(3)
    ]
    Dense(encoder).build(lambda: iter(copies), tmp_path)
    (hits, _) = Dense(encoder).open(tmp_path).search(QUESTIONS, depth)
    best = hits[0].passage_id[0]
    assert [hit.passage_id for hit in hits[:3]] == [f"{best}{n}" for n in range(3)][:depth]
