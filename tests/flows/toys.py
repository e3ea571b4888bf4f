"""Small files in the forms that the papers' full-size recipes read, and small models in place of
large ones.
"""

import gzip
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from conftest import TOWNS, texts

from winnow.strategies.self_rag.reflection import TOKENS
from winnow.testing import make_tiny_causal_lm, make_tiny_dpr, make_tiny_encoder, make_tiny_t5

BODY = [text for _, text in texts()]
PASSAGES = [(str(number), title, text) for number, (title, text) in enumerate(texts(), start=1)]
QUESTIONS = [
    (f"Who is the mayor of {town}?", f"Mx {town[::-1].title()}", 3 * number)
    for number, town in enumerate(TOWNS)
]
QUESTIONS += [
    (f"Which river flows by {town}?", f"{town[:3]}wash", 3 * number + 1)
    for number, town in enumerate(TOWNS)
]
"""Text, answer and number of the gold passage."""


def write_json_lines(file: Path, rows: Sequence[Any]) -> None:
    """Write a JSON Lines file."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_models(hub: Path, models: Path) -> None:
    """Save the models of the hub, and those that a user has in a folder."""
    for name in ("google-t5/t5-base", "google-t5/t5-large"):
        make_tiny_t5(hub / name, [*BODY, *["true", "false"] * 40, "question: title: context:"])
    questions, contexts = make_tiny_dpr(models / "dpr", BODY)
    contexts.rename(models / "dpr-ctx_encoder")
    questions.rename(models / "dpr-question_encoder")
    make_tiny_encoder(hub / "intfloat/multilingual-e5-small", BODY)
    make_tiny_causal_lm(
        models / "selfrag_llama2_7b", BODY, more_tokens=TOKENS
    )  # converted, since the hub has pickles
    for name in ("mistral", "Llama-2-7b-chat-hf", "Llama-2-7b-hf"):
        make_tiny_causal_lm(models / name, [*BODY, "[1] [2] [3]"], context_length=4096)
    _make_evaluator(models / "crag_evaluator")


def _make_evaluator(folder: Path) -> None:
    """Save a T5 with one output and, as its authors did, SentencePiece's vocabulary alone."""
    import sentencepiece
    from transformers import T5Config, T5ForSequenceClassification

    folder.mkdir(parents=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(BODY), model_prefix=str(folder / "spiece"), vocab_size=100,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (folder / "spiece.vocab").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    config = T5Config(  # type: ignore[call-arg]
        vocab_size=228, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=2,
        num_heads=4, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, num_labels=1,
    )  # fmt: skip
    torch.manual_seed(0)
    model: Any = T5ForSequenceClassification(config)
    model.save_pretrained(folder)


def make_fid(folder: Path) -> None:
    """Write FiD's JSON with the scores of a retriever: train.json, dev.json and test.json."""
    folder.mkdir(parents=True)
    for split, start, end in (("train", 0, 14), ("dev", 14, 17), ("test", 17, 20)):
        rows = []
        for number, (question, answer, gold) in enumerate(QUESTIONS[start:end]):
            order = [gold, *(other for other in range(len(PASSAGES)) if other != gold)][:30]
            contexts = [
                {
                    "id": PASSAGES[n][0],
                    "title": PASSAGES[n][1],
                    "text": PASSAGES[n][2],
                    "score": f"{90 - rank:.1f}",
                }
                for rank, n in enumerate(order)
            ]
            rows.append(
                {
                    "id": str(number),
                    "question": question,
                    "answers": [answer],
                    "target": answer,
                    "ctxs": contexts,
                }
            )
        (folder / f"{split}.json").write_text(json.dumps(rows))


def make_dpr(site: Path) -> None:
    """Write DPR's passages and its questions with gold passages."""
    lines = ["id\ttext\ttitle", *(f'{id_}\t"{text}"\t{title}' for id_, title, text in PASSAGES)]
    (site / "psgs_w100.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = []
    for question, answer, gold in QUESTIONS:
        id_, title, text = PASSAGES[gold]
        positive = {
            "title": title,
            "text": text,
            "score": 1000,
            "title_score": 1,
            "passage_id": id_,
        }
        row = {
            "dataset": "nq_dev",
            "question": question,
            "answers": [answer],
            "positive_ctxs": [positive],
        }
        rows.append({**row, "negative_ctxs": [], "hard_negative_ctxs": []})
    (site / "biencoder-nq-dev.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))


def make_beir(site: Path) -> None:
    """Write BEIR's archives of NQ and HotpotQA."""
    for name in ("nq", "hotpotqa"):
        prefix = f"{name}-"
        corpus = [
            {"_id": prefix + id_, "title": title, "text": text, "metadata": {}}
            for id_, title, text in PASSAGES
        ]
        queries = [
            {"_id": f"{prefix}{n}", "text": question}
            for n, (question, _, _) in enumerate(QUESTIONS)
        ]
        relevant = [(n, gold) for n, (_, _, gold) in enumerate(QUESTIONS)]
        relevant += [(n, number) for n in range(len(QUESTIONS)) for number in (30, 32, 33, 35)][
            : 4 * 20
        ]
        judged = [f"{prefix}{n}\t{prefix}{number + 1}\t1" for n, number in relevant]
        judged.insert(0, "query-id\tcorpus-id\tscore")
        with zipfile.ZipFile(site / f"{name}.zip", "w") as archive:
            archive.writestr(
                f"{name}/corpus.jsonl", "".join(json.dumps(row) + "\n" for row in corpus)
            )
            archive.writestr(
                f"{name}/queries.jsonl", "".join(json.dumps(row) + "\n" for row in queries)
            )
            archive.writestr(f"{name}/qrels/test.tsv", "\n".join(judged) + "\n")


def make_web(site: Path, address: str) -> None:
    """Write what a search engine finds, and the page."""
    (site / "towns.html").write_text(
        f"<html><body><article><p>{' '.join(BODY)}</p></article></body></html>"
    )
    found = {"title": "Towns", "link": f"{address}/site/towns.html", "snippet": BODY[0]}
    (site / "search.json").write_text(json.dumps({"organic": [found]}))


def make_crag(data: Path) -> None:
    """Write PopQA, PubHealth, ARC-Challenge and the people of biographies, each with the contexts
    of CRAG's authors.
    """
    popqa = [
        f'{n}\tmayor\t50\t{question}\t["{answer}"]'
        for n, (question, answer, _) in enumerate(QUESTIONS[:3])
    ]
    (data / "popqa.tsv").write_text(
        "\n".join(["id\tprop\ts_pop\tquestion\tpossible_answers", *popqa]) + "\n"
    )
    claims = [(f"{title} has a mayor.", "true") for _, title, _ in PASSAGES[:6:3]]
    rows = [
        {"claim_id": n, "claim": claim, "label": label} for n, (claim, label) in enumerate(claims)
    ]
    write_json_lines(data / "pubhealth.jsonl", rows)
    choices = {"text": ["wool", "salt", "tin", "oats"], "label": ["A", "B", "C", "D"]}
    trades = [f"What does {town} trade in?" for town in TOWNS[:2]]
    rows = [
        {"id": f"t{n}", "question": text, "choices": choices, "answerKey": "AB"[n]}
        for n, text in enumerate(trades)
    ]
    write_json_lines(data / "arc_challenge.jsonl", rows)
    people = [answer for _, answer, _ in QUESTIONS[:2]]
    biographies = [f"Who is {name}?" for name in people]
    (data / "bio").mkdir()
    (data / "bio" / "sources").write_text("\n".join(biographies) + "\n")
    write_json_lines(
        data / "articles.jsonl", [{"title": name, "text": " ".join(BODY)} for name in people]
    )
    for name, asked in (
        ("popqa", [question for question, _, _ in QUESTIONS[:3]]),
        ("pubqa", [claim for claim, _ in claims]),
        ("arc_challenge", trades),
        ("bio", biographies),
    ):
        label = "\t1" if name == "popqa" else ""  # as the authors' program writes it
        lines = [
            f"{question} [SEP] {text if label else f'{title} // {text}'}{label}"
            for question in asked
            for _, title, text in PASSAGES[:10]
        ]
        (data / f"test_{name}.txt").write_text("\n".join(lines) + "\n")
