"""Self-RAG and Self-CRAG with replies whose probabilities are written by hand."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from winnow.errors import ConfigError
from winnow.records import Answer, Decoding, Estimate, Generate, Generation, Pages, Passage, Plan, Request, Score, Search
from winnow.strategies.corrective.actions import Thresholds
from winnow.strategies.corrective.crag import CorrectiveRetrieval
from winnow.strategies.corrective.refinement import Refinement
from winnow.strategies.prompt import Prompt
from winnow.strategies.self_rag.long_form import SelfRagLong
from winnow.strategies.self_rag.reflection import NO_RETRIEVAL, RETRIEVE, TOKENS, SegmentScore, cut_segment
from winnow.strategies.self_rag.segments import Retrieval
from winnow.strategies.self_rag.short_form import SelfRag
from winnow.testing import make_context, make_question

PROMPT = Prompt("{contexts} {question}", "Do: {question}", "{contexts} {candidates} {question}", "<p>{title}|{text}</p>")
QUESTION = make_question("who?")
CONTEXTS = [make_context(1, "one"), make_context(2, "two"), make_context(3, "three")]
RELEVANCE_ONLY = SegmentScore(relevance=1, support=0, utility=0, likelihood=0)
ALWAYS, NEVER = Retrieval("always"), Retrieval("never")


def reply(text: str, relevant: float = 0.5, retrieve: Mapping[int, float] | None = None) -> Generation:
    """A reply with a probability of relevance, and probabilities of retrieval at positions."""
    steps = 10
    named = {token: [-50.0] * steps for token in TOKENS}
    named["[Relevant]"][0], named["[Irrelevant]"][0] = math.log(relevant), math.log(1 - relevant)
    for position, probability in (retrieve or {}).items():
        named[RETRIEVE][position], named[NO_RETRIEVAL][position] = math.log(probability), math.log(1 - probability)
    positions = dict.fromkeys(TOKENS, ()) | {NO_RETRIEVAL: tuple(position for position in retrieve or {} if position)}
    logprobs = {token: tuple(values) for token, values in named.items()}
    return Generation(text, logprobs=(-0.5,) * steps, token_logprobs=logprobs, token_positions=positions)


def play(plan: Plan[Answer], serve: Callable[[Any], Any]) -> tuple[Answer, list[Request]]:
    """Run a plan, and return its answer and requests."""
    served: list[Request] = []
    results: Any = None
    while True:
        try:
            requests = next(plan) if results is None else plan.send(results)
        except StopIteration as stop:
            return stop.value, served
        served += requests
        results = [serve(request) for request in requests]


def beginning(request: Generate) -> str:
    """The reply so far, which the model is to continue."""
    return request.messages[-1].content if request.messages[-1].role == "assistant" else ""


def test_the_segment_with_the_highest_score_wins() -> None:
    """Each passage has a prompt of its own, which ends with its paragraph; all reflection tokens are asked for."""
    relevant = {"one": 0.3, "two": 0.9, "three": 0.6}

    def serve(request: Generate) -> Generation:
        (passage,) = request.passages
        return reply(f"[Relevant]answer {passage.text}[Utility:5]", relevant[passage.text])

    answer, served = play(SelfRag(PROMPT, Decoding(), ALWAYS, RELEVANCE_ONLY).plan(QUESTION, CONTEXTS), serve)
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
    """Two answers of 0.4 beat one of 0.7, by the rule for tasks with given choices; spelling does not matter."""
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


def test_without_retrieval_or_passages_the_model_answers_alone() -> None:
    """One call each."""
    for retrieval, contexts in ((NEVER, CONTEXTS), (ALWAYS, [])):
        for plan in (SelfRag(PROMPT, Decoding(), retrieval), SelfRagLong(PROMPT, Decoding(), retrieval)):
            answer, served = play(plan.plan(QUESTION, contexts), lambda _: reply("alone[Utility:5]"))
            assert (answer.text, len(served)) == ("alone", 1)


def test_self_crag_decodes_over_the_corrected_knowledge() -> None:
    """Here a search replaces what was retrieved; without retrieval there is no correction."""
    correction = CorrectiveRetrieval(thresholds=Thresholds(0.9, 0.8), refinement=Refinement(join="none"))

    def serve(request: Any) -> Any:
        match request:
            case Estimate():
                return Score(-5.0)
            case Search():
                return Pages((Passage("web", "Web", "found there"),))
        return reply(f"answer {request.passages[0].text}" if request.passages else "alone")

    answer, served = play(SelfRag(PROMPT, Decoding(), ALWAYS, correction=correction).plan(QUESTION, CONTEXTS), serve)
    assert answer.text == "answer found there"
    assert [passage.passage_id for passage in answer.used] == ["web#0"]
    assert "action: incorrect" in answer.trace
    _, served = play(SelfRagLong(PROMPT, Decoding(), NEVER, correction=correction).plan(QUESTION, CONTEXTS), serve)
    assert len(served) == 1


def test_a_long_answer_is_a_beam_search() -> None:
    """Two beams of three passages; the product of the scores decides, and a finished beam stays in the race."""
    scores = {
        ("", "one"): ("A ends.", 0.5),
        ("", "two"): (f"B goes on.{RETRIEVE}", 0.8),
        ("", "three"): ("C ends.", 0.7),
        ("B goes on.", "one"): ("D.", 0.5),
        ("B goes on.", "two"): ("E.", 0.9),
        ("B goes on.", "three"): (f"F.{RETRIEVE}lost", 0.4),
    }

    def serve(request: Generate) -> Generation:
        so_far = beginning(request).partition(RETRIEVE)[0]
        return reply(*scores[so_far, request.passages[0].text])

    answer, served = play(SelfRagLong(PROMPT, Decoding(), ALWAYS, RELEVANCE_ONLY).plan(QUESTION, CONTEXTS), serve)
    assert answer.text == "B goes on.E."
    assert answer.candidates == ("B goes on.E.", "C ends.")
    assert [passage.text for passage in answer.used] == ["two"]
    assert answer.trace[-1] == "segments: 2, score 0.720"
    assert len(served) == 6
    single = SelfRagLong(PROMPT, Decoding(), ALWAYS, RELEVANCE_ONLY, beam_width=1, max_segments=1)
    answer, served = play(single.plan(QUESTION, CONTEXTS), serve)
    assert (answer.text, len(served)) == ("B goes on.", 3)


def test_negative_scores_do_not_make_a_good_product() -> None:
    """Two useless segments (utility -1 each) lose against two mediocre ones."""
    utility = SegmentScore(relevance=0, support=0, utility=1, likelihood=0)

    def serve(request: Generate) -> Generation:
        is_good = request.passages[0].text == "two"
        grade, share = ("[Utility:4]", 0.5) if is_good else ("[Utility:1]", 0.9)
        named = {token: [-50.0] * 3 for token in TOKENS}
        named[grade][1], named["[Utility:3]"][1] = math.log(share), math.log(1 - share)
        positions = dict.fromkeys(TOKENS, ()) | {grade: (1,), RETRIEVE: (2,)}
        logprobs = {token: tuple(values) for token, values in named.items()}
        text = f"{'good' if is_good else 'bad'}.{grade}{RETRIEVE}"
        return Generation(text, logprobs=(-0.5,) * 3, token_logprobs=logprobs, token_positions=positions)

    answer, _ = play(SelfRagLong(PROMPT, Decoding(), ALWAYS, utility, max_segments=2).plan(QUESTION, CONTEXTS[:2]), serve)
    assert answer.text == "good. good."
    assert answer.trace[-1] == "segments: 2, score 0.062"


def test_a_segment_is_scored_up_to_its_cut() -> None:
    """What was written behind the token for retrieval counts in none of the parts."""
    named = {token: [-50.0] * 6 for token in TOKENS}
    for token, position, share in (
        ("[Relevant]", 0, 0.5), ("[Irrelevant]", 0, 0.5), ("[Utility:5]", 4, 0.9), ("[Utility:1]", 4, 0.1)
    ):  # fmt: skip
        named[token][position] = math.log(share)
    positions = dict.fromkeys(TOKENS, ()) | {"[Relevant]": (0,), RETRIEVE: (3,), "[Utility:5]": (4,)}
    segment = Generation(
        f"[Relevant]kept.{RETRIEVE}[Utility:5]lost",
        logprobs=(-0.5, -0.5, -0.5, -9.0, -9.0, -9.0),
        token_logprobs={token: tuple(values) for token, values in named.items()},
        token_positions=positions,
    )
    plan = SelfRagLong(PROMPT, Decoding(), ALWAYS, max_segments=1).plan(QUESTION, CONTEXTS[:1])
    answer, _ = play(plan, lambda _: segment)
    assert answer.trace[-1] == f"segments: 1, score {0.5 + math.exp(-0.5):.3f}"
    assert cut_segment(segment, segment.text) == segment


@pytest.mark.parametrize(("probability", "text"), [(0.1, "A.B."), (0.5, "A.C.")])
def test_adaptive_retrieval_within_a_long_answer(probability: float, text: str) -> None:
    """Where the model would rather not retrieve, the threshold decides, and cuts the reply there."""

    def serve(request: Generate) -> Generation:
        if request.decoding.max_new_tokens == 1:
            return reply(RETRIEVE, retrieve={0: 0.9})
        if beginning(request).startswith("A."):
            return reply("C.")
        return reply(f"A.{NO_RETRIEVAL}B.", retrieve={3: probability})

    answer, _ = play(SelfRagLong(PROMPT, Decoding()).plan(QUESTION, CONTEXTS[:1]), serve)
    assert answer.text.replace(" ", "") == text


def test_an_empty_segment_ends_a_beam() -> None:
    """A model that only asks for retrieval does not loop."""
    answer, served = play(SelfRagLong(PROMPT, Decoding(), ALWAYS).plan(QUESTION, CONTEXTS[:1]), lambda _: reply(RETRIEVE))
    assert (answer.text, len(served)) == ("", 1)


@pytest.mark.parametrize(
    "settings",
    [{"choose": "worst"}, {"decoding": Decoding(temperature=0.5)}, {"retrieval": lambda: Retrieval("perhaps")},
     {"retrieval": lambda: Retrieval(threshold=2.0)}],
)  # fmt: skip
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigError):
        SelfRag(**{"prompt": PROMPT, "decoding": Decoding()} | {n: v() if callable(v) else v for n, v in settings.items()})
    with pytest.raises(ConfigError, match="beam_width"):
        SelfRagLong(PROMPT, Decoding(), beam_width=0)
