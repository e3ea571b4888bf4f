"""The output of every component on a small input, by the class whose revision covers it.

A change of an output needs a higher `revision` of its class, so that numbers of the former code are
not served for it:

    # Record the outputs of raised revisions in golden.json
    PYTHONPATH=. python tests/golden/outputs.py
"""

import json
import sys
from typing import Any, get_args

from golden import GOLDEN, Golden, differs, made, stored
from judging import (
    answer_relevancy,
    judged,
    looked_for,
    rag_checked,
    ragas_judged,
    sufficient,
    supported,
)
from listed import STRATEGIES, joined_questions, mixture
from model_outputs import (
    LIKELIHOODS,
    PAIRS,
    REQUESTS,
    TEXTS,
    causal_lm,
    chat_reader,
    citing,
    encoder,
    estimator,
    likelihoods,
    local_reader,
    local_search,
    losses,
    mixes,
    pairs,
    provided,
    re_rag,
    regression,
    search,
    splade,
    t5,
    trained,
    trec_run,
    vectors,
    word_estimator,
)
from msgspec import structs
from planning import PLAN_OUTPUTS
from pure import (
    agents,
    breakdown,
    classified,
    contradicted,
    damages,
    demonstrations,
    distracted,
    distractors,
    false_answers,
    hub_questions,
    metric,
    parser,
    placements,
    prompts,
    self_rag,
    splits,
    strategy,
    verdicts,
    weightings,
    with_files,
)
from web import PAGES_READ, search_api

from winnow.contexts.counterfactual import Counterfactual
from winnow.contexts.damage import Damage
from winnow.contexts.distractors import Distractors
from winnow.contexts.placement import Placement
from winnow.contexts.weighting import ContextWeighting
from winnow.corpora.beir import BeirCorpus
from winnow.corpora.dpr_tsv import DprTsv
from winnow.corpora.fid_json import FidCorpus
from winnow.corpora.hub import HubCorpus
from winnow.corpora.joined import JoinedCorpus
from winnow.corpora.jsonl import JsonlCorpus
from winnow.corpora.part import CorpusPart
from winnow.corpora.plain_text import PlainText
from winnow.corpora.summaries_json import SummariesJson
from winnow.corpora.wiki_extracts import WikiExtracts
from winnow.datasets.arc import Arc
from winnow.datasets.beir import BeirQueries
from winnow.datasets.dpr_biencoder import DprBiencoder
from winnow.datasets.dpr_tsv import DprQuestions
from winnow.datasets.fid_json import FidQuestions
from winnow.datasets.hub import HubQuestions
from winnow.datasets.joined import JoinedDataset
from winnow.datasets.jsonl import JsonlQuestions
from winnow.datasets.nq_open import NqOpen
from winnow.datasets.popqa import PopQa
from winnow.datasets.pubhealth import PubHealth
from winnow.datasets.red_trivia import RedTrivia
from winnow.datasets.split import Split
from winnow.datasets.squad import Squad
from winnow.datasets.triviaqa import TriviaQa
from winnow.estimators.bi_encoder import BiEncoder
from winnow.estimators.causal import CausalEstimator
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.estimators.t5 import T5Estimator
from winnow.metrics.alce import AnswerList, ClaimRecall, ListMeasure, ShortAnswerRecall
from winnow.metrics.answer_relevancy import AnswerRelevancy
from winnow.metrics.breakdowns import (
    AnswerType,
    GoldRank,
    MetaField,
    RelevantPosition,
    RetrievalScore,
    Sufficiency,
    TraceEntry,
)
from winnow.metrics.citation import (
    Citation,
    CitationF1OfMeans,
    Measure,
    ReplyWords,
    UncitedSentences,
    WrongCitations,
)
from winnow.metrics.citation import Dialect as CitationDialect
from winnow.metrics.citation_use import Changed
from winnow.metrics.classification import ChoiceAccuracy, ClaimAccuracy
from winnow.metrics.conflict import Follows, MemorizationRatio
from winnow.metrics.conflict import Source as Followed
from winnow.metrics.correctness import F1, Accuracy, ExactMatch
from winnow.metrics.cost import Consumption, Cost
from winnow.metrics.distraction import DistractingEffect, Udcg
from winnow.metrics.entailment import CitationSupport
from winnow.metrics.judged import JudgedAccuracy
from winnow.metrics.majority import NotMajority, NotMajorityOfPools
from winnow.metrics.nuggets import Measure as NuggetMeasure
from winnow.metrics.nuggets import Nuggets
from winnow.metrics.ragas import Ragas
from winnow.metrics.ragchecker import RagChecker
from winnow.metrics.replies import CutReplies, EmptyReplies, LongAnswers, Refusals
from winnow.metrics.rouge import Rouge
from winnow.metrics.selective import Coverage, SelectiveAccuracy
from winnow.metrics.sufficiency import SufficientContext
from winnow.metrics.unknown import Unknown
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.modeling.splade_encoder import SpladeEncoder
from winnow.readers.fid import FidReader
from winnow.readers.local import LocalReader
from winnow.readers.openai_batch import OpenAIBatchReader
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.seq2seq import Seq2SeqReader
from winnow.records import Decoding
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.dense import Dense
from winnow.retrievers.dense_on_disk import DenseOnDisk
from winnow.retrievers.hybrid import Hybrid
from winnow.retrievers.mixture import Mixture, NeighborMaps
from winnow.retrievers.provided import Provided
from winnow.retrievers.splade import Splade
from winnow.retrievers.tantivy import Tantivy
from winnow.retrievers.trec_run import TrecRun
from winnow.searchers.local import LocalSearch
from winnow.searchers.web.apis import GoogleCustomSearch, Searxng, Serper
from winnow.strategies.chain_of_thought import ChainOfThought
from winnow.strategies.corrective.crag import CorrectiveRetrieval, Crag
from winnow.strategies.corrective.evaluators import JudgedRelevance
from winnow.strategies.corrective.searching import KnowledgeSearch
from winnow.strategies.demonstrations import Shots
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.ircot import Ircot
from winnow.strategies.rounds.iter_retgen import IterRetGen
from winnow.strategies.rounds.react import React
from winnow.strategies.self_rag.long_form import SelfRagLong
from winnow.strategies.self_rag.short_form import SelfRag
from winnow.sweeps.recorded import RecordedEngine
from winnow.text.normalization import Dialect
from winnow.training.citing import CitationMix, CitationPrompts, SyntheticCitations
from winnow.training.evaluator import RelevanceRegression
from winnow.training.examples import Mix
from winnow.training.fid import Fid
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.pair_selection import PairSelection
from winnow.training.rag import Rag
from winnow.training.re_rag import ReRag

GOLDENS = [
    *(strategy(component) for component in STRATEGIES),
    strategy(ChainOfThought, template="{contexts} Think. {question}"),
    strategy(
        Crag,
        correction=CorrectiveRetrieval(search=KnowledgeSearch(rewriting="keywords of {question}")),
    ),
    strategy(IterRetGen, n=2),
    strategy(Ircot, template="{contexts} Q {question} A {thoughts}", max_sentences=3),
    Golden(React, agents),
    *PLAN_OUTPUTS,
    self_rag(SelfRag),
    self_rag(SelfRagLong),
    Golden(Damage, damages),
    Golden(JudgedRelevance, verdicts),
    Golden(PairSelection, pairs),
    Golden(Placement, placements),
    Golden(Distractors, distractors),
    Golden(Counterfactual, false_answers),
    Golden(ContextWeighting, weightings),
    Golden(Prompt, prompts),
    Golden(Shots, demonstrations),
    parser(BeirCorpus, "corpus.jsonl"),
    parser(DprTsv, "psgs.tsv"),
    parser(FidCorpus, "fid/test.json"),
    with_files(
        HubCorpus, lambda folder: HubCorpus("json", options={"data_files": f"{folder}/hub.jsonl"})
    ),
    parser(JsonlCorpus, "own.jsonl", title="title", id="id"),
    parser(PlainText, "texts", "texts/a.txt", words=3),
    parser(SummariesJson, "summaries.json"),
    parser(WikiExtracts, "extracts", words=2),
    with_files(
        BeirQueries, lambda folder: BeirQueries(f"{folder}/queries.jsonl", f"{folder}/qrels.tsv")
    ),
    parser(DprBiencoder, "biencoder.json"),
    parser(DprQuestions, "questions.tsv"),
    parser(FidQuestions, "fid", "fid/test.json"),
    with_files(HubQuestions, hub_questions),
    parser(JsonlQuestions, "own.jsonl", id="id"),
    parser(NqOpen, "nq.jsonl", "nq.jsonl.gz"),
    parser(PopQa, "popqa.tsv"),
    parser(Arc, "arc.jsonl"),
    parser(PubHealth, "pubhealth.jsonl"),
    Golden(ChoiceAccuracy, classified(ChoiceAccuracy)),
    Golden(ClaimAccuracy, classified(ClaimAccuracy)),
    parser(RedTrivia, "red", lists=["general"]),
    parser(Squad, "squad.json"),
    parser(TriviaQa, "trivia.json"),
    with_files(CorpusPart, lambda folder: CorpusPart(BeirCorpus(f"{folder}/corpus.jsonl"), 1)),
    with_files(
        JoinedCorpus,
        lambda folder: JoinedCorpus({name: BeirCorpus(f"{folder}/corpus.jsonl") for name in "ab"}),
    ),
    with_files(JoinedDataset, joined_questions),
    Golden(Split, splits),
    Golden(BM25, lambda folder: search(BM25(), folder), 1e-3),
    Golden(Dense, lambda folder: search(Dense(encoder(folder), block_size=4), folder), 1e-2),
    Golden(
        DenseOnDisk,
        lambda folder: search(
            DenseOnDisk(encoder(folder), lists=2, codes="SQ8", block_size=4), folder
        ),
        1e-2,
    ),
    Golden(Splade, lambda folder: search(Splade(splade(folder), block_size=4), folder), 1e-2),
    Golden(Tantivy, lambda folder: search(Tantivy(), folder), 1e-3),
    Golden(Hybrid, lambda folder: search(Hybrid({"a": BM25(), "b": BM25(b=0.1)}), folder), 1e-3),
    Golden(NeighborMaps, lambda folder: search(mixture(folder), folder), 1e-2),
    Golden(Mixture, lambda folder: search(mixture(folder, relevant=2, irrelevant=0), folder), 1e-2),
    Golden(Provided, provided),
    Golden(TrecRun, trec_run),
    Golden(LocalSearch, local_search),
    *(search_api(component) for component in (Searxng, Serper, GoogleCustomSearch)),
    PAGES_READ,
    Golden(SentenceEncoder, vectors, 1e-2),
    Golden(
        SpladeEncoder,
        lambda folder: splade(folder).encode_queries(TEXTS[:2]).toarray()[:, 100:120].tolist(),
        1e-2,
    ),
    Golden(BiEncoder, lambda folder: BiEncoder(encoder(folder)).score(PAIRS).tolist(), 0.05),
    estimator(
        CrossEncoder,
        lambda folder: encoder(folder).path,
        {"head": "pooled"},
        {"head": "pooled", "separate_layers": 1},
    ),
    word_estimator(T5Estimator, t5),
    word_estimator(CausalEstimator, causal_lm),
    local_reader(LocalReader, causal_lm, [*REQUESTS, *LIKELIHOODS]),
    local_reader(Seq2SeqReader, t5, [*REQUESTS, *LIKELIHOODS]),
    local_reader(
        FidReader,
        t5,
        [structs.replace(request, decoding=Decoding(max_new_tokens=6)) for request in REQUESTS],
    ),
    chat_reader(OpenAIReader),
    chat_reader(OpenAIBatchReader),
    likelihoods(Seq2SeqGenerator, t5),
    Golden(Rag, losses(lambda folder: Rag(trained(folder, t5))), 0.05),
    Golden(Fid, losses(lambda folder: Fid(trained(folder, t5))), 0.05),
    Golden(ReRag, losses(re_rag), 0.05),
    Golden(RelevanceRegression, losses(regression), 0.05),
    Golden(Mix, mixes),
    Golden(CitationMix, lambda _: citing(CitationMix(max_words=4))),
    Golden(SyntheticCitations, lambda _: citing(SyntheticCitations())),
    Golden(CitationPrompts, lambda _: citing(CitationPrompts())),
    metric(ExactMatch("m", "m"), ExactMatch("m", "m", dialect="crag")),
    metric(*(F1("m", "m", dialect=dialect) for dialect in get_args(Dialect))),
    metric(Accuracy("m", "m"), Accuracy("m", "m", dialect="crag")),
    metric(Unknown("m", "m")),
    metric(NotMajority("m", "m")),
    distracted(DistractingEffect),
    distracted(Udcg),
    contradicted(*(Follows("m", "m", source=source) for source in get_args(Followed))),
    contradicted(MemorizationRatio("m", "m")),
    metric(SelectiveAccuracy("m", "m"), SelectiveAccuracy("m", "m", threshold=0.5)),
    metric(Changed("m", "m")),
    metric(Rouge("m", "m"), Rouge("m", "m", of="rouge1", stem=False)),
    metric(Coverage("m", "m"), Coverage("m", "m", threshold=0.5)),
    looked_for(ShortAnswerRecall("m", "m"), ShortAnswerRecall("m", "m", hit=True)),
    looked_for(
        *(AnswerList("m", "m", of=of) for of in get_args(ListMeasure)),
        AnswerList("m", "m", dialect="alce"),
    ),
    looked_for(ClaimRecall("m", "m")),
    looked_for(*(Nuggets("m", "m", of=of, dialect="nuggetizer") for of in get_args(NuggetMeasure))),
    metric(NotMajorityOfPools("m", "m")),
    metric(CutReplies("m", "m"), CutReplies("m", "m", role="judge")),
    metric(EmptyReplies("m", "m"), EmptyReplies("m", "m", role="judge")),
    metric(LongAnswers("m", "m", words=2)),
    metric(Refusals("m", "m")),
    metric(
        *(
            Citation("m", "m", of=of, dialect=dialect)
            for of in get_args(Measure)
            for dialect in get_args(CitationDialect)
        )
    ),
    metric(
        *(CitationF1OfMeans("m", "m", dialect=dialect) for dialect in get_args(CitationDialect))
    ),
    metric(WrongCitations("m", "m"), WrongCitations("m", "m", kind="seemingly_relevant")),
    metric(UncitedSentences("m", "m")),
    metric(ReplyWords("m", "m")),
    metric(
        *(Consumption("m", "m", of=of) for of in ("tokens_in", "tokens_out", "tokens", "calls"))
    ),  # type: ignore[arg-type]
    metric(Cost("m", "m")),
    Golden(JudgedAccuracy, judged),
    Golden(CitationSupport, supported),
    Golden(RagChecker, rag_checked),
    Golden(Ragas, ragas_judged),
    Golden(SufficientContext, sufficient),
    Golden(AnswerRelevancy, answer_relevancy),
    Golden(RecordedEngine, lambda _: [kind.__name__ for kind in RecordedEngine("a").serves]),
    breakdown(AnswerType("b", "b")),
    breakdown(MetaField("b", "b", field="list")),
    breakdown(GoldRank("b", "b", upper_bounds=(1, 3))),
    breakdown(RelevantPosition("b", "b")),
    breakdown(RetrievalScore("b", "b", num_bins=2)),
    breakdown(TraceEntry("b", "b", label="action")),
    breakdown(Sufficiency("b", "b")),
]


def main() -> None:
    """Record the outputs whose revision is new; refuse those that changed under a recorded
    revision.
    """
    recorded: dict[str, Any] = json.loads(GOLDEN.read_text()) if GOLDEN.is_file() else {}
    for golden in GOLDENS:
        now, before = stored(golden, made(golden)), recorded.get(golden.name)
        if (
            before is not None
            and before["revision"] == now["revision"]
            and differs(before, now, golden.tolerance)
        ):
            sys.exit(
                f"The output of {golden.name} changed. Raise its revision from {now['revision']}, "
                "then record again."
            )
        if before is None or before["revision"] != now["revision"]:
            recorded[golden.name] = now
            print(f"recorded {golden.name}, revision {now['revision']}")
    GOLDEN.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
