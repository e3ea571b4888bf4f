"""Self-RAG and Self-CRAG with replies whose probabilities are written by hand."""

from typing import Any

import pytest

from tests.plans import play
from tests.strategies.self_rag.replies import (
    ALWAYS,
    CONTEXTS,
    NEVER,
    PROMPT,
    QUESTION,
    RELEVANCE_ONLY,
    beginning,
    reply,
)
from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Estimate, Generate, Generation, Pages, Score, Search
from winnow.strategies.corrective.actions import Thresholds
from winnow.strategies.corrective.crag import CorrectiveRetrieval
from winnow.strategies.corrective.refinement import Refinement
from winnow.strategies.self_rag.reflection import NO_RETRIEVAL, RETRIEVE, TOKENS
from winnow.strategies.self_rag.short_form import SelfRag


def test_the_segment_with_the_highest_score_wins() -> None:
    """Each passage has a prompt of its own, which ends with its paragraph; all reflection tokens
    are asked for.
    """
    relevant = {"one": 0.3, "two": 0.9, "three": 0.6}

    def serve(request: Generate) -> Generation:
        (passage,) = request.passages
        return reply(f"[Relevant]answer {passage.text}[Utility:5]", relevant[passage.text])

    answer, served = play(
        SelfRag(PROMPT, Decoding(), ALWAYS, RELEVANCE_ONLY).plan(QUESTION, CONTEXTS), serve
    )
    assert answer.text == "answer two"
    assert answer.candidates == ("answer one", "answer two", "answer three")
    assert [passage.text for passage in answer.used] == ["two"]
    assert answer.reply == "[Relevant]answer two[Utility:5]"
    assert answer.trace == ("retrieval: always", "scores: 0.300, 0.900, 0.600")
    for request, context in zip(served, CONTEXTS, strict=True):
        assert isinstance(request, Generate)
        assert [message.content for message in request.messages] == [
            "Do: who?", f"{RETRIEVE}<p>{context.passage.title}|{context.passage.text}</p>"
        ]  # fmt: skip
        assert request.token_logprobs == TOKENS
        assert request.decoding.logprobs


def test_scores_of_equal_answers_are_added() -> None:
    """Two answers of 0.4 beat one of 0.7, by the rule for tasks with given choices; spelling does
    not matter.
    """
    replies = {"one": ("A.", 0.4), "two": ("B", 0.7), "three": ("a", 0.45)}

    def serve(request: Generate) -> Generation:
        return reply(*replies[request.passages[0].text])

    for choose, expected, used in (("sum", "a", "three"), ("best", "B", "two")):
        plan = SelfRag(PROMPT, Decoding(), ALWAYS, RELEVANCE_ONLY, choose=choose)  # type: ignore[arg-type]
        answer, _ = play(plan.plan(QUESTION, CONTEXTS), serve)
        assert (answer.text, answer.used[0].text) == (expected, used)


def test_options_that_are_articles_are_answers() -> None:
    """Two votes for "A" beat a higher one for "B"; "A" and "the" are not the same."""
    replies = {"one": ("A", 0.4), "two": ("B", 0.7), "three": ("A.", 0.35)}

    def serve(request: Generate) -> Generation:
        return reply(*replies[request.passages[0].text])

    plan = SelfRag(PROMPT, Decoding(), ALWAYS, RELEVANCE_ONLY, choose="sum")
    assert play(plan.plan(QUESTION, CONTEXTS), serve)[0].text == "A"
    replies["three"] = ("the", 0.35)
    assert play(plan.plan(QUESTION, CONTEXTS), serve)[0].text == "B"


@pytest.mark.parametrize(("probability", "retrieves"), [(0.19, False), (0.21, True), (0.99, True)])
def test_the_model_decides_to_retrieve(probability: float, retrieves: bool) -> None:
    """By one token; otherwise it answers with the token for no retrieval before it."""

    def serve(request: Generate) -> Generation:
        if request.decoding.max_new_tokens == 1:
            return reply(RETRIEVE, retrieve={0: probability})
        return reply("from a passage" if request.passages else "alone\n\nand more")

    answer, served = play(SelfRag(PROMPT, Decoding()).plan(QUESTION, CONTEXTS), serve)
    assert answer.text == ("from a passage" if retrieves else "alone")
    assert answer.trace[0] == f"retrieval: P = {probability:.3f}"
    assert len(served) == (4 if retrieves else 2)
    if not retrieves:
        assert isinstance(served[1], Generate)
        assert beginning(served[1]) == NO_RETRIEVAL
        assert answer.used == ()


def test_self_crag_decodes_over_the_corrected_knowledge() -> None:
    """Here a search replaces what was retrieved."""
    correction = CorrectiveRetrieval(
        thresholds=Thresholds(0.9, 0.8), refinement=Refinement(join="none")
    )

    def serve(request: Any) -> Any:
        match request:
            case Estimate():
                return Score(-5.0)
            case Search():
                return Pages((Passage("web", "Web", "found there"),))
        return reply(f"answer {request.passages[0].text}" if request.passages else "alone")

    answer, _ = play(
        SelfRag(PROMPT, Decoding(), ALWAYS, correction=correction).plan(QUESTION, CONTEXTS), serve
    )
    assert answer.text == "answer found there"
    assert [passage.passage_id for passage in answer.used] == ["web#0"]
    assert "action: incorrect" in answer.trace


def test_without_retrieval_or_passages_the_model_answers_alone() -> None:
    """With one call."""
    for retrieval, contexts in ((NEVER, CONTEXTS), (ALWAYS, [])):
        plan = SelfRag(PROMPT, Decoding(), retrieval).plan(QUESTION, contexts)
        answer, served = play(plan, lambda _: reply("alone[Utility:5]"))
        assert (answer.text, len(served)) == ("alone", 1)


@pytest.mark.parametrize("settings", [{"choose": "worst"}, {"decoding": Decoding(temperature=0.5)}])
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    """Before anything is requested."""
    with pytest.raises(ConfigError):
        SelfRag(**{"prompt": PROMPT, "decoding": Decoding()} | settings)
