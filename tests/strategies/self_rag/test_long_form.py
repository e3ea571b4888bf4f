"""Long answers, a beam search over segments whose probabilities are written by hand."""

import math

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
from winnow.records import Decoding
from winnow.requests import Generate, Generation
from winnow.strategies.self_rag.long_form import SelfRagLong
from winnow.strategies.self_rag.reflection import (
    NO_RETRIEVAL,
    RETRIEVE,
    TOKENS,
    SegmentScore,
    cut_segment,
)


def test_a_long_answer_is_a_beam_search() -> None:
    """Two beams of three passages; the product of the scores decides, and a finished beam stays in
    the race.
    """
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

    answer, served = play(
        SelfRagLong(PROMPT, Decoding(), ALWAYS, RELEVANCE_ONLY).plan(QUESTION, CONTEXTS), serve
    )
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
        return Generation(
            text, logprobs=(-0.5,) * 3, token_logprobs=logprobs, token_positions=positions
        )

    answer, _ = play(
        SelfRagLong(PROMPT, Decoding(), ALWAYS, utility, max_segments=2).plan(
            QUESTION, CONTEXTS[:2]
        ),
        serve,
    )
    assert answer.text == "good. good."
    assert answer.trace[-1] == "segments: 2, score 0.062"


def test_a_segment_is_scored_up_to_its_cut() -> None:
    """What was written behind the token for retrieval counts in none of the parts."""
    named = {token: [-50.0] * 6 for token in TOKENS}
    for token, position, share in (
        ("[Relevant]", 0, 0.5), ("[Irrelevant]", 0, 0.5), ("[Utility:5]", 4, 0.9),
        ("[Utility:1]", 4, 0.1)
    ):  # fmt: skip
        named[token][position] = math.log(share)
    positions = dict.fromkeys(TOKENS, ()) | {
        "[Relevant]": (0,),
        RETRIEVE: (3,),
        "[Utility:5]": (4,),
    }
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
    """Where the model would rather not retrieve, the threshold decides, and cuts the
    reply there.
    """

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
    answer, served = play(
        SelfRagLong(PROMPT, Decoding(), ALWAYS).plan(QUESTION, CONTEXTS[:1]),
        lambda _: reply(RETRIEVE),
    )
    assert (answer.text, len(served)) == ("", 1)


def test_without_retrieval_or_passages_the_model_answers_alone() -> None:
    """With one call."""
    for retrieval, contexts in ((NEVER, CONTEXTS), (ALWAYS, [])):
        plan = SelfRagLong(PROMPT, Decoding(), retrieval).plan(QUESTION, contexts)
        answer, served = play(plan, lambda _: reply("alone[Utility:5]"))
        assert (answer.text, len(served)) == ("alone", 1)


def test_a_beam_of_no_answer_is_refused() -> None:
    """Before anything is requested."""
    with pytest.raises(ConfigError, match="beam_width"):
        SelfRagLong(PROMPT, Decoding(), beam_width=0)
