"""Mutated files of every public format: each is read, or refused with a named error; nothing else
is ever raised.

`WINNOW_FUZZ=1000000 pytest tests/fuzzing` runs the long profile.
"""

import gzip
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inputs import FILES, write_files
from mutations import mutate

from winnow.corpora.beir import BeirCorpus
from winnow.corpora.crag import CragCorpus
from winnow.corpora.dpr_tsv import DprTsv
from winnow.corpora.fid_json import FidCorpus
from winnow.corpora.jsonl import JsonlCorpus
from winnow.corpora.plain_text import PlainText
from winnow.corpora.summaries_json import SummariesJson
from winnow.corpora.wiki_extracts import WikiExtracts
from winnow.datasets.arc import Arc
from winnow.datasets.beir import BeirQueries
from winnow.datasets.dpr_biencoder import DprBiencoder
from winnow.datasets.dpr_tsv import DprQuestions
from winnow.datasets.fid_json import FidQuestions
from winnow.datasets.hub import HubQuestions
from winnow.datasets.jsonl import JsonlQuestions
from winnow.datasets.nq_open import NqOpen
from winnow.datasets.popqa import PopQa
from winnow.datasets.pubhealth import PubHealth
from winnow.datasets.red_trivia import RedTrivia
from winnow.datasets.squad import Squad
from winnow.datasets.triviaqa import TriviaQa
from winnow.errors import WinnowError
from winnow.formats.trec import read_trec_run
from winnow.records import Passage, Question

CASES = int(os.environ.get("WINNOW_FUZZ", "2000"))
"""Mutated files, over all formats."""
_SLOW = ("hub.csv", "hub.json")
"""Formats that the `datasets` library reads, a file in a tenth of a second."""


def _read_run(path: Path) -> Iterator[Passage]:
    """Yield a passage for each hit of a run, with its question's id as the title."""
    for question_id, hits in read_trec_run(path).items():
        yield from (Passage(hit.passage_id, question_id, hit.passage_id) for hit in hits)


FORMATS: dict[str, Callable[[Path], Iterable[Any]]] = {
    "corpus.jsonl": lambda folder: BeirCorpus(f"{folder}/corpus.jsonl"),
    "psgs.tsv": lambda folder: DprTsv(f"{folder}/psgs.tsv"),
    "extracts/AA/wiki_00": lambda folder: WikiExtracts(f"{folder}/extracts", words=2),
    "texts/a.txt": lambda folder: PlainText(f"{folder}/texts", words=3),
    "summaries.json": lambda folder: SummariesJson(f"{folder}/summaries.json"),
    "queries.jsonl": lambda folder: BeirQueries(f"{folder}/queries.jsonl", f"{folder}/qrels.tsv"),
    "qrels.tsv": lambda folder: BeirQueries(f"{folder}/queries.jsonl", f"{folder}/qrels.tsv"),
    "biencoder.json": lambda folder: DprBiencoder(f"{folder}/biencoder.json"),
    "questions.tsv": lambda folder: DprQuestions(f"{folder}/questions.tsv"),
    "own.jsonl": lambda folder: JsonlQuestions(f"{folder}/own.jsonl", id="id"),
    "own.jsonl ": lambda folder: JsonlCorpus(f"{folder}/own.jsonl", title="title", id="id"),
    "nq.jsonl": lambda folder: NqOpen(f"{folder}/nq.jsonl"),
    "nq.jsonl.gz": lambda folder: NqOpen(f"{folder}/nq.jsonl.gz"),
    "arc.jsonl": lambda folder: Arc(f"{folder}/arc.jsonl"),
    "pubhealth.jsonl": lambda folder: PubHealth(f"{folder}/pubhealth.jsonl"),
    "popqa.tsv": lambda folder: PopQa(f"{folder}/popqa.tsv"),
    "red/general.yaml": lambda folder: RedTrivia(f"{folder}/red", lists=["general"]),
    "squad.json": lambda folder: Squad(f"{folder}/squad.json"),
    "trivia.json": lambda folder: TriviaQa(f"{folder}/trivia.json"),
    "fid/test.json": lambda folder: FidQuestions(f"{folder}/fid"),
    "hotpot.json": lambda folder: FidQuestions(f"{folder}/hotpot.json"),
    "musique.jsonl": lambda folder: FidCorpus(f"{folder}/musique.jsonl"),
    "crag.txt": lambda folder: CragCorpus(f"{folder}/crag.txt"),
    "run.trec": lambda folder: _read_run(Path(f"{folder}/run.trec")),
    "hub.csv": lambda folder: HubQuestions(
        "csv", "train", "key", options={"data_files": f"{folder}/hub.csv"}
    ),
    "hub.json": lambda folder: HubQuestions(
        "json", "train", "key", options={"data_files": f"{folder}/hub.json"}
    ),
    "chinese.txt": lambda folder: PlainText(f"{folder}/chinese.txt", words=3),
    "popqa.tsv ": lambda folder: PopQa(f"{folder}/popqa.tsv", views_below=100),
    "fid/test.json ": lambda folder: FidCorpus(f"{folder}/fid/test.json"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_is_read_or_refused_by_name(name: str) -> None:
    """Records of text only, or an error of ours with the file's name."""
    rng = random.Random(name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_files(Path(temporary))
        file = folder / name.strip()
        content = file.read_bytes()
        for case in range(max(1, CASES // len(FORMATS) // (20 if name in _SLOW else 1))):
            mutated = mutate(content, rng)
            if name.endswith(".gz") and case % 2:
                mutated = gzip.compress(mutate(FILES["nq.jsonl"].encode(), rng))
            file.write_bytes(mutated)
            try:
                for record in FORMATS[name](folder):
                    assert isinstance(record, Passage | Question)
                    assert isinstance(record.text, str)
                    record.text.encode()
            except WinnowError as error:
                assert str(folder) in str(error), (  # noqa: PT017 (errors are allowed, not required)
                    mutated,
                    error,
                )
            except Exception as error:
                pytest.fail(
                    f"case {case}: {type(error).__name__}: {str(error)[:200]}\n{mutated[:300]!r}"
                )
