"""The reader of Fusion-in-Decoder."""

from pathlib import Path

import pytest

from winnow.errors import ConfigError
from winnow.modeling.fid import decode_answer, generate_fused
from winnow.readers.fid import FidReader
from winnow.readers.seq2seq import Seq2SeqReader
from winnow.records import Decoding
from winnow.requests import FusedGenerate, Generate, Likelihood, Message, Request, Tool
from winnow.testing import make_tiny_t5

TEXTS = [
    "question: who? context: Ada wrote it.",
    "question: who? context: Bob read all of the long book.",
    "question: who?",
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> FidReader:
    """A reader of a tiny T5."""
    folder: Path = make_tiny_t5(tmp_path_factory.mktemp("fid") / "t5", TEXTS)
    return FidReader(name="tiny", path=str(folder), dtype="float32", device="cpu")


def fused(*texts: str, **settings: object) -> FusedGenerate:
    """A request in which each text is encoded separately."""
    return FusedGenerate(
        tuple(Message("user", text) for text in texts), Decoding(max_new_tokens=6, **settings)
    )  # type: ignore[arg-type]


def test_each_message_is_encoded_separately(reader: FidReader) -> None:
    """As `generate_fused` does with the rows of token ids; requests of different numbers of
    messages share a batch.
    """
    requests = [fused(*TEXTS[:2]), fused(TEXTS[2])]
    items = [reader.encode(request) for request in requests]
    replies = reader.generate(items)
    rows = [
        [reader.lm.tokenizer(message.content)["input_ids"] for message in request.messages]
        for request in requests
    ]
    answers = [generate_fused(reader.lm, [row], 6)[0] for row in rows]
    assert [reply.text for reply in replies] == [decode_answer(reader.lm, ids) for ids in answers]
    assert [reply.usage.tokens_out for reply in replies] == [len(ids) for ids in answers]
    assert [reply.usage.tokens_in for reply in replies] == [sum(map(len, row)) for row in rows]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (fused("a", temperature=0.5), "only generates greedy answers"),
        (fused("a", logprobs=True), "without log-probabilities"),
        (
            Generate((Message("user", "a"),), Decoding(), token_logprobs=("x",)),
            "does not report the log-probabilities",
        ),
        (Likelihood((Message("user", "a"),), "b"), "does not compute likelihoods"),
        (Generate((Message("user", "a"),), Decoding(), tools=(Tool("t", "", "{}"),)), "tools"),
    ],
)
def test_other_requests_are_refused(reader: FidReader, request_: Request, message: str) -> None:
    """With what to do instead."""
    with pytest.raises(ConfigError, match=message):
        reader.encode(request_)  # type: ignore[arg-type]
    assert Likelihood not in reader.serves


def test_a_reply_that_was_cut_says_so(reader: FidReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tokens are the generated ones, with the one that ends it."""
    end = max(reader.lm.end_token_ids)
    answers = [[end + 1] * 6, [end + 1, end]]
    monkeypatch.setattr("winnow.modeling.fid.generate_fused", lambda *_: answers)
    replies = reader.generate([reader.encode(fused(text)) for text in TEXTS[:2]])
    assert [(reply.finish, reply.usage.tokens_out) for reply in replies] == [
        ("length", 6),
        ("stop", 2),
    ]


def test_another_reader_of_the_weights_has_another_identity(reader: FidReader) -> None:
    """Which joins the messages that this one encodes separately."""
    joined = Seq2SeqReader(reader.path, reader.name, dtype="float32", device="cpu")
    assert joined.identity != reader.identity


def test_each_message_is_cut_as_in_training(tmp_path: Path) -> None:
    """Every passage to the length of a pair."""
    folder = make_tiny_t5(tmp_path / "t5", ["the cat sat on the mat"])
    reader = FidReader(str(folder), "t", "float32", max_length=8)
    rows = reader._tokenize_messages(fused(*("the cat sat on the mat " * n for n in (1, 4))))
    assert [len(row) for row in rows] == [len(rows[0]), 8]
