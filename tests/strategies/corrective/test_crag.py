"""CRAG with scores, search results and replies written by hand."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from winnow.errors import ConfigError
from winnow.records import (
    Decoding,
    Estimate,
    Failed,
    Generate,
    Generation,
    Message,
    Pages,
    Passage,
    Plan,
    Request,
    Score,
    Search,
    T,
)
from winnow.strategies.corrective.actions import Action, Thresholds, compute_relevance_score
from winnow.strategies.corrective.crag import CorrectiveRetrieval, Crag
from winnow.strategies.corrective.evaluators import EstimatedRelevance, JudgedRelevance, parse_verdict
from winnow.strategies.corrective.refinement import Refinement
from winnow.strategies.corrective.searching import KnowledgeSearch
from winnow.strategies.corrective.segments import FixedWords, SentenceGroups, WholePassage
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question

PROMPT = Prompt("{contexts} Q {question}", "Q {question}", "{contexts} C {candidates} Q {question}", "<{text}>")
QUESTION = make_question("who?")
ONE_SENTENCE = SentenceGroups(size=1, min_words=1)


def to_log_odds(score: float) -> float:
    """The log-odds whose relevance score is `score`."""
    return 2 * math.atanh(score)


def play(
    plan: Plan[T],
    scores: Mapping[str, float | None],
    pages: Pages | Failed = Pages(()),
    reply: Callable[[Generate], str | Failed] = lambda _: "Ada",
) -> tuple[T, list[Request]]:
    """Serve the requests of a plan: texts have the given relevance scores, searches the given result."""
    served: list[Request] = []

    def serve(request: Request) -> Any:
        served.append(request)
        match request:
            case Estimate():
                score = scores[request.text]
                return Failed("NaN") if score is None else Score(to_log_odds(score))
            case Search():
                return pages
            case Generate():
                text = reply(request)
                return text if isinstance(text, Failed) else Generation(text)
        raise AssertionError(request)

    try:
        requests = next(plan)
        while True:
            requests = plan.send([serve(request) for request in requests])
    except StopIteration as stop:
        return stop.value, served


def make_crag(**settings: Any) -> Crag:
    """A strategy whose strips are sentences that are not joined."""
    correction = CorrectiveRetrieval(refinement=Refinement(ONE_SENTENCE, top=2, join="none"))
    return Crag(PROMPT, Decoding(), replace(correction, **settings))


ESTIMATED = EstimatedRelevance()
TEXT = "Ada wrote it. It rained. Bob read it."
SCORES = {TEXT: 0.9, "Ada wrote it.": 0.8, "It rained.": -0.9, "Bob read it.": 0.2}
WEB = Pages((Passage("w", "", "Eve sang. Nobody came."),))
WEB_SCORES = {"Eve sang.": 0.7, "Nobody came.": -0.7}


def last_prompt(served: Sequence[Request]) -> str:
    request = served[-1]
    assert isinstance(request, Generate)
    return request.messages[-1].content


def test_a_correct_retrieval_is_refined_and_nothing_is_searched() -> None:
    """The relevant strips in their order; the trace counts them, and `used` names them."""
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), SCORES)
    assert not any(isinstance(request, Search) for request in served)
    assert last_prompt(served) == "<Ada wrote it.>\n<Bob read it.> Q who?"
    assert answer.trace[:2] == ("action: correct", "internal: 2 of 3 strips")
    assert [strip.passage_id.partition("#")[2] for strip in answer.used] == ["0", "2"]
    assert answer.text == "Ada"


def test_an_incorrect_retrieval_is_replaced_by_a_search() -> None:
    """The passages do not reach the prompt, nor are they divided into strips."""
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), {TEXT: -0.95, **WEB_SCORES}, WEB)
    assert last_prompt(served) == "<Eve sang.> Q who?"
    assert answer.trace[:2] == ("action: incorrect", "external: 1 of 2 strips")
    assert [request.query for request in served if isinstance(request, Search)] == ["who?"]


def test_an_ambiguous_retrieval_is_refined_and_supplemented() -> None:
    """Internal knowledge stands before external knowledge."""
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), {**SCORES, TEXT: 0.1, **WEB_SCORES}, WEB)
    assert last_prompt(served) == "<Ada wrote it.>\n<Bob read it.>\n<Eve sang.> Q who?"
    assert answer.trace[:3] == ("action: ambiguous", "internal: 2 of 3 strips", "external: 1 of 2 strips")


@pytest.mark.parametrize(
    ("pages", "note"), [(Failed("time-out"), "search failed: time-out"), (Pages(()), "search: no result")]
)
def test_a_search_that_gives_nothing_is_recorded_and_the_question_answered(pages: Pages | Failed, note: str) -> None:
    """Without any knowledge by the question alone, and otherwise by what was retrieved."""
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), {TEXT: -0.95}, pages)
    assert last_prompt(served) == "Q who?"
    assert note in answer.trace
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), {**SCORES, TEXT: 0.0}, pages)
    assert last_prompt(served) == "<Ada wrote it.>\n<Bob read it.> Q who?"
    assert note in answer.trace


def test_the_best_strip_is_kept_if_none_passes() -> None:
    """And the trace counts it; passages without a sentence and questions without passages give no strip."""
    low = {**SCORES, "Ada wrote it.": -0.6, "It rained.": -0.7, "Bob read it.": -0.8}
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), low)
    assert last_prompt(served) == "<Ada wrote it.> Q who?"
    assert "internal: 1 of 3 strips, none passed the filter" in answer.trace
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, " ")]), {" ": 0.9})
    assert last_prompt(served) == "Q who?"
    answer, served = play(make_crag().plan(QUESTION, []), WEB_SCORES, WEB)
    assert answer.trace[0] == "action: incorrect"


def test_the_rewriter_writes_the_query() -> None:
    """Prose, silence and refused calls are not searched for; the question is."""
    search = KnowledgeSearch(rewriting="keywords of {question}\nquery:")
    long = " ".join(["word"] * 31)
    cases: tuple[tuple[str | Failed, str, str], ...] = (
        ("query: Ada, author\nquestion: next", "Ada, author", "query: Ada, author"),
        (long, "who?", "rewriting: no keywords"),
        (" \n", "who?", "rewriting: no keywords"),
        (Failed("moderated"), "who?", "rewriting failed: moderated"),
    )
    for reply, query, note in cases:
        answer, served = play(
            make_crag(search=search).plan(QUESTION, [make_context(1, TEXT)]),
            {TEXT: -0.95, **WEB_SCORES},
            WEB,
            lambda request, reply=reply: reply if request.role == "rewriter" else "Ada",  # type: ignore[misc]
        )
        assert [request.query for request in served if isinstance(request, Search)] == [query]
        assert note in answer.trace
        rewritten = [request for request in served if isinstance(request, Generate) and request.role == "rewriter"]
        assert rewritten[0].messages[0].content == "keywords of who?\nquery:"


def test_what_table_3_removes() -> None:
    """Without refinement whole passages, without selection whole pages."""
    for search, web in ((KnowledgeSearch(selection=False), "Eve sang. Nobody came."), (KnowledgeSearch(), "Eve sang.")):
        crag = make_crag(refine=False, search=search)
        _, served = play(crag.plan(QUESTION, [make_context(1, TEXT)]), {TEXT: 0.0, **WEB_SCORES}, WEB)
        assert last_prompt(served) == f"<{TEXT}>\n<{web}> Q who?"


def test_actions_by_hand() -> None:
    """Any score at or above the upper threshold is enough; equal scores count as reaching it."""
    thresholds = Thresholds(0.5, -0.9)
    cases = (([0.5, -1], "correct"), ([0.49], "ambiguous"), ([-0.9], "ambiguous"), ([-0.91], "incorrect"), ([], "incorrect"))
    for scores, action in cases:
        assert thresholds.choose(scores) == action
    assert Thresholds(0.5, -0.9, "correct").choose([0.9]) == Action.AMBIGUOUS
    assert Thresholds(0.5, -0.9, "incorrect").choose([-1]) == Action.AMBIGUOUS
    assert Thresholds(0.5, -0.9, "ambiguous").choose([-0.1]) == Action.CORRECT
    assert Thresholds(0.5, -0.9, "ambiguous").choose([-0.3]) == Action.INCORRECT
    for settings, message in (((-1.0, 0.0), "lower must not exceed upper"), ((0.5, -0.9, "maybe"), "received 'maybe'")):
        with pytest.raises(ConfigError, match=message):
            Thresholds(*settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        Thresholds(math.nan, -0.9)


def test_scores_are_on_the_scale_of_the_evaluator() -> None:
    """2 sigmoid(x) - 1, also for log-odds that would overflow."""
    for log_odds in (-800.0, -2.0, 0.0, 0.3, 800.0):
        expected = 2 / (1 + math.exp(-log_odds)) - 1 if abs(log_odds) < 700 else math.copysign(1, log_odds)
        assert compute_relevance_score(log_odds) == pytest.approx(expected)


def test_strips_lose_no_word() -> None:
    """Every segmenter keeps all words in order; blank texts give none."""
    text = "One two three. Four? Five six seven eight nine ten! Dr. No came at 3.5 p.m. and left. " * 7
    for segmenter in (SentenceGroups(), ONE_SENTENCE, SentenceGroups(2, 4), FixedWords(), FixedWords(7, 3), WholePassage()):
        assert " ".join(segmenter.divide(text)).split() == text.split()
        assert segmenter.divide(" \n") == []
    assert ONE_SENTENCE.divide("A b. C d? E") == ["A b.", "C d?", "E"]
    assert SentenceGroups(1, 3).divide("A b c. D. E f g.") == ["A b c. D.", "E f g."]
    assert FixedWords(2, 2).divide("a b c d e") == ["a b", "c d e"]
    assert FixedWords(2, 1).divide("a b c") == ["a b", "c"]


def test_the_order_of_strips() -> None:
    """By the place in the passages, or the best first; at most `top`, and without a threshold all scores pass."""
    passages = [Passage("p", "T", "Low one. High one."), Passage("q", "", "Middle one.")]
    scores = {"Low one.": -0.9, "High one.": 0.9, "Middle one.": 0.4}
    for order, threshold, expected in (
        ("original", -0.5, ["High one.", "Middle one."]),
        ("score", -0.5, ["High one.", "Middle one."]),
        ("score", None, ["High one.", "Middle one.", "Low one."]),
        ("original", None, ["Low one.", "High one.", "Middle one."]),
    ):
        knowledge, served = play(
            Refinement(ONE_SENTENCE, threshold, 3, order, "none").refine(QUESTION, passages, ESTIMATED), scores
        )  # type: ignore[arg-type]
        assert [strip.text for strip in knowledge.strips] == expected
        assert all(isinstance(request, Estimate) for request in served)
    knowledge, _ = play(Refinement(ONE_SENTENCE, None, 1).refine(QUESTION, passages, ESTIMATED), scores)
    assert [(strip.passage_id, strip.title) for strip in knowledge.strips] == [("p#1", "T")]


def test_strips_are_joined() -> None:
    """Successive strips of one passage under its title, or all of them as the authors' code does."""
    passages = [Passage("p", "T", "One. Two. Three."), Passage("q", "U", "Four.")]
    scores = {"One.": 0.5, "Two.": -0.9, "Three.": 0.7, "Four.": 0.9}
    for join, separator, order, expected in (
        ("passage", " ", "original", [("p#0", "T", "One. Three."), ("q#0", "U", "Four.")]),
        ("passage", " ", "score", [("q#0", "U", "Four."), ("p#2", "T", "Three. One.")]),
        ("all", "; ", "score", [("q#0", "", "Four.; Three.; One.")]),
    ):
        refinement = Refinement(ONE_SENTENCE, -0.5, 3, order, join, separator)  # type: ignore[arg-type]
        knowledge, _ = play(refinement.refine(QUESTION, passages, ESTIMATED), scores)
        assert [(strip.passage_id, strip.title, strip.text) for strip in knowledge.strips] == expected
        assert (knowledge.kept, knowledge.total) == (3, 4)


def test_short_strips_are_not_evaluated() -> None:
    """They have the score -1, so that they are kept only if scores are not filtered and too few others are left."""
    passages = [Passage("p", "", "Yes. A long enough one.")]
    refinement = Refinement(ONE_SENTENCE, None, 2, "score", "none", min_words=4)
    knowledge, served = play(refinement.refine(QUESTION, passages, ESTIMATED), {"A long enough one.": -0.2})
    assert [strip.text for strip in knowledge.strips] == ["A long enough one.", "Yes."]
    assert len(served) == 1


def test_a_passage_without_a_score_is_irrelevant_and_counted() -> None:
    """The question is answered all the same."""
    scores: dict[str, float | None] = {**SCORES, TEXT: None, "Ada wrote it.": None, **WEB_SCORES}
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), scores, WEB)
    assert answer.trace[:2] == ("action: incorrect", "evaluation failed: 1 of 1 passages")
    assert last_prompt(served) == "<Eve sang.> Q who?"
    other = make_context(2, "Other.")
    answer, _ = play(make_crag().plan(QUESTION, [make_context(1, TEXT), other]), {**scores, "Other.": 0.9}, WEB)
    assert "internal: 2 of 4 strips, evaluation failed: 1" in answer.trace


def test_a_judge_may_be_the_evaluator() -> None:
    """Its last verdict counts; a reply without one and a refused call are failures."""
    judge = JudgedRelevance("Q {question} P {title} {text}", 64, reasons=True)
    replies = {"a": "No wait. Yes.", "b": "no", "c": "perhaps", "d": Failed("moderated"), "e": "Noah said so"}
    passages = [Passage(name, "T", name) for name in replies]
    evaluation, served = play(
        judge.evaluate(QUESTION, passages), {}, reply=lambda request: replies[request.messages[0].content[-1]]
    )
    assert evaluation.scores == (1.0, -1.0, -1.0, -1.0, -1.0)
    assert evaluation.failed == 3
    assert isinstance(served[0], Generate)
    assert (served[0].messages, served[0].decoding) == ((Message("user", "Q who? P T a"),), Decoding(max_new_tokens=64))
    assert all(isinstance(request, Generate) and request.may_fail and request.role == "judge" for request in served)
    texts = ("YES!", "yes, no", "not, yesterday", "")
    assert [parse_verdict(text, last=True) for text in texts] == [1.0, -1.0, None, None]
    assert [parse_verdict(text) for text in texts] == [1.0, 1.0, None, None]


def test_a_judge_that_was_cut_while_it_reasoned_has_no_verdict() -> None:
    """A "no" in the reasons is none; a short reply is cut all the same and begins with its verdict."""
    for reasons, expected in ((True, -1.0), (False, 1.0)):
        judge = JudgedRelevance("Q {question} P {text}", 4, reasons=reasons)
        plan = judge.evaluate(QUESTION, [Passage("a", "", "a")])
        next(plan)
        with pytest.raises(StopIteration) as stop:
            plan.send([Generation("Yes, because there is no", "length")])
        assert stop.value.value.scores == (expected,)
        assert stop.value.value.failed == int(reasons)


def test_settings_that_select_nothing_are_refused() -> None:
    """Each with the value received."""
    for build, message in (
        (lambda: Refinement(top=0), "top must be at least 1; received 0"),
        (lambda: Refinement(order="best"), "original or score; received 'best'"),  # type: ignore[arg-type]
        (lambda: KnowledgeSearch(n=0), "n must be at least 1; received 0"),
        (lambda: KnowledgeSearch(rewriting="keywords"), "must have the field {question}"),
        (lambda: SentenceGroups(size=0), "size must be at least 1; received 0"),
        (lambda: FixedWords(size=0), "size must be at least 1; received 0"),
        (lambda: Refinement(join="some"), "none, passage or all; received 'some'"),  # type: ignore[arg-type]
        (lambda: JudgedRelevance("{question}?"), "must have the fields {question} and {text}"),
        (lambda: JudgedRelevance("{question} {text} {answer}"), r"received \['answer', 'question', 'text'\]"),
    ):
        with pytest.raises(ConfigError, match=message):
            build()
