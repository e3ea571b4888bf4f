"""Mixtures of relevant, irrelevant and seemingly relevant documents, in which a reader has to find
what it cites (RAGE, 3.1).

A mixture is a ranking whose order is the order of the prompt, so that it is stored once and every
reader sees the same documents in the same order. Its documents are drawn from three maps of each
question, which are built or read from files.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol

from annotated_types import Ge

from winnow.artifacts.files import atomic_write
from winnow.errors import ConfigError, InputError
from winnow.formats.rage import RelevanceMap, read_maps
from winnow.identity.markers import InputFile, SearchOnly
from winnow.identity.values import check_values
from winnow.protocols import PassageSource, Retriever, Searcher
from winnow.records import Hit, Question
from winnow.text.containment import has_answer

if TYPE_CHECKING:
    import pyarrow as pa

Exclusion = Literal["none", "distant", "all"]
"""Questions whose passages with an answer are neither irrelevant nor seemingly relevant."""

_BATCH = 10_000
"""Number of passages that are written to the texts at once."""


@dataclass(frozen=True, slots=True)
class Maps:
    """The map of a question, with the similarity of the documents that have one."""

    documents: RelevanceMap
    scores: dict[str, float]


class MapReader(Protocol):
    """Maps that are open for reading."""

    def find(self, questions: Sequence[Question]) -> list[Maps]:
        """Return the maps of each question."""
        ...


class MapSource(Protocol):
    """Builds the maps of a corpus in a folder and opens them."""

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Write what the maps need to the folder."""
        ...

    def open(self, folder: Path) -> MapReader:
        """Open what `build` has written."""
        ...


@dataclass(frozen=True, slots=True)
class NeighborMaps:
    """Maps by an encoder: a question's nearest non-relevant neighbors are seemingly relevant.

    Relevant are the annotated gold passages or, without any, the retrieved passages with an answer
    (distant labels). For vectors of unit length, the order by inner product equals RAGE's by L2
    distance.

    Args:
        retriever: Retriever of the neighbors.
        neighbors: Number of seemingly relevant passages (RAGE: 10).
        irrelevant: Number of irrelevant passages, which are drawn at random from the rest of the
            corpus.
        depth: Number of retrieved passages among which distant labels and neighbors are found.
        exclude_answers: Questions whose passages with an answer count as neither irrelevant nor
            seemingly relevant: "distant" (those without annotated passages), "all", or "none".
        seed: Seed of the random draws, which also depend on the question.
    """

    revision: ClassVar[int] = 1

    retriever: Retriever
    neighbors: Annotated[int, Ge(0), SearchOnly] = 10
    irrelevant: Annotated[int, Ge(0), SearchOnly] = 10
    depth: Annotated[int, SearchOnly] = 100
    exclude_answers: Annotated[Exclusion, SearchOnly] = "distant"
    seed: Annotated[int, Ge(0), SearchOnly] = 13

    def __post_init__(self) -> None:
        check_values("retriever.engine.maps", self)
        if self.depth <= self.neighbors:
            raise ConfigError(
                f"A map's depth must be above its number of neighbors; received {self.depth} and "
                f"{self.neighbors}."
            )

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Build the index of the retriever, and a memory-mapped table of all passages."""
        import pyarrow as pa

        from winnow.artifacts.parquet import batched

        self.retriever.build(passages, folder / "neighbors")
        schema = pa.schema([("passage_id", pa.string()), ("text", pa.string())])
        with (
            atomic_write(folder / "passages.arrow") as partial,
            pa.ipc.new_file(partial, schema) as writer,
        ):
            for batch in batched(passages(), _BATCH):
                columns = [
                    [passage.passage_id for passage in batch],
                    [passage.text for passage in batch],
                ]
                writer.write_batch(
                    pa.record_batch([pa.array(column, pa.string()) for column in columns], schema)
                )

    def open(self, folder: Path) -> MapReader:
        """Open the index and the table of passages, with memory mapping."""
        import pyarrow as pa

        table = pa.ipc.open_file(pa.memory_map(str(folder / "passages.arrow"))).read_all()
        return _NeighborReader(self, self.retriever.open(folder / "neighbors"), table)


@dataclass(frozen=True, slots=True)
class _NeighborReader:
    """The open index of neighbors, with the ids and texts of all passages."""

    settings: NeighborMaps
    searcher: Searcher
    passages: pa.Table

    def find(self, questions: Sequence[Question]) -> list[Maps]:
        """Return the maps of each question."""
        rankings = self.searcher.search(questions, self.settings.depth)
        texts = self._find_texts({hit.passage_id for hits in rankings for hit in hits})
        return [
            self._build_maps(question, hits, texts)
            for question, hits in zip(questions, rankings, strict=True)
        ]

    def _find_texts(self, ids: Collection[str]) -> dict[str, str]:
        """Return the texts of passages by id."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.passages.filter(
            pc.is_in(self.passages["passage_id"], pa.array(sorted(ids), pa.string()))
        )
        return dict(zip(rows["passage_id"].to_pylist(), rows["text"].to_pylist(), strict=True))

    def _build_maps(self, question: Question, hits: Sequence[Hit], texts: dict[str, str]) -> Maps:
        settings = self.settings
        holders = [
            hit.passage_id for hit in hits if has_answer(texts[hit.passage_id], question.answers)
        ]
        relevant = question.gold_passage_ids or tuple(holders)
        excludes = settings.exclude_answers == "all" or (
            settings.exclude_answers == "distant" and not question.gold_passage_ids
        )
        excluded_ids = {*relevant, *(holders if excludes else ())}
        nearest = [hit.passage_id for hit in hits if hit.passage_id not in excluded_ids][
            : settings.neighbors
        ]
        irrelevant = self._draw_irrelevant(question, {*excluded_ids, *nearest}, excludes=excludes)
        scores = {hit.passage_id: hit.score for hit in hits if hit.score is not None}
        return Maps(RelevanceMap(tuple(relevant), irrelevant, tuple(nearest)), scores)

    def _draw_irrelevant(
        self, question: Question, excluded: Collection[str], *, excludes: bool
    ) -> tuple[str, ...]:
        """Draw passages at random that are not excluded and, if asked for, hold no answer."""
        rng = random.Random(f"{self.settings.seed}/irrelevant/{question.question_id}")
        count = len(self.passages)
        sample: list[str] = []
        for row in rng.sample(
            range(count), min(count, len(excluded) + 10 * self.settings.irrelevant)
        ):
            passage_id, text = (self.passages[name][row].as_py() for name in ("passage_id", "text"))
            if len(sample) == self.settings.irrelevant:
                break
            if passage_id not in excluded and not (excludes and has_answer(text, question.answers)):
                sample.append(passage_id)
        return tuple(sample)


@dataclass(frozen=True, slots=True)
class PublishedMaps:
    """Maps that are read from RAGE's files, by the id of the question.

    The files have no similarities. Seemingly relevant documents, which are listed in them by
    similarity, get the reciprocal of their rank.

    Args:
        path: Folder of the files.
    """

    path: Annotated[str, InputFile]

    def build(self, passages: PassageSource, folder: Path) -> None:  # noqa: ARG002 (the protocol)
        """Create an empty folder, because the files take the place of an index."""
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, folder: Path) -> MapReader:  # noqa: ARG002 (the protocol)
        """Read the maps."""
        return _PublishedReader(self.path, read_maps(Path(self.path)))


@dataclass(frozen=True, slots=True)
class _PublishedReader:
    """The maps of the files in the folder `path`, by question id."""

    path: str
    maps: dict[str, RelevanceMap]

    def find(self, questions: Sequence[Question]) -> list[Maps]:
        """Return the maps of each question; raise InputError if the files lack one."""
        missing_question = next(
            (question for question in questions if question.question_id not in self.maps), None
        )
        if missing_question is not None:
            raise InputError(
                f"The maps in {self.path} have no document for question "
                f"{missing_question.question_id!r} "
                f"({missing_question.text!r}). The questions and the maps must come from the same "
                "files."
            )
        document_maps = [self.maps[question.question_id] for question in questions]
        return [
            Maps(m, {doc: 1 / rank for rank, doc in enumerate(m.seemingly_relevant, start=1)})
            for m in document_maps
        ]


@dataclass(frozen=True, slots=True)
class Mixture:
    """A retriever whose ranking of a question is a shuffled mixture of the documents of its maps.

    Irrelevant documents have no score, and seemingly relevant ones have one. Readers are not told;
    metrics are. A question has fewer documents of a kind if its map has fewer, as if a common word
    is its answer, so that every neighbor holds it.

    Args:
        maps: Source of the maps.
        relevant: Maximum number of relevant documents (RAGE's "1-3" is 3). Annotated ones are drawn
            at random; of those with distant labels, the nearest are taken.
        irrelevant: Number of irrelevant documents.
        seemingly_relevant: Number of seemingly relevant documents, drawn at random from the map.
        seed: Seed of the draws and of the order, which also depend on the question.
    """

    revision: ClassVar[int] = 1
    uses_gold: ClassVar[bool] = True
    """Its documents are those that the labels call relevant, irrelevant and seemingly relevant."""
    needs_questions: ClassVar[bool] = True

    maps: MapSource
    relevant: Annotated[int, Ge(0), SearchOnly] = 3
    irrelevant: Annotated[int, Ge(0), SearchOnly] = 3
    seemingly_relevant: Annotated[int, Ge(0), SearchOnly] = 3
    seed: Annotated[int, Ge(0), SearchOnly] = 13

    def __post_init__(self) -> None:
        check_values("retriever.engine", self)
        if not self.size:
            raise ConfigError("The counts of a mixture must not be all 0.")

    @property
    def size(self) -> int:
        """Return the maximum number of documents."""
        return self.relevant + self.irrelevant + self.seemingly_relevant

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Build the maps."""
        folder.mkdir(parents=True, exist_ok=True)
        self.maps.build(passages, folder)

    def open(self, folder: Path) -> Searcher:
        """Open the maps."""
        return _MixtureSearcher(self, self.maps.open(folder))


@dataclass(frozen=True, slots=True)
class _MixtureSearcher:
    """A mixture with its open maps."""

    mixture: Mixture
    maps: MapReader

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the mixture of each question, which must not be longer than `depth`."""
        if depth < self.mixture.size:
            raise ConfigError(
                f"depth={depth} would cut mixtures of up to {self.mixture.size} documents. Set "
                "depth to at least that number."
            )
        return [
            self._mix(question, maps)
            for question, maps in zip(questions, self.maps.find(questions), strict=True)
        ]

    def _mix(self, question: Question, maps: Maps) -> list[Hit]:
        """Draw and shuffle the mixture of one question."""
        mixture, documents = self.mixture, maps.documents
        rng = random.Random(f"{mixture.seed}/mixture/{question.question_id}")
        relevant = list(documents.relevant)
        if question.gold_passage_ids:
            rng.shuffle(relevant)
        hits = [
            Hit(passage_id, maps.scores.get(passage_id))
            for passage_id in relevant[: mixture.relevant]
        ]
        seemingly = [doc for doc in documents.seemingly_relevant if doc not in documents.relevant]
        sample = _draw(rng, seemingly, mixture.seemingly_relevant)
        hits += [Hit(passage_id, maps.scores[passage_id]) for passage_id in sample]
        related_ids = {*documents.relevant, *documents.seemingly_relevant}
        irrelevant = [doc for doc in documents.irrelevant if doc not in related_ids]
        hits += [Hit(passage_id, None) for passage_id in _draw(rng, irrelevant, mixture.irrelevant)]
        rng.shuffle(hits)
        return hits


def _draw(rng: random.Random, available: Sequence[str], count: int) -> list[str]:
    """Draw up to `count` documents."""
    return rng.sample(available, min(count, len(available)))
