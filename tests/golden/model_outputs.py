"""Outputs of retrievers, readers, estimators and training methods, on tiny models in float32."""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from golden import PROMPT, Golden
from inputs import PASSAGES, QUESTIONS, contexts, write_files
from msgspec import structs

from winnow.datasets.fid_json import FidQuestions
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.modeling.splade_encoder import SpladeEncoder
from winnow.readers.openai_batch import OpenAIBatchReader
from winnow.records import Decoding
from winnow.requests import Generate, Likelihood, Message, Pages, Search
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.provided import Provided
from winnow.retrievers.trec_run import TrecRun
from winnow.searchers.local import LocalSearch
from winnow.testing import make_tiny_causal_lm, make_tiny_encoder, make_tiny_masked_lm, make_tiny_t5
from winnow.training.evaluator import RelevanceRegression
from winnow.training.examples import Mix, build_examples
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.groups import Group
from winnow.training.method import Method
from winnow.training.pair_selection import PairSelection
from winnow.training.re_rag import ReRag


def even_weights(folder: Path) -> Path:
    """Replace a model's weights by numbers that no library's random generator decides."""
    from safetensors.numpy import load_file, save_file

    file = folder / "model.safetensors"
    rng = np.random.RandomState(0)
    tensors = load_file(file)
    drawn = {
        name: (rng.standard_normal(tensors[name].shape) * 0.2).astype(np.float32)
        for name in sorted(tensors)
    }
    drawn = {
        name: value + 1 if "norm" in name.lower() and name.endswith("weight") else value
        for name, value in drawn.items()
    }
    save_file(drawn, file, metadata={"format": "pt"})
    return folder


TEXTS = (
    [passage.text for passage in PASSAGES]
    + [question.text for question in QUESTIONS]
    + ["true false relevant:"]
)


def encoder(folder: Path) -> SentenceEncoder:
    return SentenceEncoder(
        str(even_weights(make_tiny_encoder(folder / "encoder", TEXTS))),
        dtype="float32",
        device="cpu",
    )


def splade(folder: Path) -> SpladeEncoder:
    path = even_weights(make_tiny_masked_lm(folder / "encoder", TEXTS))
    return SpladeEncoder(str(path), dtype="float32", device="cpu")


def search(retriever: Any, folder: Path) -> Any:
    retriever.build(lambda: iter(PASSAGES), folder / "index")
    hits = retriever.open(folder / "index").search(QUESTIONS, 4)
    return [[[hit.passage_id, hit.score] for hit in row] for row in hits]


def provided(folder: Path) -> Any:
    retriever = Provided(str(write_files(folder) / "fid/test.json"))
    (row,) = FidQuestions(str(folder / "fid/test.json"))
    return retriever.open(folder).search([row], 2)


def trec_run(folder: Path) -> Any:
    lines = (
        f"{q.question_id} Q0 d{n} {n} {score} x"
        for q in QUESTIONS
        for n, score in enumerate((2.0, 0.5, 0.5), start=1)
    )
    (folder / "run").write_text("\n".join(lines))
    return TrecRun(str(folder / "run")).open(folder).search(QUESTIONS, 2)


def local_search(_: Path) -> Any:
    with tempfile.TemporaryDirectory() as index:
        BM25().build(lambda: iter(PASSAGES), Path(index))
        engine = LocalSearch(
            lambda: BM25().open(Path(index)), lambda: {p.passage_id: p for p in PASSAGES}, "x"
        )
        engine.submit([Search(question.text, n) for question in QUESTIONS for n in (1, 3)])
        return [
            [request, result]
            for request, result in engine.collect(0.0)
            if isinstance(result, Pages)
        ]


# --- models --------------------------------------------------------------------------------

PAIRS = [(question.text, passage) for question in QUESTIONS[:3] for passage in PASSAGES[:4]]
REQUESTS = [
    Generate(
        (Message("system", "Be brief."), Message("user", question.text)),
        Decoding(max_new_tokens=6, logprobs=True),
    )
    for question in QUESTIONS
]
LIKELIHOODS = [
    Likelihood((Message("user", q.text),), q.answers[0], include_eos)
    for q in QUESTIONS[:3]
    for include_eos in (True, False)
]


def served(engine: Any, requests: Sequence[Any]) -> Any:
    engine.submit(list(requests))
    results = {}
    while batch := engine.collect(0.0):
        results.update({repr(request): result for request, result in batch})
    return [results[repr(request)] for request in requests]


def causal_lm(folder: Path) -> str:
    return str(even_weights(make_tiny_causal_lm(folder / "lm", TEXTS)))


def t5(folder: Path) -> str:
    return str(even_weights(make_tiny_t5(folder / "t5", TEXTS)))


def local_reader(component: type, model: Callable[[Path], str], requests: Sequence[Any]) -> Golden:
    def output(folder: Path) -> Any:
        return served(component(model(folder), "x", dtype="float32", device="cpu"), requests)

    return Golden(component, output, 0.01)


def estimator(component: type, model: Callable[[Path], str], *variants: dict[str, Any]) -> Golden:
    def output(folder: Path) -> Any:
        path = model(folder)
        models = [
            component(path, dtype="float32", device="cpu", **variant)
            for variant in variants or ({},)
        ]
        return [one.score(PAIRS).tolist() for one in models]

    return Golden(component, output, 0.01)


def word_estimator(component: type, model: Callable[[Path], str]) -> Golden:
    """An estimator whose words are single tokens of the tiny tokenizer."""
    return estimator(component, model, {"label_words": ["a", "e"], "runtime": "torch"})


def chat_reader(component: type) -> Golden:
    def output(folder: Path) -> Any:
        more = {"state": str(folder)} if component is OpenAIBatchReader else {}
        reader = component(
            "m", "x", base_url="http://127.0.0.1:1/v1", extra={"top_k": 5, "seed": None}, **more
        )
        requests = [
            REQUESTS[0],
            structs.replace(
                REQUESTS[0], decoding=Decoding(temperature=0.5, top_p=0.9, seed=3), sample=2
            ),
        ]
        reply = {
            "choices": [
                {
                    "message": {"content": " Paris "},
                    "finish_reason": "stop",
                    "logprobs": {"content": [{"logprob": -0.5}]},
                },
                {"message": {"content": None}, "finish_reason": "content_filter"},
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3},
        }
        bodies = [reader.protocol.build_body(request, n) for request in requests for n in (1, 2)]
        return [reader.identity, bodies, reader.protocol.parse_reply(json.dumps(reply), requests)]

    return Golden(component, output)


GROUPS = [Group(question, contexts(question)[:3]) for question in QUESTIONS]


def losses(
    build: Callable[[Path], Method[Any]], groups: Sequence[Group] = GROUPS
) -> Callable[[Path], Any]:
    """Return the loss's terms of a batch, and the metrics of an evaluation."""

    def output(folder: Path) -> Any:
        import torch

        method = build(folder)
        for part in method.components.values():
            part.lm.model.eval()
        batch = method.prepare(groups, 3, 1)
        chunks = method.chunks(batch, 3, 1, 512)
        with torch.no_grad():
            values = torch.cat([chunk.run() for chunk in chunks])
        place = torch.tensor([row for chunk in chunks for row in chunk.rows])
        terms = method.loss(values[torch.argsort(place)], batch)
        return [{name: float(value) for name, value in terms.items()}, method.evaluate(groups)]

    return output


def likelihoods(component: type, model: Callable[[Path], str]) -> Golden:
    def output(folder: Path) -> Any:
        generator = component(model(folder), device="cpu")
        rows = [generator.tokens.encode(*pair) for pair in PAIRS[:4]]
        targets = [generator.encode_answer(text) for text in ("Paris", "the sea", "Dogs bark", "2")]
        return [
            generator.log_likelihood(rows, targets).tolist(),
            [reply.log_p for reply in generator.generate(rows)],
        ]

    return Golden(component, output, 0.01)


def trained(folder: Path, model: Callable[[Path], str]) -> Seq2SeqGenerator:
    return Seq2SeqGenerator(model(folder), device="cpu", max_answer=6)


def mixes(_: Path) -> Any:
    ranked = [(question, contexts(question)) for question in QUESTIONS]
    settings = [
        Mix(answered=3, unknown=2, crowded=1, distractors=1),
        Mix(answered=0, unknown=0, crowded=0, retrieved=3, depth=2),
    ]
    return [build_examples(ranked, mix, PROMPT.render, 3) for mix in settings]


def citing(mix: Any) -> Any:
    """The examples of a mix of citations, or its questions."""
    ranked = [(question, contexts(question)) for question in QUESTIONS]
    if hasattr(mix, "replies"):
        mix = replace(mix, replies={question.question_id: "yes [1]" for question in QUESTIONS})
    if hasattr(mix, "build_examples"):
        return [mix.build_examples(ranked, PROMPT, 3)]
    return [
        [question.question_id, len(shown)] for question, shown in mix.select_questions(ranked, 3)
    ]


def vectors(folder: Path) -> Any:
    model = encoder(folder)
    return [
        model.encode_queries(TEXTS[-3:]).tolist(),
        model.encode_passages(PASSAGES[:2]).tolist(),
    ]


def regression(folder: Path) -> RelevanceRegression:
    return RelevanceRegression(
        CrossEncoder(encoder(folder).path, head="pooled", dtype="float32", device="cpu")
    )


def pairs(_: Path) -> Any:
    groups = [Group(question, tuple(contexts(question))) for question in QUESTIONS]
    chosen = [PairSelection(1, 2, 1, seed).select(groups) for seed in (1, 2)]
    return [
        [
            [group.question.question_id, [c.passage.passage_id for c in group.contexts]]
            for group in one
        ]
        for one in chosen
    ]


def re_rag(folder: Path) -> ReRag:
    cross_encoder = CrossEncoder(encoder(folder).path, head="pooled", dtype="float32", device="cpu")
    return ReRag(cross_encoder, trained(folder, t5))
