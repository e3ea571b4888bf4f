"""BM25 retrieval with Tantivy, whose index is built in bounded memory and stays on the disk."""

from __future__ import annotations

import hashlib
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from winnow.artifacts.files import atomic_write
from winnow.artifacts.parquet import batched
from winnow.artifacts.provenance import CONTENT_DIGEST
from winnow.errors import ConfigError
from winnow.identity.markers import SpeedOnly
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Question
from winnow.retrievers.passage_ids import PassageIds, write_passage_ids

if TYPE_CHECKING:
    import tantivy

_ANALYZER = "winnow"
_PASSAGES_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class Tantivy:
    """BM25 over title and text by Tantivy, with stop words and Snowball stemming.

    Tantivy's k1 = 1.2 and b = 0.75 are fixed. Its inverse document frequency is Lucene's, and it
    stores a passage's length in one byte, as Lucene does, so that scores differ slightly from those
    of bm25s with the same k1 and b.

    Args:
        language: Language of the stop words and the stemmer.
        writer_megabytes: Memory in which new parts of the index are collected before they are
            written.
    """

    revision: ClassVar[int] = 2

    language: str = "english"
    writer_megabytes: Annotated[int, SpeedOnly("all parts are searched as one index")] = 128

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Index the corpus in one thread. A digest of the texts stands for Tantivy's files, whose
        names are random.
        """
        index_folder = folder / "index"
        with atomic_write(index_folder) as partial:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            index = self._open_index(partial)
            writer = index.writer(heap_size=self.writer_megabytes * 2**20, num_threads=1)
            digest = hashlib.sha256()
            count = write_passage_ids(
                partial / "passage_ids.arrow", self._add(writer, passages, digest)
            )
            if count == 0:
                raise ConfigError(
                    "The corpus is empty, so that no index can be built. Choose a corpus with "
                    "passages."
                )
            writer.commit()
            writer.wait_merging_threads()
            (partial / CONTENT_DIGEST).write_text(digest.hexdigest() + "\n")
            for lock in partial.glob(".tantivy-*.lock"):
                lock.unlink()

    def open(self, folder: Path) -> Searcher:
        """Open the index as memory maps."""
        index = self._open_index(folder / "index")
        return _TantivySearcher(
            index, self._build_analyzer(), PassageIds(folder / "index" / "passage_ids.arrow")
        )

    def _add(
        self, writer: tantivy.IndexWriter, passages: PassageSource, digest: hashlib._Hash
    ) -> Iterator[list[str]]:
        """Add all passages, to the digest too, and yield their ids in batches."""
        import tantivy

        row = 0
        for batch in batched(passages(), _PASSAGES_AT_ONCE):
            for passage in batch:
                document = tantivy.Document()
                text = unicodedata.normalize("NFC", f"{passage.title} {passage.text}")
                digest.update(
                    f"{len(passage.passage_id)}:{passage.passage_id}{len(text)}:{text}".encode(
                        "utf-8", "surrogatepass"
                    )
                )
                document.add_text("text", text)
                document.add_unsigned("row", row)
                writer.add_document(document)
                row += 1
            yield [passage.passage_id for passage in batch]

    def _open_index(self, folder: Path) -> tantivy.Index:
        """Open the index in a folder, or begin one if the folder is empty."""
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", tokenizer_name=_ANALYZER, index_option="freq")
        schema.add_unsigned_field("row", fast=True)
        index = tantivy.Index(schema.build(), path=str(folder))
        index.register_tokenizer(_ANALYZER, self._build_analyzer())
        return index

    def _build_analyzer(self) -> tantivy.TextAnalyzer:
        """Return the analyzer of passages and questions.

        Raises:
            ConfigError: If Tantivy has no stop words or no stemmer for the language.
        """
        import tantivy

        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(
            tantivy.Filter.lowercase()
        )
        try:
            for build_filter in (tantivy.Filter.stopword, tantivy.Filter.stemmer):
                builder = builder.filter(build_filter(self.language))
        except ValueError as error:
            raise ConfigError(
                f"retriever.engine.language={self.language!r} is not supported by Tantivy "
                f"({error})."
            ) from error
        return builder.build()


@dataclass(frozen=True, slots=True)
class _TantivySearcher:
    """An open index, whose field `row` is the row of the passage's id."""

    index: tantivy.Index
    analyzer: tantivy.TextAnalyzer
    passage_ids: PassageIds

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return up to `depth` passages per question that share a term with it, best first."""
        searcher = self.index.searcher()
        return [self._search_one(searcher, question, depth) for question in questions]

    def _search_one(self, searcher: tantivy.Searcher, question: Question, depth: int) -> list[Hit]:
        import tantivy

        schema = self.index.schema
        terms: list[tuple[Any, Any]] = [
            (
                tantivy.Occur.Should,
                tantivy.Query.term_query(schema, "text", term, index_option="freq"),
            )
            for term in self.analyzer.analyze(unicodedata.normalize("NFC", question.text))
        ]
        if not terms:
            return []
        query, limit = tantivy.Query.boolean_query(terms), depth
        while True:  # all ties at the cut are needed: Tantivy's order of them is that of its parts
            hits = searcher.search(query, limit=limit, count=False).hits
            if len(hits) < limit or hits[-1][0] < hits[depth - 1][0]:
                break
            limit *= 4
        rows = searcher.fast_field_values("row", [address for _, address in hits])
        scored_rows: list[tuple[Any, Any]] = [
            (score, row) for (score, _), row in zip(hits, rows, strict=True)
        ]
        scored_rows.sort(key=lambda pair: (-pair[0], pair[1]))
        return [Hit(self.passage_ids.get(row), float(score)) for score, row in scored_rows[:depth]]
