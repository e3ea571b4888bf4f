"""No strategy, evaluator or search shows a model what the answer is: labels of a question stay out
of every request.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from flows.settings.composition import list_options
from flows.settings.door import compose
from tests.plans import play
from winnow.records import Answer, Context, Passage, Question
from winnow.requests import Estimate, Generation, Likelihood, Pages, Plan, Request, Score, Search
from winnow.testing import make_context, make_question

SECRET = "LABEL-7351"


def record_requests(plan: Plan[Answer], log_odds: float) -> list[Request]:
    """Serve every request of a plan with a reply of its kind, and return the requests."""
    served: list[Request] = []

    def serve(request: Request) -> Any:
        served.append(request)
        match request:
            case Estimate():
                return Score(log_odds)
            case Likelihood():
                return Score(-1.0)
            case Search():
                return Pages((Passage("w", "Web", "A page. It has text."),))
            case _:
                tokens = dict.fromkeys(request.token_logprobs, (-0.5,))
                named = {"token_logprobs": tokens or None, "token_positions": {}}
                return Generation(
                    "Answer: Ada", logprobs=(-0.5, -9.0), tokens=("Answer:", " Ada"), **named
                )

    play(plan, serve)
    return served


def labeled_question() -> tuple[Question, list[Context]]:
    """A question and contexts whose labels hold the secret: answers, target, metadata and gold
    passages.
    """
    meta = json.dumps({"key": SECRET, "label": SECRET, "choices": {"A": SECRET}})
    labels = {"answers": (SECRET,), "target": SECRET, "meta": meta, "gold_passage_ids": (SECRET,)}
    gold = replace(make_context(1, "A passage. It has text."), has_answer=True, is_gold=True)
    return replace(make_question("who?"), **labels), [
        gold,
        make_context(2, "Another one. It has text as well."),
    ]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list_options("strategy"))
def test_labels_reach_no_request(name: str, tmp_path: Path) -> None:
    """For every strategy of conf/ and every action of corrective retrieval."""
    (tmp_path / "answers.jsonl").write_text('{"question_id": "q1", "answer": "x"}')
    path = [f"strategy.plan.path={tmp_path}/answers.jsonl"] if name == "stored" else []
    cfg = compose([f"strategy={name}", *path])
    strategy = cfg.strategy.plan.build(
        prompt=cfg.prompt.build(), decoding=replace(cfg.decoding.build(), logprobs=True)
    )
    question, contexts = labeled_question()
    shown = [] if not cfg.strategy.uses_passages else contexts
    for log_odds in (9.0, 0.0, -9.0):
        requests = record_requests(strategy.plan(question, shown), log_odds)
        assert requests or name in ("cite_randomly", "stored")  # which ask no model
        for request in requests:
            fields = {name: value for name, value in vars_of(request).items() if name != "shorter"}
            assert SECRET not in repr(fields)


def vars_of(request: Request) -> dict[str, Any]:
    """The fields of a request."""
    return structs.asdict(request)
