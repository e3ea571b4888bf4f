"""Outputs of metrics that a judge or a model of entailment decides."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from golden import REPLIES, Golden
from numpy.typing import NDArray
from pure import pick, run_plan, samples

from tests.plans import play
from winnow.metrics import ragas, ragchecker
from winnow.metrics.answer_relevancy import AnswerRelevancy
from winnow.metrics.base import JudgedMetric
from winnow.metrics.entailment import CitationSupport
from winnow.metrics.judged import JudgedAccuracy
from winnow.metrics.ragas import Ragas
from winnow.metrics.ragchecker import RagChecker
from winnow.metrics.sufficiency import SufficientContext
from winnow.requests import Generation


def judged(_: Path) -> Any:
    metric = JudgedAccuracy("judged", "judged", template="Q {question} A {answers} G {answer}")
    return [run_plan(metric.plan(sample)) for sample in samples()]


def supported(_: Path) -> Any:
    """Both measures by each reply, whose two sentences cite differently."""
    rows = []
    for of in ("recall", "precision"):
        metric = CitationSupport("m", "m", of=of, hypothesis="{question} {sentence}", most=2)  # type: ignore[arg-type]
        for sample in samples():
            reply = f"{sample.prediction.reply}. And more [2][3][1]."
            rows.append(
                run_plan(
                    metric.plan(replace(sample, prediction=replace(sample.prediction, reply=reply)))
                )
            )
    return rows


def judge_claims(metrics: Sequence[JudgedMetric]) -> list[Any]:
    """The prompts and the value of each metric for two samples; lists, verdicts and words are drawn
    by the prompt's text.
    """
    record: list[Any] = []

    def serve(request: Any) -> Generation:
        (message,) = request.messages
        record.append(
            [message.role, message.content, request.decoding.max_new_tokens, request.role]
        )
        number, prompt = pick(message.content), str(message.content)
        if prompt.endswith("Claims:"):
            return Generation("\n".join(f"- claim {n}" for n in range(1 + number % 7)))
        if prompt.endswith("Reply with yes or no."):
            return Generation(("Yes.", "no", "Perhaps")[number % 3])
        if prompt.startswith("Relevant"):
            return Generation(
                f"Question: question {number % 5}?\nNoncommittal: {('no', 'yes')[number % 2]}"
            )
        if "Sufficient Context" in prompt:
            return Generation(f'So. {{"Sufficient Context": {number % 2}}}')
        labels = ("entailment", "neutral", "contradiction", "entailment")
        lines = range(
            len(re.findall(r"^\d+\. claim", prompt, re.MULTILINE)) - number % 5 // 4
        )  # sometimes one too few
        return Generation("\n".join(f"{n + 1}. {labels[pick(f'{n}{prompt}') % 4]}" for n in lines))

    for metric in metrics:
        record += [play(metric.plan(sample), serve)[0] for sample in samples()[1:3]]
    return record


def rag_checked(_: Path) -> Any:
    measures, dialects = get_args(ragchecker.Measure), ("strict", "ragchecker")
    return judge_claims(
        [RagChecker("m", "m", of=of, dialect=one) for of in measures for one in dialects]
    )  # type: ignore[arg-type]


def ragas_judged(_: Path) -> Any:
    measures, dialects = get_args(ragas.Measure), ("strict", "ragas")
    return judge_claims(
        [Ragas("m", "m", of=of, dialect=one) for of in measures for one in dialects]
    )  # type: ignore[arg-type]


class TextLengths:
    """An encoder whose vectors are a text's numbers of characters and of words."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vector of each text."""
        return np.array([[len(text), len(text.split())] for text in texts], dtype=np.float32)


def answer_relevancy(_: Path) -> Any:
    metrics = [
        AnswerRelevancy("m", "m", encoder=TextLengths(), dialect=one, template="Relevant {answer}")
        for one in ("strict", "ragas")
    ]  # type: ignore[arg-type]
    return judge_claims(metrics)


def sufficient(_: Path) -> Any:
    return judge_claims(
        [SufficientContext("m", "m", template='{question} {passages} {{"Sufficient Context": 1}}')]
    )


def looked_for(*metrics: Any) -> Golden:
    """Each reply to a question whose metadata names it, the next reply and another text."""

    def output(_: Path) -> Any:
        rows = []
        for number, one in enumerate(samples()):
            names = [REPLIES[number], REPLIES[number - 1]]
            nuggets = [
                {"text": name, "importance": kind}
                for name, kind in zip(names, ("vital", "okay"), strict=True)
            ]
            pairs = [{"short_answers": names}, {"short_answers": ["x"]}]
            meta = {
                "qa_pairs": pairs,
                "answers": [names, ["x"]],
                "claims": names,
                "nuggets": nuggets,
            }
            sample = replace(one, question=replace(one.question, meta=json.dumps(meta)))
            for metric in metrics:
                is_judged = isinstance(metric, JudgedMetric)
                rows.append(
                    run_plan(metric.plan(sample)) if is_judged else metric.compute_row(sample)
                )
        return rows

    return Golden(type(metrics[0]), output)
