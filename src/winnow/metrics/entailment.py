"""Faithfulness: whether cited passages entail what is said (ALCE: Gao et al. 2023, section 3)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.identity.values import Template
from winnow.metrics.base import Input, JudgedMetric, Sample
from winnow.records import Passage, Role
from winnow.requests import Estimate, Plan, Score
from winnow.text.citations import (
    find_citations,
    remove_citations,
    split_cited_items,
    split_cited_sentences,
)

Measure = Literal["recall", "precision"]


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a sentence of a reply says, and the passages that it cites, at least one."""

    hypothesis: str
    cited: tuple[Passage, ...]


@dataclass(frozen=True)
class CitationSupport(JudgedMetric):
    """Share of the sentences that their citations support, or of the citations that are needed,
    according to an NLI model.

    A sentence is supported if it cites passages that entail it together. A citation of a supported
    sentence is right unless it is needless: alone it does not entail the sentence, while the other
    citations do without it. As in ALCE's code, a sentence that cites a number without a passage is
    not supported and its citations are not counted, and only the first `most` citations of a
    sentence count. Unlike there, a passage that a sentence cites twice counts once, [0] is a number
    without a passage, and citations without a sentence are left out.

    The metric reads the passages that the prompt of the reply has *shown*, also parts of passages
    and web pages. It is undefined for a reply without a sentence, and where the steps of a cell
    were not recorded.

    Args:
        of: "recall" is the share of sentences that are supported; "precision" the share of
            citations that are right, 0 for a reply without a counted citation.
        hypothesis: Template of what a sentence says, with {sentence} and, for short answers,
            {question}.
        split: What is a sentence: "sentences", or "items" for each item of a list with commas
            between them, as ALCE reads QAMPARI's with the hypothesis "{question} {sentence}".
        most: Number of citations of a sentence that count (ALCE: 3).
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "shown"})
    roles: ClassVar[tuple[Role, ...]] = ("nli",)
    revision: ClassVar[int] = 4

    of: Measure = "recall"
    hypothesis: Annotated[str, Template("sentence", optional=("question",))] = "{sentence}"
    split: Literal["sentences", "items"] = "sentences"
    most: Annotated[int, Ge(1)] = 3

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Request whether the citations of each sentence entail it together and, for precision,
        each alone and without it.
        """
        claims = list(self._iter_claims(sample))
        if not claims:
            return None
        citing_claims = [claim for claim in claims if claim.cited]
        joint = yield from _entail([(claim.hypothesis, claim.cited) for claim in citing_claims])
        supported_claims = [
            claim for claim, is_entailed in zip(citing_claims, joint, strict=True) if is_entailed
        ]
        if self.of == "recall":
            return len(supported_claims) / len(claims)
        num_cited = sum(len(claim.cited) for claim in citing_claims)
        if not num_cited:
            return 0.0
        pairs = [
            (claim, passage)
            for claim in supported_claims
            if len(claim.cited) > 1
            for passage in claim.cited
        ]
        alone = yield from _entail([(claim.hypothesis, (passage,)) for claim, passage in pairs])
        doubtful = [pair for pair, is_entailed in zip(pairs, alone, strict=True) if not is_entailed]
        needless = yield from _entail(
            [
                (claim.hypothesis, tuple(other for other in claim.cited if other is not passage))
                for claim, passage in doubtful
            ]
        )
        return (sum(len(claim.cited) for claim in supported_claims) - sum(needless)) / num_cited

    def _iter_claims(self, sample: Sample) -> Iterator[_Claim]:
        """Yield each sentence's claim, without passages if it cites none or an invalid number."""
        if sample.shown is None:
            return
        documents = [context.passage for context in sample.shown.last]
        divide = split_cited_sentences if self.split == "sentences" else split_cited_items
        for text in divide(sample.prediction.reply):
            sentence = remove_citations(text)
            if not sentence.strip(" .!?"):
                continue
            numbers = list(dict.fromkeys(find_citations(text, len(documents), "strict")))
            is_valid = all(1 <= number <= len(documents) for number in numbers)
            cited_passages = (
                tuple(documents[number - 1] for number in numbers[: self.most]) if is_valid else ()
            )
            yield _Claim(
                self.hypothesis.format(sentence=sentence, question=sample.question.text),
                cited_passages,
            )


def _entail(claims: Sequence[tuple[str, Sequence[Passage]]]) -> Plan[list[bool]]:
    """Ask whether passages, joined as in ALCE, entail each hypothesis more probably than not."""
    if not claims:
        return []
    scores: Sequence[Score] = yield [
        Estimate(
            hypothesis,
            "\n".join(f"Title: {passage.title}\n{passage.text}" for passage in passages),
            role="nli",
        )
        for hypothesis, passages in claims
    ]
    return [score.value > 0 for score in scores]
