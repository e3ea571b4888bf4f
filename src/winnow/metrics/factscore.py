"""Judged share of a long answer's facts that passages support (FactScore, Min et al. 2023)."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.errors import ConfigError, InputError
from winnow.identity.markers import InputFile
from winnow.identity.values import Template
from winnow.metrics.articles import load_articles
from winnow.metrics.base import Input, JudgedMetric, Sample
from winnow.records import Decoding, Passage, Question
from winnow.requests import Generate, Generation, Message, Plan
from winnow.text.abbreviations import NOT_AN_END
from winnow.text.final import extract_final_text

Measure = Literal["score", "facts"]
_SENTENCE_END = re.compile(rf"(?<=[.!?]){NOT_AN_END}(?<!^\d\.)(?<!^\d\d\.)\s+(?=[\"'(\[]?[A-Z0-9])")
_LISTED = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_NEXT_EXAMPLE = re.compile(
    r"^[ \t]*(?:Sentence|Question|Answer|Claims):", re.MULTILINE | re.IGNORECASE
)
_NEGATIONS = ("not", "cannot", "unknown", "information")

_MAX_VERDICT_TOKENS = 64
"""Length of a verdict, of which some judges begin with a clause."""


@dataclass(frozen=True)
class FactScore(JudgedMetric):
    """Share of an answer's facts that passages support, with a penalty for short answers.

    The judge divides each sentence of the answer into facts, and then decides on each fact: as
    published, from the passages of the topic's article that match the fact best (`articles`), or
    from the first contexts of the retriever, which are the same for all facts. As published, the
    share of an answer with n facts is multiplied by exp(1 - gamma / n) if n is at most gamma. A
    sentence for which the judge lists no facts is one fact.

    The metric is undefined for questions whose answer is "unknown", a refusal or empty: report it
    next to %Unk, which counts them. It is undefined, too, if a list of facts was cut, if a reply of
    the judge is missing or was cut while it reasoned, and for a topic without an article.

    Args:
        split_template: Template of the prompt for the facts, with the field {sentence}. The reply
            lists them, one per line.
        check_template: Template of the prompt for a decision, with the fields {topic}, {passages}
            and {fact}.
        articles: File of articles, JSON lines with `title` (the topic) and `text`, or "" for the
            contexts of the retriever.
        passages: Number of passages on which a decision rests (published: 5).
        gamma: Number of facts below which answers are penalised (published: 10), or 0 for no
            penalty.
        of: "score", or "facts" for the number of facts.
        max_new_tokens: Maximum number of tokens in a list of facts.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "ranking"})

    split_template: Annotated[str, Template("sentence")] = ""
    check_template: Annotated[str, Template("topic", "passages", "fact")] = ""
    articles: Annotated[str, InputFile] = ""
    passages: Annotated[int, Ge(1)] = 5
    gamma: Annotated[int, Ge(0)] = 10
    of: Measure = "score"
    max_new_tokens: Annotated[int, Ge(1)] = 256

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Request each sentence's facts, then decisions, and return the score or the fact count."""
        sentences = [] if sample.prediction.unknown else split_sentences(sample.whole_answer)
        if not sentences:
            return None
        topic = "" if self.of == "facts" else _find_topic(sample.question)
        replies = yield [
            self._build_request(self.split_template.format(sentence=text), self.max_new_tokens)
            for text in sentences
        ]
        if any(reply.finish == "length" or _is_missing(reply) for reply in replies):
            return None  # a list that was cut is not the whole
        facts = [
            fact
            for text, reply in zip(sentences, replies, strict=True)
            for fact in parse_facts(reply.text) or [text]
        ]
        if self.of == "facts":
            return float(len(facts))
        knowledge = [self._select_passages(sample, topic, fact) for fact in facts]
        if None in knowledge:
            return None  # the topic has no article
        verdicts = yield [
            self._build_request(
                self.check_template.format(
                    topic=topic, passages=_format_passages(passages or ()), fact=fact
                ),
                _MAX_VERDICT_TOKENS,
            )
            for fact, passages in zip(facts, knowledge, strict=True)
        ]
        if any(map(_is_undecided, verdicts)):
            return None
        return compute_score([parse_support(verdict.text) for verdict in verdicts], self.gamma)

    def _select_passages(self, sample: Sample, topic: str, fact: str) -> Sequence[Passage] | None:
        """Return the passages for the decision on a fact, or None if the topic has no article."""
        if not self.articles:
            return [context.passage for context in sample.ranking[: self.passages]]
        path = Path(self.articles)
        if not path.is_file():
            raise ConfigError(
                f"metric.{self.name}.articles={self.articles}: there is no such file. It has a "
                'line per topic, {"title": ..., "text": ...}; use metric=[factscore_ranking] '
                "for decisions from the retrieved passages."
            )
        return load_articles(path, path.stat().st_mtime_ns).select(topic, fact, self.passages)

    def _build_request(self, prompt: str, max_new_tokens: int) -> Generate:
        """Build a request to the judge."""
        return Generate(
            (Message("user", prompt.strip()),),
            Decoding(max_new_tokens=max_new_tokens),
            role="judge",
        )


def _is_missing(reply: Generation) -> bool:
    """Return whether the judge was cut while it reasoned, or a filter or the server left no text.

    An empty reply that the judge ended itself is one, as published.
    """
    is_empty = not extract_final_text(reply.text).strip()
    return is_empty and (reply.finish != "stop" or bool(reply.text.strip()))


def _is_undecided(reply: Generation) -> bool:
    """Return whether a verdict is missing, or was cut before its word "true" or "false"."""
    text = extract_final_text(reply.text).lower()
    is_open = "true" not in text and "false" not in text
    return _is_missing(reply) or (reply.finish == "length" and is_open)


def _find_topic(question: Question) -> str:
    """Return the topic of which an answer is to state facts, from the metadata of the question."""
    topic = json.loads(question.meta or "{}").get("topic")
    if not isinstance(topic, str) or not topic.strip():
        raise InputError(
            f"Question {question.question_id!r} has no topic, which FactScore needs. Give it the "
            'field "topic" in its metadata, as dataset=biography does.'
        )
    return topic


def _format_passages(passages: Sequence[Passage]) -> str:
    """Format passages for the prompt of a decision, the best one last, as published."""
    return "\n\n".join(
        f"Title: {passage.title}\nText: {passage.text}" for passage in reversed(passages)
    )


def compute_score(supported: Sequence[bool], gamma: int) -> float:
    """Compute the supported share of n >= 1 facts, times exp(1 - gamma / n) if n <= gamma."""
    share = sum(supported) / len(supported)
    return share * math.exp(1 - gamma / len(supported)) if 0 < len(supported) <= gamma else share


def split_sentences(text: str) -> list[str]:
    """Split at sentence ends before a capital or digit, but not after an initial, an abbreviation
    or the number of an entry. What has no letter is no sentence.
    """
    return [
        sentence
        for line in text.splitlines()
        for sentence in _SENTENCE_END.split(line.strip())
        if any(map(str.isalpha, sentence))
    ]


def parse_facts(reply: str) -> list[str]:
    """Return the entries of a list with bullets or numbers; other lines are ignored.

    The list ends where the judge continues with another example in the form of the prompt.
    """
    blocks = [_LISTED.findall(block) for block in _NEXT_EXAMPLE.split(extract_final_text(reply))]
    return next((facts for facts in blocks if facts), [])


def parse_support(reply: str) -> bool:
    """Return whether the judge calls a fact true, by the published rule.

    The later one of "true" and "false" counts. Without either, a fact is supported unless the reply
    contains "not", "cannot", "unknown" or "information" as a word.
    """
    text = extract_final_text(reply).lower()
    if "true" in text or "false" in text:
        return text.find("true") > text.find("false")
    return not any(word.strip(".,;:!?\"'()") in _NEGATIONS for word in text.split())
