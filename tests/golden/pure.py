"""Outputs of components without a model: strategies, placements, prompts, parsers, metrics."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from golden import GREEDY, PROMPT, REPLIES, SAMPLED, Golden
from inputs import QUESTIONS, contexts, write_files

from tests.plans import play
from winnow.contexts.counterfactual import Counterfactual
from winnow.contexts.damage import Damage
from winnow.contexts.distractors import Distractors
from winnow.contexts.placement import Placement
from winnow.contexts.weighting import ContextWeighting
from winnow.datasets.hub import HubQuestions
from winnow.datasets.split import Split
from winnow.metrics.base import Sample, Shown
from winnow.predictions import Prediction, Price, RoleUsage
from winnow.records import Passage
from winnow.requests import Estimate, Generate, Generation, Likelihood, Pages, Plan, Score, Search
from winnow.strategies.corrective.crag import CorrectiveRetrieval
from winnow.strategies.corrective.evaluators import JudgedRelevance, parse_verdict
from winnow.strategies.corrective.searching import KnowledgeSearch
from winnow.strategies.demonstrations import Shots
from winnow.strategies.marginal import Marginal
from winnow.strategies.rounds.react import React
from winnow.strategies.self_rag.segments import Retrieval
from winnow.strategies.self_rag.short_form import SelfRag
from winnow.strategies.vote import Vote


def pick(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def run_plan(plan: Plan[Any], replies: Sequence[str] = REPLIES) -> list[Any]:
    """The prompts of every round and the result; replies and scores are drawn by the request's
    text.
    """
    record: list[Any] = []

    def serve(request: Any) -> Any:
        if isinstance(request, Estimate):
            record.append(["Estimate", request.question, request.title, request.text])
            return Score((pick(repr(record[-1])) % 97 - 48) / 10)
        if isinstance(request, Search):
            record.append(["Search", request.query, request.n, *request.averaged])
            return Pages(
                (
                    Passage(
                        "page", request.query, f"The page of {request.query}. It is long. It ends."
                    ),
                )
            )
        texts = [[message.role, message.content] for message in request.messages]
        more = (
            request.continuation
            if isinstance(request, Likelihood)
            else [request.sample, request.token_logprobs]
        )
        record.append([type(request).__name__, texts, more])
        number = pick(repr(record[-1]))
        if isinstance(request, Generate) and request.token_logprobs:
            return reflect(number, request.token_logprobs)
        is_text = isinstance(request, Generate)
        return Generation(replies[number % len(replies)]) if is_text else Score(-(number % 97) / 10)

    result, _ = play(plan, serve)
    return [*record, result]


def reflect(number: int, tokens: Sequence[str]) -> Generation:
    """A reply of three segments, with probabilities of named tokens, of which one is written at
    each of four positions.
    """
    texts = [
        REPLIES[number % len(REPLIES)],
        tokens[number % len(tokens)],
        REPLIES[number % 7],
        tokens[number % 5],
    ]
    logprobs = {
        token: tuple(-((number + 31 * i + 17 * j) % 89) / 10 for j in range(4))
        for i, token in enumerate(tokens)
    }
    positions = {
        token: tuple(index for index, text in enumerate(texts) if text == token) for token in tokens
    }
    return Generation(
        "".join(texts),
        logprobs=(-0.5, -1.0, -0.1, -0.2),
        token_logprobs=logprobs,
        token_positions=positions,
    )


def self_rag(component: type) -> Golden:
    """Plans with and without a correction, by each rule for retrieval."""

    def output(_: Path) -> Any:
        variants: list[dict[str, Any]] = [{"choose": choose} for choose in ("best", "sum")]
        variants = (
            variants
            if component is SelfRag
            else [{"beam_width": width, "max_segments": 3} for width in (1, 2)]
        )
        correction = CorrectiveRetrieval(search=KnowledgeSearch(n=2))
        whens: list[Any] = ["adaptive", "always", "never"]
        plans = [
            component(PROMPT, GREEDY, Retrieval(when), correction=corrected, **more).plan(
                question, contexts(question)[:3]
            )
            for when in whens
            for corrected in (None, correction)
            for more in variants
            for question in QUESTIONS
        ]
        return [run_plan(plan) for plan in plans]

    return Golden(component, output)


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
                        plans += [
                            built.plan(question, chosen),
                            built.plan(question, weighted.apply(chosen)),
                        ]
        return [run_plan(plan) for plan in plans]

    return Golden(component, output)


def agents(_: Path) -> Any:
    actions = (
        "Look.\nAction 1: Search[x y]",
        "Read.\nAction: Lookup[long]",
        "I think",
        "Act\nAction: Finish[Paris]",
        "Search[z]",
    )
    agent = React(PROMPT, GREEDY, "{contexts} Q {question}", n=2, max_turns=4)
    plans = [agent.plan(question, contexts(question)[:k]) for question in QUESTIONS for k in (0, 2)]
    return [run_plan(plan, actions) for plan in plans]


def placements(_: Path) -> Any:
    orders: list[Any] = ["retrieved", "first", "last", "random", 2]
    golds: list[Any] = ["keep", "insert", "remove"]
    rules = [Placement(gold, order) for gold in golds for order in orders]
    placed = [
        rule.place(question, contexts(question), k)
        for rule in rules
        for question in QUESTIONS
        for k in (2, 4)
    ]
    return [
        [[c.passage.passage_id for c in one.contexts], one.gold_position, one.provenance]
        for one in placed
    ]


def false_answers(_: Path) -> Any:
    answers = [answer for question in QUESTIONS for answer in question.answers] + [
        "Rome",
        "Lima",
        "1900",
        "1901",
    ]
    rules = [Counterfactual(order, seed, answers) for order in ("first", 2) for seed in (1, 2)]  # type: ignore[arg-type]
    placed = [
        rule.place(question, contexts(question), 2) for rule in rules for question in QUESTIONS
    ]
    return [
        [(c.passage.title, c.passage.text, c.substitute) for c in one.contexts] for one in placed
    ]


def distractors(_: Path) -> Any:
    pool = [context.passage for question in QUESTIONS for context in contexts(question)]
    pool += [
        Passage(f"x{number}", "", f"Stones number {number} are grey and heavy.")
        for number in range(6)
    ]
    kinds: list[Any] = ["hard", "easy", "random"]
    rules = [Distractors(kind, words) for kind in kinds for words in (None, 4)]
    chosen = [
        rule.replace_contexts(question, contexts(question), 2, pool)
        for rule in rules
        for question in QUESTIONS
    ]
    return [
        [(c.passage.passage_id, c.passage.text, c.rank, c.is_gold) for c in one] for one in chosen
    ]


def damages(_: Path) -> Any:
    rules = [Damage(share, seed) for share in (0.0, 0.5, 1.0) for seed in (1, 2)]
    placed = [
        rule.place(question, contexts(question), k)
        for rule in rules
        for question in QUESTIONS
        for k in (2, 4)
    ]
    return [[c.passage.passage_id for c in one.contexts] for one in placed]


def verdicts(_: Path) -> Any:
    judge = JudgedRelevance("{question} {title} {text}", 8)
    return [
        *(
            run_plan(judge.evaluate(question, [c.passage for c in contexts(question)]))
            for question in QUESTIONS
        ),
        [parse_verdict(reply) for reply in REPLIES],
    ]


def weightings(_: Path) -> Any:
    names: list[Any] = ["none", "retriever", "estimator"]
    rules = [ContextWeighting(by, 0.5) for by in names]
    return [
        [c.log_weight for c in rule.apply(contexts(question))]
        for rule in rules
        for question in QUESTIONS
    ]


def prompts(_: Path) -> Any:
    shots = Shots(count=2)
    drawn = shots.build_demonstrations((q, contexts(q)) for q in shots.draw_candidates(QUESTIONS))
    few = replace(
        PROMPT,
        with_contexts="{demonstrations} {contexts} Q {question}",
        with_candidates="{demonstrations}{contexts}{candidates}{question}",
        demonstration="{number} {contexts} {question} {answer}",
        shots=shots,
        demonstrations=drawn,
        system="Be brief.",
    )
    cases = [
        (q, contexts(q)[:k], candidates)
        for q in QUESTIONS
        for k in (0, 1, 3)
        for candidates in ((), ("a", "b"))
    ]
    return [
        form.render(q, c, names if c else ()) for form in (PROMPT, few) for q, c, names in cases
    ]


def demonstrations(_: Path) -> Any:
    shots = [Shots(count=2), Shots(count=3, seed=5)]
    return [
        one.build_demonstrations((q, contexts(q)) for q in one.draw_candidates(QUESTIONS))
        for one in shots
    ]


def parser(component: type, *names: str, **settings: Any) -> Golden:
    def output(folder: Path) -> Any:
        write_files(folder)
        return [list(component(path=str(folder / name), **settings)) for name in names]

    return Golden(component, output)


def with_files(component: type, build: Callable[[Path], Any]) -> Golden:
    return Golden(component, lambda folder: list(build(write_files(folder))))


def splits(_: Path) -> Any:
    unassigned = [replace(question, split="") for question in QUESTIONS]
    drawn, one = (
        list(split.assign(unassigned)) for split in (Split(test=1, dev=2, seed=3), Split(all="dev"))
    )
    return [drawn, one, list(Split(given=True).assign(QUESTIONS))]


def samples() -> list[Sample]:
    rows = []
    for number, reply in enumerate(REPLIES):
        question = QUESTIONS[number % len(QUESTIONS)]
        usage = (
            RoleUsage(
                "reader",
                1 + number % 3,
                100 + number,
                number % 7,
                cut=number % 2,
                empty=number % 3 // 2,
                replies=1 + number % 3,
            ),
            RoleUsage("judge", 1, 10, 1, replies=1),
        )
        candidates = (reply, *question.answers) if number % 3 else ()
        shown = contexts(question)[:3]
        used = tuple(context.passage.passage_id for context in shown)
        unknown, cited = number % 4 == 0, f"{reply} [{1 + number % 4}][1]"
        prediction = Prediction(
            question.question_id, reply, unknown, candidates, cited, used_ids=used, usage=usage
        )
        prices = {"reader": Price(1.0, 2.0)}
        rows.append(
            Sample(question, prediction, shown, prices, contexts(question), Shown(shown, shown))
        )
    return rows


def metric(*metrics: Any) -> Golden:
    return Golden(
        type(metrics[0]),
        lambda _: [[m.compute_row(sample) for sample in samples()] for m in metrics],
    )


def distracted(component: type) -> Golden:
    def output(_: Path) -> Any:
        metric, traces = component("m", "m"), ("answered: 1 3", "answered: none", "kept: 0")
        chosen = [
            (replace(one.prediction, trace=(trace,)), one) for one in samples() for trace in traces
        ]
        return [
            metric.compute_row(replace(one, prediction=prediction)) for prediction, one in chosen
        ]

    return Golden(component, output)


def contradicted(*metrics: Any) -> Golden:
    """Each reply where the first passage was changed to say it, or the next reply."""

    def output(_: Path) -> Any:
        rows = []
        for number, one in enumerate(samples()):
            for substitute in (REPLIES[number], REPLIES[number - 1], ""):
                placed = [replace(context, substitute=substitute) for context in one.placed[:1]]
                rows += [metric.compute_row(replace(one, placed=placed)) for metric in metrics]
        return rows

    return Golden(type(metrics[0]), output)


def classified(component: type) -> Callable[[Path], Any]:
    """Each reply as that to a question with choices and a claim; the reply that others have to it
    is a choice too.
    """

    def output(_: Path) -> Any:
        rows = []
        for number, one in enumerate(samples()):
            choices = dict(zip("ABC", (REPLIES[number], REPLIES[number - 1], "x"), strict=True))
            meta = json.dumps(
                {"choices": choices, "key": "ABC"[number % 3], "file_key": "ABC"[number % 3]}
            )
            question = replace(one.question, meta=meta, answers=("true", "false")[number % 2 :][:1])
            sample = replace(one, question=question)
            rows.append(
                [
                    component("m", "m", dialect=dialect).compute_row(sample)
                    for dialect in ("fixed", "crag")
                ]
            )
        return rows

    return output


def breakdown(one: Any) -> Golden:
    return Golden(type(one), lambda _: one.assign_groups(samples()))


def hub_questions(folder: Path) -> HubQuestions:
    return HubQuestions(
        "json",
        "train",
        answers_column="answer.aliases",
        options={"data_files": f"{folder}/hub.jsonl"},
    )
