"""The world of hops: what a question needs is known, and what strategies of rounds find in it
follows from it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from winnow.contexts.shown import build_shown
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ConfigError
from winnow.ledger.sqlite import SqliteStore
from winnow.metrics.answer import exact_match
from winnow.metrics.base import Sample
from winnow.metrics.rounds import EvidenceRecall, FirstHit, RepeatedQueries, Rounds
from winnow.predictions import Prediction
from winnow.protocols import Strategy, build_engine_map
from winnow.records import Answer, Context, Decoding, Question
from winnow.reports.frontier import compute_frontier
from winnow.retrievers.bm25 import BM25
from winnow.searchers.local import LocalSearch
from winnow.steps import Outcome
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.ircot import Ircot
from winnow.strategies.rounds.iter_retgen import IterRetGen
from winnow.strategies.rounds.react import React
from winnow.synthetic.hops import LINKS, HopsSettings, HopsWorld, build_hops
from winnow.testing import ScriptedReader

PROMPT = Prompt(
    "{contexts}\nQ: {question}\nA:",
    "Q: {question}\nA:",
    "{contexts}{candidates}{question}",
    "{text}",
)
WORLD = build_hops(HopsSettings(questions=20))
N = 3
"""Passages that each search gives."""


def _follow(prompt: str, question: str) -> tuple[list[str], str]:
    """Return the sentences on the way of a question that a prompt contains, up to its answer, and
    the last name reached.
    """
    reached = re.search(r"(?:does|which) ([A-Z]\w+) live", question)[1]  # type: ignore[index]
    sentences = []
    for link in LINKS[: _count_hops(question)]:
        pattern = re.escape(link).replace(r"\{name\}", reached).replace(r"\{value\}", r"([A-Z]\w+)")
        match = re.search(pattern, prompt)
        if match is None:
            break
        reached = match[1]
        sentences.append(match[0])
    return sentences, reached


def _count_hops(question: str) -> int:
    return 1 if "which town does" in question else 2 if question.startswith("Which river") else 3


def reply_to_retgen(prompt: str) -> str:
    """The sentences that the passages give, and the answer if they give it."""
    question = re.search(r"Q: (.*)", prompt)[1]  # type: ignore[index]
    sentences, reached = _follow(prompt, question)
    answer = reached if len(sentences) == _count_hops(question) else "unknown"
    return f"{' '.join(sentences)}\nAnswer: {answer}"


def reply_to_ircot(prompt: str) -> str:
    """The next sentence of the chain that the passages give, or the answer."""
    question, thoughts = re.findall(r"Q: (.*)\nA:(.*)", prompt)[-1]
    sentences, _ = _follow(prompt, question)
    written = [sentence for sentence in sentences if sentence in thoughts]
    if len(written) == _count_hops(question):
        return f"So the answer is: {_follow(thoughts, question)[1]}."
    return sentences[len(written)] if len(sentences) > len(written) else "I do not know more."


def reply_to_react(prompt: str) -> str:
    """A search for the name that was reached, or the answer."""
    question = re.search(r"Question: (.*)", prompt)[1]  # type: ignore[index]
    sentences, reached = _follow(prompt, question)
    action = (
        f"Finish[{reached}]" if len(sentences) == _count_hops(question) else f"Search[{reached}]"
    )
    return f" {len(sentences)} facts.\nAction: {action}"


@pytest.fixture(scope="module")
def ask(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., tuple[list[Sample], list[Outcome[Answer]]]]:
    """A function that answers all questions of the world by a strategy, with BM25 and a scripted
    reader.
    """
    folder = tmp_path_factory.mktemp("hops")
    retriever = BM25()
    retriever.build(lambda: iter(WORLD.passages), folder / "index")
    searcher = retriever.open(folder / "index")
    passages = {passage.passage_id: passage for passage in WORLD.passages}
    found = searcher.search(WORLD.questions, N)
    contexts = [
        [
            Context(
                passages[hit.passage_id],
                rank,
                hit.score,
                False,
                hit.passage_id in question.gold_passage_ids,
            )
            for rank, hit in enumerate(hits, start=1)
        ]
        for question, hits in zip(WORLD.questions, found, strict=True)
    ]

    def run(strategy: Strategy, reply: Callable[[str], str], name: str, k: int = N) -> Any:
        search = LocalSearch(lambda: searcher, lambda: passages, "bm25")
        engines = {**build_engine_map(ScriptedReader(reply, name)), **build_engine_map(search)}
        with SqliteStore(folder / "ledger.sqlite") as ledger:
            jobs = [
                Job(number, strategy.plan(question, contexts[number][:k]))
                for number, question in enumerate(WORLD.questions)
            ]
            outcomes = sorted(Driver(engines, ledger).run(jobs), key=lambda one: int(str(one.tag)))
        return [
            _build_sample(*row) for row in zip(WORLD.questions, outcomes, contexts, strict=True)
        ], outcomes

    return run


def _build_sample(
    question: Question, outcome: Outcome[Answer], contexts: Sequence[Context]
) -> Sample:
    shown = build_shown(question, outcome.steps, outcome.result.used, contexts)
    prediction = Prediction(
        question.question_id, outcome.result.text, outcome.result.unknown, usage=outcome.usage
    )
    return Sample(question, prediction, shown=shown)


def _compute_accuracy(samples: Sequence[Sample], hops: int) -> float:
    own = [sample for sample in samples if len(sample.question.gold_passage_ids) == hops]
    return float(
        np.mean([exact_match(sample.prediction.answer, sample.question.answers) for sample in own])
    )


def test_each_round_of_iter_retgen_finds_one_fact_more(ask: Any) -> None:
    """One round answers nothing, two answer two hops, three answer all, and a fourth costs tokens
    and gains nothing.
    """
    accuracy, tokens, evidence, values = {}, {}, {}, []
    for rounds in (1, 2, 3, 4):
        samples, outcomes = ask(
            IterRetGen(PROMPT, Decoding(), rounds=rounds, n=N), reply_to_retgen, "retgen"
        )
        accuracy[rounds] = [_compute_accuracy(samples, hops) for hops in (2, 3)]
        tokens[rounds] = sum(usage.tokens_in for outcome in outcomes for usage in outcome.usage)
        values.append(
            [exact_match(sample.prediction.answer, sample.question.answers) for sample in samples]
        )
        gold = EvidenceRecall("g", "G", of="gold")
        evidence[rounds] = [
            float(np.mean([gold.score(sample) for sample in part]))
            for part in (samples[:20], samples[20:])
        ]
    assert accuracy == {1: [0.0, 0.0], 2: [1.0, 0.0], 3: [1.0, 1.0], 4: [1.0, 1.0]}
    assert evidence == {
        1: pytest.approx([1 / 2, 1 / 3]), 2: pytest.approx([1.0, 2 / 3]), 3: [1.0, 1.0],
        4: [1.0, 1.0],
    }  # fmt: skip
    assert tokens[1] < tokens[2] < tokens[3] < tokens[4]
    frontier = compute_frontier(list(tokens.values()), np.array(values), 0)
    assert (frontier.cells, frontier.best.tolist()) == (
        (0, 1, 2),
        [0.0, 0.5, 1.0, 1.0],
    ), "it bends where the hops end"
    assert frontier.low[1] > frontier.high[0], "two rounds are better than one for sure"


def test_evidence_by_round_is_that_of_fewer_rounds(ask: Any) -> None:
    """The metric of the first r rounds of a run equals that of a run of r rounds."""
    samples, _ = ask(IterRetGen(PROMPT, Decoding(), rounds=4, n=N), reply_to_retgen, "retgen")
    for rounds, shares in ((1, (1 / 2, 1 / 3)), (2, (1.0, 2 / 3)), (3, (1.0, 1.0))):
        metric = EvidenceRecall("g", "G", of="gold", rounds=rounds)
        for part, share in zip((samples[:20], samples[20:]), shares, strict=True):
            assert [metric.score(sample) for sample in part] == pytest.approx([share] * 20)
    assert {FirstHit("f", "F", of="gold").score(sample) for sample in samples} == {1.0}
    assert {FirstHit("f", "F", of="answer").score(sample) for sample in samples[:20]} == {2.0}
    assert {Rounds("r", "R").score(sample) for sample in samples} == {4.0}
    repeated = [RepeatedQueries("q", "Q").compute_terms(sample) for sample in samples]
    assert set(repeated[:20]) == {(1.0, 3.0)}, "the third query of two hops is the second"
    assert set(repeated[20:]) == {(0.0, 3.0)}


def test_agents_stop_where_the_hops_end(ask: Any) -> None:
    """IRCoT and ReAct answer all, with as many searches as there are facts to find."""
    template = "{contexts}\nQ: {question}\nA: {thoughts}"
    samples, outcomes = ask(
        Ircot(PROMPT, Decoding(), template, n=N, answer_by="chain"), reply_to_ircot, "ircot"
    )
    assert [_compute_accuracy(samples, hops) for hops in (2, 3)] == [1.0, 1.0]
    searches = [
        sum(step.calls for step in outcome.steps if step.kind == "search") for outcome in outcomes
    ]
    assert searches == [2] * 20 + [3] * 20
    samples, outcomes = ask(
        React(PROMPT, Decoding(), "{contexts}\nQuestion: {question}", n=2),
        reply_to_react,
        "react",
        k=0,
    )
    assert [_compute_accuracy(samples, hops) for hops in (2, 3)] == [1.0, 1.0]
    searches = [
        sum(step.calls for step in outcome.steps if step.kind == "search") for outcome in outcomes
    ]
    assert searches == [2] * 20 + [3] * 20
    assert {outcome.stop for outcome in outcomes} == {"answer"}
    short, _ = ask(
        React(PROMPT, Decoding(), "{contexts}\nQuestion: {question}", n=2, max_turns=3),
        reply_to_react,
        "react",
        k=0,
    )
    assert [_compute_accuracy(short, hops) for hops in (2, 3)] == [1.0, 0.0]


def test_a_query_of_many_words_finds_what_it_names(tmp_path: Path) -> None:
    """10,000 characters of chatter around a name."""
    retriever = BM25()
    retriever.build(lambda: iter(WORLD.passages), tmp_path)
    query = f"{'well then ' * 1000}{WORLD.passages[7].text}"
    ((hit, *_),) = retriever.open(tmp_path).search([Question("q", query, ("",))], N)
    assert hit.passage_id == WORLD.passages[7].passage_id


def test_the_world_is_what_its_settings_say() -> None:
    """Equal seeds give equal worlds; names are distinct; each question's way leads to
    its answer.
    """
    assert build_hops(HopsSettings(questions=20)) == WORLD
    assert build_hops(HopsSettings(questions=20, seed=1)) != WORLD
    texts = {passage.passage_id: passage.text for passage in WORLD.passages}
    assert len(texts) == len(set(texts.values())) == 3 * 40
    assert [*texts][:3] != ["2-0-0", "2-0-1", "2-0-2"], "in no order"
    assert len(build_hops(HopsSettings(questions=2450)).questions) == 4900
    for question in WORLD.questions:
        way = " ".join(texts[name] for name in question.gold_passage_ids)
        assert _follow(way, question.text)[1] == question.answers[0]
        assert not any(
            question.answers[0] in texts[name] for name in question.gold_passage_ids[:-1]
        )
    one = build_hops(replace(HopsSettings(), questions=1, hops=(1,)))
    assert isinstance(one, HopsWorld)
    assert one.questions[0].text.startswith("In which town does ")


@pytest.mark.parametrize(
    "settings",
    [{"questions": 0}, {"hops": ()}, {"hops": (4,)}, {"questions": 2451}, {"hops": (2, 2)}],
)
def test_worlds_without_questions_are_refused(settings: dict[str, Any]) -> None:
    """With what was received."""
    with pytest.raises(ConfigError, match="received HopsSettings"):
        HopsSettings(**settings)
