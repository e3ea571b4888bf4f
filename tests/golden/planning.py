"""Outputs of plans of several rounds, of context processors, and of damaged corpora."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from golden import GREEDY, PROMPT, REPLIES, SAMPLED, Golden
from inputs import QUESTIONS, contexts
from pure import run_plan

from tests.plans import play
from winnow.contexts.damage import Damage
from winnow.contexts.distractors import Distractors
from winnow.contexts.placement import Placement
from winnow.records import Context, Passage
from winnow.requests import Generation, Pages, Score, Search, ToolCall, TooLong
from winnow.retrievers.plans.hyde import Hyde
from winnow.retrievers.plans.queries import WrittenQueries
from winnow.retrievers.plans.query_likelihood import QueryLikelihood
from winnow.retrievers.plans.rank_gpt import RankGpt
from winnow.searchers.damage import SearchDamage
from winnow.strategies.corrective.refinement import Refinement
from winnow.strategies.processing.order import Reordering
from winnow.strategies.processing.sentences import SentenceSelection
from winnow.strategies.processing.summary import Summary
from winnow.strategies.processing.words import WordSelection
from winnow.strategies.rounds.adaptive import Adaptive
from winnow.strategies.rounds.flare import Flare
from winnow.strategies.rounds.iter_retgen import IterRetGen
from winnow.strategies.rounds.self_ask import SelfAsk
from winnow.strategies.rounds.tagged import TaggedSearch
from winnow.strategies.rounds.tool_agent import ToolAgent
from winnow.strategies.rounds.unsure import Unsure
from winnow.strategies.sure import SuRe
from winnow.sweeps.searches import SearchRules
from winnow.testing import PASSAGES

_ORDERS = ("[2] > [1]", "3, 1, 9", "none", "<think>[1]</think>[3] [2]", *REPLIES[:3])
_WRITTEN = ("1. one\n2. two\n- one\n\n3) three", "", *REPLIES[:3])
_LIST = RankGpt(
    system="S", beginning="{number} {question}", welcome="W", passage="{number} {title} {text}",
    received="R{number}", request="{question} {number}", decoding=GREEDY, window=3, step=2, top=4,
    max_words=3,
)  # fmt: skip
_PLANS: list[tuple[Any, tuple[str, ...]]] = [
    (Hyde("{question}", SAMPLED), REPLIES),
    (WrittenQueries("{question}", GREEDY), _WRITTEN),
    (WrittenQueries("{n} {question}", GREEDY, n=3, with_question=True, rrf_k=10), _WRITTEN),
    (_LIST, _ORDERS),
    (QueryLikelihood("{title} {text}", top=3), REPLIES),
]


def retrieval_plan(component: type) -> Golden:
    """What the plan of each question requests, and the hits that it returns."""

    def output(_: Path) -> Any:
        plans = [(plan, replies) for plan, replies in _PLANS if isinstance(plan, component)]
        return [
            run_plan(plan.plan(question, contexts(question), 4), replies)
            for plan, replies in plans
            for question in QUESTIONS
        ]

    return Golden(component, output)


def writers(component: type) -> Golden:
    """Chains and replies that are written in several rounds, by each of several replies; FLARE's
    have tokens.
    """

    def output(_: Path) -> Any:
        settings: dict[type, dict[str, Any]] = {
            Flare: {"template": _CHAIN, "max_sentences": 3},
            SelfAsk: {"template": _CHAIN, "max_follow_ups": 2},
            Adaptive: {"template": "{question}", "chain": _CHAIN, "by": "reply"},
            Unsure: {"threshold": 0.5},
            TaggedSearch: {
                "template": "{contexts} Q {question}", "query": ["<s>", "</s>"],
                "result": "[{contexts}]", "answer": ["<a>", "</a>"], "max_searches": 2,
            },
        }  # fmt: skip
        strategy = component(PROMPT, GREEDY, **settings[component])
        replies = (
            list(map(_add_tokens, _PARTS))
            if component in (Flare, Unsure)
            else list(map(Generation, _PARTS))
        )
        return [
            _play(strategy.plan(question, contexts(question)[:k]), replies[n:] + replies[:n])
            for n, question in enumerate(QUESTIONS) for k in (0, 2)
        ]  # fmt: skip

    return Golden(component, output)


_CHAIN = "{contexts} Q {question} A {thoughts}"
_PARTS = (
    "Paris is large. It is old.", "C", "Follow up: Where is it?", "In France. <s>river of Paris",
    "So the answer is: the Seine.", "So the final answer is: it. <a>Seine",
)  # fmt: skip


def _add_tokens(text: str) -> Generation:
    """A reply whose words are its tokens, of which each third one is improbable."""
    words = text.split(" ")
    tokens = tuple(word if n == 0 else f" {word}" for n, word in enumerate(words))
    return Generation(
        text, logprobs=tuple(-0.1 if n % 3 else -3.0 for n in range(len(words))), tokens=tokens
    )


def _play(plan: Any, replies: Sequence[Any]) -> list[Any]:
    """The requests of a plan with these replies in turn, and its result."""
    served = itertools.cycle(replies)
    result, requests = play(
        plan, lambda request: _find(request) if isinstance(request, Search) else next(served)
    )
    return [*requests, result]


def tool_agents(_: Path) -> Any:
    """Conversations with calls that are in order, odd ones, and none."""
    calls = [
        ToolCall("search", '{"query": "a b"}', "1"),
        ToolCall("search", "x", "2"),
        ToolCall("browse", "{}", "3"),
    ]
    turns = [
        Generation("Hm.", tool_calls=tuple(calls)),
        Generation("", tool_calls=(calls[0],)),
        Generation("<think>.</think>Paris"),
    ]
    agent = ToolAgent(PROMPT, GREEDY, system="S", n=2, max_searches=1)
    long = [turns[1], TooLong("9 tokens"), turns[2]]
    return [
        _play(agent.plan(question, contexts(question)[:1]), replies)
        for question in QUESTIONS
        for replies in (turns, long)
    ]


def _find(request: Search) -> Pages:
    return Pages((Passage("page", request.query, f"The page of {request.query}."),))


def search_damages(_: Path) -> Any:
    """What passages become whose words are the answers to questions."""
    passages = {passage.passage_id: passage for passage in PASSAGES}
    relevant = {id_: QUESTIONS[:2] if n % 2 else QUESTIONS[2:3] for n, id_ in enumerate(passages)}
    kinds: list[Any] = ["removed", "poisoned"]
    rules = [
        SearchDamage(how, share, seed) for how in kinds for share in (0.5, 1.0) for seed in (1, 2)
    ]
    return [rule.change(relevant, passages, QUESTIONS) for rule in rules]


def search_rules(_: Path) -> Any:
    """The requests and answers of a plan whose searches are placed or have a budget."""
    question = replace(QUESTIONS[0], gold_passage_ids=(PASSAGES[1].passage_id,))
    known = [
        Context(one, n, 1.0, has_answer=False, is_gold=n == 2)
        for n, one in enumerate(PASSAGES, start=1)
    ]
    placements: list[Any] = [
        Placement("insert", "first"),
        Placement("remove"),
        Placement("insert_all", "last"),
        Damage(1.0),
    ]
    rules = [
        *(SearchRules(placed=True) for _ in placements),
        SearchRules(max_searches=1),
        SearchRules(max_tokens=0),
    ]
    return [
        _play(
            rule.apply(
                IterRetGen(PROMPT, GREEDY, n=2).plan(question, ()),
                question,
                known,
                PASSAGES,
                Distractors(),
                placement,
            ),
            list(map(Generation, _PARTS)),
        )
        for rule, placement in zip(rules, [*placements, Placement(), Placement()], strict=True)
    ]


def processor(component: type, *processors: Any) -> Golden:
    """What context processors request, and the contexts that they return."""

    def output(_: Path) -> Any:
        return [
            run_plan(processor.process(question, contexts(question)))
            for processor in processors
            for question in QUESTIONS
        ]

    return Golden(component, output)


def word_selections(_: Path) -> Any:
    """The words that are kept of each passage, whose tokens are improbable by their length."""

    def serve(request: Any) -> Score:
        tokens = tuple(re.findall(r" *\w{1,4}|\W", request.continuation))
        given = len(request.messages[0].content)
        logprobs = tuple(-float(len(token) * (n + given) % 7) for n, token in enumerate(tokens))
        return Score(sum(logprobs), tokens=tokens, logprobs=logprobs)

    rules = WordSelection("W"), WordSelection("W", 0.3, "{question}")
    return [
        play(rule.process(question, contexts(question)), serve)
        for rule in rules
        for question in QUESTIONS
    ]


def sure(_: Path) -> Any:
    """Candidates, summaries and verdicts on them."""
    templates = "{contexts} C {question}", "{contexts} S {question} {candidate}"
    judging = "V {question} {candidate} {summary}", "R {question} {first} {second}"
    parts = (
        "(a) Paris, (b) Rome (c) Bern",
        "It is. [DONE] x",
        "It is not.",
        "True",
        "Passage 2",
        "passage 1",
        "?",
    )
    replies = list(map(Generation, parts))
    strategy = SuRe(PROMPT, GREEDY, *templates, *judging, max_candidates=3)
    return [
        _play(strategy.plan(question, contexts(question)[:2]), replies[n:] + replies[:n])
        for question in QUESTIONS[:2] for n in (0, 6)
    ]  # fmt: skip


PLAN_OUTPUTS = [
    *map(retrieval_plan, (Hyde, WrittenQueries, RankGpt, QueryLikelihood)),
    Golden(SearchDamage, search_damages),
    Golden(SearchRules, search_rules),
    Golden(WordSelection, word_selections),
    Golden(SuRe, sure),
    processor(
        SentenceSelection,
        SentenceSelection(),
        SentenceSelection(Refinement(threshold=0.0, join="all")),
    ),
    processor(
        Summary,
        Summary("{contexts} {question}", GREEDY),
        Summary("{contexts} {question}", GREEDY, "each", "{title} {text}"),
    ),
    processor(Reordering, Reordering(), Reordering("reversed")),
    Golden(ToolAgent, tool_agents),
    *map(writers, (Flare, SelfAsk, TaggedSearch, Adaptive, Unsure)),
]
