"""The output of every component on a small input, by the class whose revision covers it.

A change of an output needs a higher `revision` of its class, so that numbers of the former code are not served for it:

    python tests/golden/outputs.py   # records the outputs of raised revisions in golden.json
"""

import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from inputs import PASSAGES, QUESTIONS, contexts, write_files

from winnow.contexts.placement import Placement
from winnow.contexts.weighting import ContextWeighting
from winnow.corpora.beir import BeirCorpus
from winnow.corpora.dpr_tsv import DprTsv
from winnow.corpora.fid_json import FidCorpus
from winnow.corpora.hub import HubCorpus
from winnow.corpora.plain_text import PlainText
from winnow.corpora.summaries_json import SummariesJson
from winnow.corpora.wiki_extracts import WikiExtracts
from winnow.datasets.beir import BeirQueries
from winnow.datasets.dpr_biencoder import DprBiencoder
from winnow.datasets.dpr_tsv import DprQuestions
from winnow.datasets.fid_json import FidQuestions
from winnow.datasets.hub import HubQuestions
from winnow.datasets.nq_open import NqOpen
from winnow.datasets.popqa import PopQa
from winnow.datasets.red_trivia import RedTrivia
from winnow.datasets.split import Split
from winnow.datasets.squad import Squad
from winnow.datasets.triviaqa import TriviaQa
from winnow.estimators.bi_encoder import BiEncoder
from winnow.estimators.causal import CausalEstimator
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.estimators.t5 import T5Estimator
from winnow.identity import revision
from winnow.metrics.base import Sample
from winnow.metrics.breakdowns import AnswerType, GoldRank, MetaField, RetrievalScore
from winnow.metrics.correctness import F1, Accuracy, ExactMatch
from winnow.metrics.cost import Consumption, Cost
from winnow.metrics.judged import JudgedAccuracy
from winnow.metrics.majority import NotMajority
from winnow.metrics.unknown import Unknown
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.readers.fid import FidReader
from winnow.readers.local import LocalReader
from winnow.readers.openai_batch import OpenAIBatchReader
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.seq2seq import Seq2SeqReader
from winnow.records import (
    Decoding,
    Generate,
    Generation,
    Likelihood,
    Message,
    Pages,
    Plan,
    Prediction,
    Price,
    RoleUsage,
    Score,
    Search,
)
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.dense import Dense
from winnow.retrievers.hybrid import Hybrid
from winnow.retrievers.provided import Provided
from winnow.searchers.local import LocalSearch
from winnow.strategies.chain_of_thought import ChainOfThought
from winnow.strategies.closed_book import ClosedBook
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.demonstrations import Shots
from winnow.strategies.fid import FusionInDecoder
from winnow.strategies.marginal import Marginal
from winnow.strategies.pf_concat import PFConcat
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.strategies.vote import Vote
from winnow.testing import tiny_causal_lm, tiny_encoder, tiny_t5
from winnow.training.examples import Mix, build_examples
from winnow.training.fid import Fid
from winnow.training.generators import CausalGenerator, Seq2SeqGenerator
from winnow.training.groups import Group
from winnow.training.method import Method
from winnow.training.rag import Rag
from winnow.training.re_rag import ReRag

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
REPLIES = [line.replace("\\n", "\n") for line in (HERE / "replies.txt").read_text().splitlines()]
PROMPT = Prompt(
    "S {contexts} Q {question}", "Q {question}", "{contexts} C {candidates} Q {question}", "[{number}] {title}: {text}"
)
GREEDY, SAMPLED = Decoding(), Decoding(temperature=0.7, samples=3)


@dataclass(frozen=True)
class Golden:
    """A class with the function that makes its output in a folder; `tolerance` is for floats of models."""

    component: type
    output: Callable[[Path], Any]
    tolerance: float = 0.0

    @property
    def name(self) -> str:
        """The class's full name."""
        return f"{self.component.__module__}.{self.component.__qualname__}"


def plain(value: Any) -> Any:
    """Records as JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(inner) for name, inner in asdict(value).items() if name not in ("seconds", "shorter")}
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return "nan" if math.isnan(value) else round(float(value), 6)
    return value


# --- strategies, placements, weights -------------------------------------------------------------------------------------


def pick(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def run_plan(plan: Plan[Any]) -> list[Any]:
    """The prompts of every round and the result; replies and scores are drawn by the request's text."""
    record: list[Any] = []
    results: list[Any] | None = None
    while True:
        try:
            requests = next(plan) if results is None else plan.send(results)
        except StopIteration as stop:
            return [*record, stop.value]
        results = []
        for request in requests:
            texts = [[message.role, message.content] for message in request.messages]
            more = request.continuation if isinstance(request, Likelihood) else [request.sample, request.token_logprobs]
            record.append([type(request).__name__, texts, more])
            number = pick(repr(record[-1]))
            is_text = isinstance(request, Generate)
            results.append(Generation(REPLIES[number % len(REPLIES)]) if is_text else Score(-(number % 97) / 10))


def strategy(component: type, **settings: Any) -> Golden:
    def output(_: Path) -> Any:
        plans = []
        for vote in (Vote(), Vote("random", unknown_votes=True)):
            more = {} if component is Marginal else {"vote": vote}
            for decoding in (GREEDY,) if component is Marginal else (GREEDY, SAMPLED):
                built = component(prompt=PROMPT, decoding=decoding, **more, **settings)
                weighted = ContextWeighting("estimator", 0.5)
                for question in QUESTIONS:
                    for chosen in (contexts(question)[:k] for k in (1, 5)):
                        plans += [built.plan(question, chosen), built.plan(question, weighted.apply(chosen))]
        return [run_plan(plan) for plan in plans]

    return Golden(component, output)


def placements(_: Path) -> Any:
    orders: list[Any] = ["retrieved", "first", "last", "random", 2]
    golds: list[Any] = ["keep", "insert", "remove"]
    rules = [Placement(gold, order) for gold in golds for order in orders]
    placed = [rule.place(question, contexts(question), k) for rule in rules for question in QUESTIONS for k in (2, 4)]
    return [[[c.passage.passage_id for c in one.contexts], one.gold_position, one.provenance] for one in placed]


def weightings(_: Path) -> Any:
    names: list[Any] = ["none", "retriever", "estimator"]
    rules = [ContextWeighting(by, 0.5) for by in names]
    return [[c.log_weight for c in rule.apply(contexts(question))] for rule in rules for question in QUESTIONS]


def prompts(_: Path) -> Any:
    shots = Shots(count=2)
    drawn = shots.draw((q, contexts(q)) for q in shots.candidates(QUESTIONS))
    few = replace(
        PROMPT,
        with_contexts="{demonstrations} {contexts} Q {question}",
        with_candidates="{demonstrations}{contexts}{candidates}{question}",
        demonstration="{number} {contexts} {question} {answer}",
        shots=shots,
        demonstrations=drawn,
        system="Be brief.",
    )
    cases = [(q, contexts(q)[:k], candidates) for q in QUESTIONS for k in (0, 1, 3) for candidates in ((), ("a", "b"))]
    return [form.render(q, c, names if c else ()) for form in (PROMPT, few) for q, c, names in cases]


def demonstrations(_: Path) -> Any:
    shots = [Shots(count=2), Shots(count=3, seed=5)]
    return [one.draw((q, contexts(q)) for q in one.candidates(QUESTIONS)) for one in shots]


# --- parsers -------------------------------------------------------------------------------------------------------------


def parser(component: type, *names: str, **settings: Any) -> Golden:
    def output(folder: Path) -> Any:
        write_files(folder)
        return [list(component(path=str(folder / name), **settings)) for name in names]

    return Golden(component, output)


def with_files(component: type, build: Callable[[Path], Any]) -> Golden:
    return Golden(component, lambda folder: list(build(write_files(folder))))


def splits(_: Path) -> Any:
    return [list(split.assign(QUESTIONS)) for split in (Split(test=1, dev=2, seed=3), Split(all="dev"), Split(given=True))]


# --- retrievers ----------------------------------------------------------------------------------------------------------


def even_weights(folder: Path) -> Path:
    """Replace a model's weights by numbers that no library's random generator decides."""
    from safetensors.numpy import load_file, save_file

    file = folder / "model.safetensors"
    rng = np.random.RandomState(0)
    tensors = load_file(file)
    drawn = {name: (rng.standard_normal(tensors[name].shape) * 0.2).astype(np.float32) for name in sorted(tensors)}
    drawn = {name: value + 1 if "norm" in name.lower() and name.endswith("weight") else value for name, value in drawn.items()}
    save_file(drawn, file, metadata={"format": "pt"})
    return folder


TEXTS = [passage.text for passage in PASSAGES] + [question.text for question in QUESTIONS] + ["true false relevant:"]


def encoder(folder: Path) -> SentenceEncoder:
    return SentenceEncoder(str(even_weights(tiny_encoder(folder / "encoder", TEXTS))), dtype="float32", device="cpu")


def search(retriever: Any, folder: Path) -> Any:
    retriever.build(lambda: iter(PASSAGES), folder / "index")
    hits = retriever.open(folder / "index").search(QUESTIONS, 4)
    return [[[hit.passage_id, hit.score] for hit in row] for row in hits]


def provided(folder: Path) -> Any:
    retriever = Provided(str(write_files(folder) / "fid/test.json"))
    (row,) = FidQuestions(str(folder / "fid/test.json"))
    return retriever.open(folder).search([row], 2)


def local_search(_: Path) -> Any:
    with tempfile.TemporaryDirectory() as index:
        BM25().build(lambda: iter(PASSAGES), Path(index))
        engine = LocalSearch(lambda: BM25().open(Path(index)), lambda: {p.passage_id: p for p in PASSAGES}, "x")
        engine.submit([Search(question.text, n) for question in QUESTIONS for n in (1, 3)])
        return [[request, result] for request, result in engine.collect(0.0) if isinstance(result, Pages)]


# --- models --------------------------------------------------------------------------------------------------------------

PAIRS = [(question.text, passage) for question in QUESTIONS[:3] for passage in PASSAGES[:4]]
REQUESTS = [
    Generate((Message("system", "Be brief."), Message("user", question.text)), Decoding(max_new_tokens=6, logprobs=True))
    for question in QUESTIONS
]
LIKELIHOODS = [
    Likelihood((Message("user", q.text),), q.answers[0], include_eos) for q in QUESTIONS[:3] for include_eos in (True, False)
]


def served(engine: Any, requests: Sequence[Any]) -> Any:
    engine.submit(list(requests))
    results = {}
    while batch := engine.collect(0.0):
        results.update({repr(request): result for request, result in batch})
    return [results[repr(request)] for request in requests]


def causal_lm(folder: Path) -> str:
    return str(even_weights(tiny_causal_lm(folder / "lm", TEXTS)))


def t5(folder: Path) -> str:
    return str(even_weights(tiny_t5(folder / "t5", TEXTS)))


def local_reader(component: type, model: Callable[[Path], str], requests: Sequence[Any]) -> Golden:
    def output(folder: Path) -> Any:
        return served(component(model(folder), "x", dtype="float32", device="cpu"), requests)

    return Golden(component, output, 0.01)


def estimator(component: type, model: Callable[[Path], str], *variants: dict[str, Any]) -> Golden:
    def output(folder: Path) -> Any:
        path = model(folder)
        models = [component(path, dtype="float32", device="cpu", **variant) for variant in variants or ({},)]
        return [one.score(PAIRS).tolist() for one in models]

    return Golden(component, output, 0.01)


def word_estimator(component: type, model: Callable[[Path], str]) -> Golden:
    """An estimator whose words are single tokens of the tiny tokenizer."""
    return estimator(component, model, {"words": ["a", "e"], "runtime": "torch"})


def chat_reader(component: type) -> Golden:
    def output(folder: Path) -> Any:
        more = {"state": str(folder)} if component is OpenAIBatchReader else {}
        reader = component("m", "x", base_url="http://127.0.0.1:1/v1", extra={"top_k": 5, "seed": None}, **more)
        requests = [REQUESTS[0], replace(REQUESTS[0], decoding=Decoding(temperature=0.5, top_p=0.9, seed=3), sample=2)]
        reply = {
            "choices": [
                {"message": {"content": " Paris "}, "finish_reason": "stop", "logprobs": {"content": [{"logprob": -0.5}]}},
                {"message": {"content": None}, "finish_reason": "content_filter"},
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3},
        }
        bodies = [reader.protocol.body(request, n) for request in requests for n in (1, 2)]
        return [reader.identity, bodies, reader.protocol.generations(json.dumps(reply), requests)]

    return Golden(component, output)


GROUPS = [Group(question, contexts(question)[:3]) for question in QUESTIONS]


def losses(build: Callable[[Path], Method[Any]], groups: Sequence[Group] = GROUPS) -> Callable[[Path], Any]:
    """Return the loss's terms of a batch, and the metrics of an evaluation."""

    def output(folder: Path) -> Any:
        import torch

        method = build(folder)
        for part in method.parts.values():
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
        targets = [generator.target(text) for text in ("Paris", "the sea", "Dogs bark", "2")]
        return [generator.log_likelihood(rows, targets).tolist(), [reply.log_p for reply in generator.generate(rows)]]

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


# --- metrics -------------------------------------------------------------------------------------------------------------


def samples() -> list[Sample]:
    rows = []
    for number, reply in enumerate(REPLIES):
        question = QUESTIONS[number % len(QUESTIONS)]
        usage = (RoleUsage("reader", 1 + number % 3, 100 + number, number % 7), RoleUsage("judge", 1, 10, 1))
        candidates = (reply, *question.answers) if number % 3 else ()
        prediction = Prediction(question.question_id, reply, number % 4 == 0, candidates, usage=usage)
        rows.append(Sample(question, prediction, contexts(question)[:3], {"reader": Price(1.0, 2.0)}, contexts(question)))
    return rows


def metric(*metrics: Any) -> Golden:
    return Golden(type(metrics[0]), lambda _: [[m.row(sample) for sample in samples()] for m in metrics])


def breakdown(one: Any) -> Golden:
    return Golden(type(one), lambda _: one.groups(samples()))


def judged(_: Path) -> Any:
    metric = JudgedAccuracy("judged", "judged", template="Q {question} A {answers} G {answer}")
    return [run_plan(metric.plan(sample)) for sample in samples()]


def hub_questions(folder: Path) -> HubQuestions:
    return HubQuestions("json", "train", answers_column="answer.aliases", options={"data_files": f"{folder}/hub.jsonl"})


def vectors(folder: Path) -> Any:
    model = encoder(folder)
    return [model.queries(TEXTS[-3:]).tolist(), model.passages(PASSAGES[:2]).tolist()]


def re_rag(folder: Path) -> ReRag:
    cross_encoder = CrossEncoder(encoder(folder).path, head="pooled", dtype="float32", device="cpu")
    return ReRag(cross_encoder, trained(folder, t5))


STRATEGIES = (ClosedBook, Concatenation, PostFusion, ConcatPF, PFConcat, FusionInDecoder, Marginal)
GOLDENS = [
    *(strategy(component) for component in STRATEGIES),
    strategy(ChainOfThought, template="{contexts} Think. {question}"),
    Golden(Placement, placements),
    Golden(ContextWeighting, weightings),
    Golden(Prompt, prompts),
    Golden(Shots, demonstrations),
    parser(BeirCorpus, "corpus.jsonl"),
    parser(DprTsv, "psgs.tsv"),
    parser(FidCorpus, "fid/test.json"),
    with_files(HubCorpus, lambda folder: HubCorpus("json", options={"data_files": f"{folder}/hub.jsonl"})),
    parser(PlainText, "texts", "texts/a.txt", words=3),
    parser(SummariesJson, "summaries.json"),
    parser(WikiExtracts, "extracts", words=2),
    with_files(BeirQueries, lambda folder: BeirQueries(f"{folder}/queries.jsonl", f"{folder}/qrels.tsv")),
    parser(DprBiencoder, "biencoder.json"),
    parser(DprQuestions, "questions.tsv"),
    parser(FidQuestions, "fid", "fid/test.json"),
    with_files(HubQuestions, hub_questions),
    parser(NqOpen, "nq.jsonl", "nq.jsonl.gz"),
    parser(PopQa, "popqa.tsv"),
    parser(RedTrivia, "red", lists=["general"]),
    parser(Squad, "squad.json"),
    parser(TriviaQa, "trivia.json"),
    Golden(Split, splits),
    Golden(BM25, lambda folder: search(BM25(), folder), 1e-3),
    Golden(Dense, lambda folder: search(Dense(encoder(folder), shard=4), folder), 1e-2),
    Golden(Hybrid, lambda folder: search(Hybrid({"a": BM25(), "b": BM25(b=0.1)}), folder), 1e-3),
    Golden(Provided, provided),
    Golden(LocalSearch, local_search),
    Golden(SentenceEncoder, vectors, 1e-2),
    Golden(BiEncoder, lambda folder: BiEncoder(encoder(folder)).score(PAIRS).tolist(), 0.05),
    estimator(CrossEncoder, lambda folder: encoder(folder).path, {"head": "pooled"}, {"head": "pooled", "separate_layers": 1}),
    word_estimator(T5Estimator, t5),
    word_estimator(CausalEstimator, causal_lm),
    local_reader(LocalReader, causal_lm, [*REQUESTS, *LIKELIHOODS]),
    local_reader(Seq2SeqReader, t5, [*REQUESTS, *LIKELIHOODS]),
    local_reader(FidReader, t5, [replace(request, decoding=Decoding(max_new_tokens=6)) for request in REQUESTS]),
    chat_reader(OpenAIReader),
    chat_reader(OpenAIBatchReader),
    likelihoods(Seq2SeqGenerator, t5),
    likelihoods(CausalGenerator, causal_lm),
    Golden(Rag, losses(lambda folder: Rag(trained(folder, t5))), 0.05),
    Golden(Fid, losses(lambda folder: Fid(trained(folder, t5))), 0.05),
    Golden(ReRag, losses(re_rag), 0.05),
    Golden(Mix, mixes),
    metric(ExactMatch("m", "m"), ExactMatch("m", "m", dialect="crag")),
    metric(F1("m", "m"), F1("m", "m", dialect="flashrag")),
    metric(Accuracy("m", "m"), Accuracy("m", "m", dialect="crag")),
    metric(Unknown("m", "m")),
    metric(NotMajority("m", "m"), NotMajority("m", "m", of_pools=True)),
    metric(*(Consumption("m", "m", of=of) for of in ("tokens_in", "tokens_out", "tokens", "calls"))),  # type: ignore[arg-type]
    metric(Cost("m", "m")),
    Golden(JudgedAccuracy, judged),
    breakdown(AnswerType("b", "b")),
    breakdown(MetaField("b", "b", field="list")),
    breakdown(GoldRank("b", "b", edges=(1, 3))),
    breakdown(RetrievalScore("b", "b", bins=2)),
]


def made(golden: Golden) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        output = plain(golden.output(Path(folder)))
        text = json.dumps(output, sort_keys=True).replace(folder, "FOLDER")
    return json.loads(text)


def stored(golden: Golden, output: Any) -> dict[str, Any]:
    """What golden.json holds: a digest of exact outputs, the numbers of models."""
    if golden.tolerance:
        return {"revision": revision(golden.component), "output": output}
    digest = hashlib.sha256(json.dumps(output, sort_keys=True).encode()).hexdigest()
    return {"revision": revision(golden.component), "digest": digest}


def differs(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two outputs differ by more than a tolerance in a number, or in anything else."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) > tolerance * max(1.0, abs(one))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(differs(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() != other.keys() or any(differs(one[name], other[name], tolerance) for name in one)
    return bool(one != other)


def main() -> None:
    """Record the outputs whose revision is new; refuse those that changed under a recorded revision."""
    recorded: dict[str, Any] = json.loads(GOLDEN.read_text()) if GOLDEN.is_file() else {}
    for golden in GOLDENS:
        now, before = stored(golden, made(golden)), recorded.get(golden.name)
        if before is not None and before["revision"] == now["revision"] and differs(before, now, golden.tolerance):
            sys.exit(f"The output of {golden.name} changed. Raise its revision from {now['revision']}, then record again.")
        if before is None or before["revision"] != now["revision"]:
            recorded[golden.name] = now
            print(f"recorded {golden.name}, revision {now['revision']}")
    GOLDEN.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
