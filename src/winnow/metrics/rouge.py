"""ROUGE (Lin 2004) of long answers and the accepted ones by rouge-score, as in ALCE and others."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from winnow.metrics.base import MeanMetric, Sample
from winnow.metrics.metadata import read_texts
from winnow.text.citations import remove_citations

RougeType = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]


@dataclass(frozen=True)
class Rouge(MeanMetric):
    """F-measure of the overlap of the answer and an accepted answer, the best one of several,
    without citations.

    "rouge1" and "rouge2" count words and pairs of words, "rougeL" the longest common subsequence,
    and "rougeLsum" the values of lines. ALCE divides texts into lines by NLTK's sentences first,
    for which a model must be downloaded; here lines are the lines of the texts. An answer "unknown"
    has the overlap of its text. The accepted answers are the `long_answers` of the metadata if
    there are any (ASQA). Undefined without an accepted answer of Latin letters or digits, which
    alone are words to rouge-score.

    Args:
        of: What overlaps.
        stem: Whether words are reduced to their stems by Porter's algorithm, as ALCE does.
    """

    revision: ClassVar[int] = 3

    of: RougeType = "rougeL"
    stem: bool = True

    def score(self, sample: Sample) -> float | None:
        """Return the F-measure."""
        scorer, tokenizer = _open_scorer(self.of, self.stem)
        accepted_answers = read_texts(sample.question, "long_answers") or sample.question.answers
        references = [one for one in accepted_answers if tokenizer.tokenize(one)]
        if not references:
            return None
        text = remove_citations(sample.whole_answer)
        return max(
            float(scorer.score(reference, text)[self.of].fmeasure) for reference in references
        )


@cache
def _open_scorer(of: RougeType, stem: bool) -> tuple[Any, Any]:
    """Return rouge-score's scorer, and the tokenizer that it uses."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    tokenizer = DefaultTokenizer(stem)
    return RougeScorer([of], tokenizer=tokenizer), tokenizer
