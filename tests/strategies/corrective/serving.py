"""Results that the tests of corrective retrieval give for the requests of a plan."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from winnow.requests import Estimate, Failed, Generate, Generation, Pages, Request, Score, Search
from winnow.strategies.corrective.evaluators import EstimatedRelevance
from winnow.strategies.corrective.segments import SentenceGroups
from winnow.testing import make_question

QUESTION = make_question("who?")
ONE_SENTENCE = SentenceGroups(size=1, min_words=1)
ESTIMATED = EstimatedRelevance()


def serve(
    scores: Mapping[str, float | None],
    pages: Pages | Failed = Pages(()),
    reply: Callable[[Generate], str | Failed] = lambda _: "Ada",
) -> Callable[[Request], Any]:
    """Texts have the given relevance scores, of which None is a failure; every search has the given
    result.
    """

    def give(request: Request) -> Any:
        match request:
            case Estimate():
                score = scores[request.text]
                return Failed("NaN") if score is None else Score(2 * math.atanh(score))
            case Search():
                return pages
            case Generate():
                text = reply(request)
                return text if isinstance(text, Failed) else Generation(text)
        raise AssertionError(request)

    return give
