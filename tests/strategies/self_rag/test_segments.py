"""Requests for segments, and the decision to retrieve."""

from typing import Any

import pytest

from tests.plans import play
from tests.strategies.self_rag.replies import (
    ALWAYS,
    CONTEXTS,
    NEVER,
    PROMPT,
    QUESTION,
    beginning,
    reply,
)
from winnow.errors import ConfigError, ReaderError
from winnow.records import Decoding
from winnow.requests import Generation
from winnow.strategies.corrective.crag import CorrectiveRetrieval
from winnow.strategies.self_rag.reflection import NO_RETRIEVAL, RETRIEVE, TOKENS
from winnow.strategies.self_rag.segments import (
    Retrieval,
    build_segment_request,
    build_unaided_request,
    choose_passages,
)


@pytest.mark.parametrize(("probability", "is_retrieved"), [(0.2, False), (0.21, True)])
def test_the_threshold_is_not_enough(probability: float, is_retrieved: bool) -> None:
    """One token decides; a probability equal to the threshold is too low."""
    plan = Retrieval(threshold=0.2).decide(QUESTION, PROMPT, Decoding(max_new_tokens=30))
    (decision, note), (request,) = play(plan, lambda _: reply(RETRIEVE, retrieve={0: probability}))
    assert (decision, note) == (is_retrieved, f"retrieval: P = {probability:.3f}")
    assert request.decoding.max_new_tokens == 1


def test_a_reader_without_token_logprobs_is_refused() -> None:
    """It would never retrieve."""
    plan = Retrieval().decide(QUESTION, PROMPT, Decoding())
    with pytest.raises(ReaderError, match="needs the log-probabilities of all reflection tokens"):
        play(plan, lambda _: Generation(RETRIEVE))


def test_fixed_decisions_need_no_call() -> None:
    """And without retrieval nothing is corrected."""
    correction = CorrectiveRetrieval()
    for retrieval, passages in ((ALWAYS, [context.passage for context in CONTEXTS]), (NEVER, [])):
        plan = choose_passages(
            QUESTION, CONTEXTS, retrieval, None if passages else correction, PROMPT, Decoding()
        )
        (chosen, trace), served = play(plan, pytest.fail)
        assert (list(chosen), trace, served) == (passages, (f"retrieval: {retrieval.when}",), [])


def test_a_passage_stands_behind_the_reply_so_far() -> None:
    """In a paragraph after the token for retrieval; a first segment without passage has no message
    of the assistant.
    """
    passage = CONTEXTS[0].passage
    request = build_segment_request(PROMPT, QUESTION, Decoding(), reply="So far.", passage=passage)
    assert beginning(request) == f"So far.{RETRIEVE}<p>{passage.title}|one</p>"
    assert request.passages == (passage,)
    assert request.decoding.logprobs
    assert request.token_logprobs == TOKENS
    first = build_segment_request(PROMPT, QUESTION, Decoding())
    assert [message.role for message in first.messages] == ["user"]
    assert beginning(build_unaided_request(PROMPT, QUESTION, Decoding())) == NO_RETRIEVAL


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"when": "perhaps"}, "received 'perhaps'"), ({"threshold": 2.0}, "received 2.0")],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """With the value received."""
    with pytest.raises(ConfigError, match=message):
        Retrieval(**settings)
