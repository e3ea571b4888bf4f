"""Self-RAG with a tiny model that was taught reflection tokens, through the reader that serves any
local model.
"""

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers.local import LocalReader
from winnow.records import Decoding
from winnow.requests import Generate, Generation
from winnow.strategies.prompt import Prompt
from winnow.strategies.self_rag.reflection import RELEVANCE, SUPPORT, TOKENS, UTILITY, SegmentScore
from winnow.strategies.self_rag.segments import Retrieval, build_segment_request
from winnow.strategies.self_rag.short_form import SelfRag
from winnow.testing import make_context, make_question, make_tiny_causal_lm

PROMPT = Prompt(
    "{contexts} {question}",
    "{question}",
    "{contexts} {candidates} {question}",
    "<paragraph>{text}</paragraph>",
)
QUESTION = make_question("capital?")
LESSONS = {
    "no": "[Irrelevant]Rome[No support / Contradictory][Utility:1]",
    "yes": "[Relevant]Paris[Fully supported][Utility:5]",
    "so": "[Relevant]Lyon[Partially supported][Utility:3]",
}
CONTEXTS = [make_context(rank, text) for rank, text in enumerate(LESSONS, start=1)]
DECODING = Decoding(max_new_tokens=12)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> LocalReader:
    """A model that learnt by heart what to reply to each passage, and to retrieve."""
    folder = make_tiny_causal_lm(
        tmp_path_factory.mktemp("self_rag"),
        [*LESSONS, "capital?", "Paris Rome Lyon"],
        more_tokens=TOKENS,
    )
    reader = LocalReader(str(folder), "tiny", "float32", "cpu")
    reader.lm.tokenizer.chat_template = None
    reader.lm.tokenizer.save_pretrained(folder)
    requests = [
        build_segment_request(PROMPT, QUESTION, DECODING, passage=context.passage)
        for context in CONTEXTS
    ]
    lessons = [
        *zip(requests, LESSONS.values(), strict=True),
        (build_segment_request(PROMPT, QUESTION, DECODING), "[Retrieval]"),
    ]
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(150):
        for request, text in lessons:
            prompt = reader.encode(request).ids
            target = [
                *reader.lm.tokenizer(text, add_special_tokens=False)["input_ids"],
                reader.lm.tokenizer.eos_token_id,
            ]
            labels = torch.tensor([[-100] * len(prompt) + target])
            model(input_ids=torch.tensor([[*prompt, *target]]), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    return LocalReader(str(folder), "tiny", "float32", "cpu")


def score_by_hand(reader: LocalReader, request: Generate, reply: Generation) -> float:
    """The score of a reply from the logits of a plain forward pass over prompt and reply."""
    tokenizer = reader.lm.tokenizer
    prompt = reader.encode(request).ids
    target = [
        *tokenizer(reply.text, add_special_tokens=False)["input_ids"],
        tokenizer.eos_token_id,
    ]
    with torch.inference_mode():
        logits = reader.lm.model(torch.tensor([[*prompt, *target]])).logits[0, len(prompt) - 1 : -1]
    probabilities = logits.double().softmax(dim=-1)
    parts = 0.0
    for kind, weight, position in (
        (RELEVANCE, 1.0, 0),
        (SUPPORT, 1.0, len(target) - 3),
        (UTILITY, 0.5, len(target) - 2),
    ):
        ids = tokenizer.convert_tokens_to_ids(list(kind))
        assert target[position] in ids
        shares = probabilities[position, ids] / probabilities[position, ids].sum()
        parts += weight * float(
            sum(share * value for share, value in zip(shares, kind.values(), strict=True))
        )
    chosen = [math.log(probabilities[step, token]) for step, token in enumerate(target)]
    return parts + math.exp(sum(chosen) / len(chosen))


def test_reflection_tokens_survive_and_all_their_probabilities_are_returned(
    reader: LocalReader,
) -> None:
    """Scores equal those from a forward pass; not only the chosen token of a kind has a
    probability.
    """
    requests = [
        build_segment_request(PROMPT, QUESTION, DECODING, passage=context.passage)
        for context in CONTEXTS
    ]
    reader.submit(requests)
    results = dict(reader.collect(30.0))
    for request, text in zip(requests, LESSONS.values(), strict=True):
        reply = results[request]
        assert isinstance(reply, Generation)
        assert reply.text == text
        assert reply.token_logprobs is not None
        assert reply.logprobs is not None
        assert {len(values) for values in reply.token_logprobs.values()} == {len(reply.logprobs)}
        assert all(-100 < values[0] < 0 for values in reply.token_logprobs.values())
        assert SegmentScore().compute(reply) == pytest.approx(
            score_by_hand(reader, request, reply), abs=1e-4
        )


def test_the_right_segment_wins_and_is_replayed(reader: LocalReader, tmp_path: Path) -> None:
    """The model decides to retrieve; its own judgment of the passages finds the answer; the ledger
    has all of it.
    """
    answers = []
    for _ in range(2):
        with SqliteStore(tmp_path / "ledger.sqlite") as ledger:
            driver = Driver(build_engine_map(reader), ledger)
            plan = SelfRag(PROMPT, DECODING, Retrieval("adaptive")).plan(QUESTION, CONTEXTS)
            (outcome,) = driver.run([Job("q", plan)])
        answers.append(outcome.result)
    assert answers[0] == answers[1]
    assert driver.stats.executed == 0
    assert answers[0].text == "Paris"
    assert [passage.text for passage in answers[0].used] == ["yes"]
    assert answers[0].trace[0].startswith("retrieval: P = 0.9")
