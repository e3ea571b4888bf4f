"""Mutated files of every public format: each is read, or refused with a named error; nothing else is ever raised.

`WINNOW_FUZZ=1000000 pytest tests/fuzzing` runs the long profile.
"""

import gzip
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))
from inputs import FILES, write_files

from winnow.corpora.beir import BeirCorpus
from winnow.corpora.dpr_tsv import DprTsv
from winnow.corpora.fid_json import FidCorpus
from winnow.corpora.plain_text import PlainText
from winnow.corpora.summaries_json import SummariesJson
from winnow.corpora.wiki_extracts import WikiExtracts
from winnow.datasets.beir import BeirQueries
from winnow.datasets.dpr_biencoder import DprBiencoder
from winnow.datasets.dpr_tsv import DprQuestions
from winnow.datasets.fid_json import FidQuestions
from winnow.datasets.nq_open import NqOpen
from winnow.datasets.popqa import PopQa
from winnow.datasets.red_trivia import RedTrivia
from winnow.datasets.squad import Squad
from winnow.datasets.triviaqa import TriviaQa
from winnow.errors import WinnowError
from winnow.records import Passage, Question

CASES = int(os.environ.get("WINNOW_FUZZ", "2000"))
"""Mutated files, over all formats."""
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
    "nq.jsonl": lambda folder: NqOpen(f"{folder}/nq.jsonl"),
    "nq.jsonl.gz": lambda folder: NqOpen(f"{folder}/nq.jsonl.gz"),
    "popqa.tsv": lambda folder: PopQa(f"{folder}/popqa.tsv"),
    "red/general.yaml": lambda folder: RedTrivia(f"{folder}/red", lists=["general"]),
    "squad.json": lambda folder: Squad(f"{folder}/squad.json"),
    "trivia.json": lambda folder: TriviaQa(f"{folder}/trivia.json"),
    "fid/test.json": lambda folder: FidQuestions(f"{folder}/fid"),
    "fid/test.json ": lambda folder: FidCorpus(f"{folder}/fid/test.json"),
}
_TOKENS = [
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"null", b"true", b"NaN", b"1e400", b"-1", b'""', b"[]", b"{}", b"[[", b'"', b"\\",
    b"\t", b"\n", b"\r\n", b"\n\n\n", b"'", b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"\\ud800", "\u00e9".encode("utf-16"),
    b"!!python/object:x.y {}", b"&a [*a, *a]", b"- " * 50,
]  # fmt: skip


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return the content with up to four random changes."""
    mutated = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(mutated) + 1)
        match rng.randrange(7):
            case 0 if mutated:
                mutated[at % len(mutated)] ^= 1 << rng.randrange(8)
            case 1:
                del mutated[at : at + rng.randint(1, 20)]
            case 2:
                mutated[at:at] = rng.choice(_TOKENS)
            case 3:
                mutated[at : at + rng.randint(1, 12)] = rng.choice(_TOKENS)
            case 4:
                del mutated[at:]
            case 5:
                start = rng.randrange(len(mutated) + 1)
                mutated[at:at] = mutated[start : start + 40]
            case _ if rng.random() < 0.2:
                mutated = bytearray(bytes(mutated).decode(errors="replace").encode(rng.choice(["utf-16", "utf-8-sig"])))
    return bytes(mutated)


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_is_read_or_refused_by_name(name: str) -> None:
    """Records of text only, or an error of ours with the file's name."""
    rng = random.Random(name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_files(Path(temporary))
        file = folder / name.strip()
        content = file.read_bytes()
        for case in range(max(1, CASES // len(FORMATS))):
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
                assert str(folder) in str(error), (mutated, error)  # noqa: PT017 (errors are allowed, not required)
            except Exception as error:
                pytest.fail(f"case {case}: {type(error).__name__}: {str(error)[:200]}\n{mutated[:300]!r}")
