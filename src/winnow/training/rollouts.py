"""Reinforcement learning rollouts: strategy prompts, sampled replies, and rewards by a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.contexts.shown import build_shown
from winnow.errors import ConfigError, WinnowError
from winnow.metrics.base import MeanMetric, Sample
from winnow.modeling.chat import tokenize_chat
from winnow.modeling.loading import LanguageModel
from winnow.modeling.pair_inputs import pad_rows
from winnow.predictions import Prediction
from winnow.protocols import Strategy
from winnow.records import Answer, Context, Question
from winnow.requests import Generate, Generation, Message, Plan
from winnow.steps import Step, describe_round
from winnow.training.groups import Group

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class RewardedTask:
    """A task with rewarded replies: a single-request strategy, and the metric of its answer.

    Training and sweeps share strategy and metric, so that what is rewarded is what is reported.

    Attributes:
        strategy: Strategy that makes a single request.
        reward: Metric whose value is the reward.
        metrics: Metrics that are reported besides.
    """

    strategy: Strategy
    reward: MeanMetric
    metrics: Sequence[MeanMetric] = ()

    def build_prompt(self, group: Group) -> tuple[Message, ...]:
        """Return a question's chat prompt, or raise ConfigError for a multi-request strategy."""
        return _start(self.strategy.plan(group.question, group.contexts))[1].messages

    def build_sample(self, group: Group, reply: str) -> Sample:
        """Return the sample that metrics read: the strategy's prediction from a reply."""
        plan, request = _start(self.strategy.plan(group.question, group.contexts))
        generation = Generation(reply)
        try:
            plan.send([generation])
        except StopIteration as stop:
            answer: Answer = stop.value
        else:
            raise ConfigError(
                f"{type(self.strategy).__name__} makes several requests, and rewards are of one "
                "reply each."
            )
        return build_sample(
            group.question, group.contexts, answer, describe_round(1, [request], [generation])
        )

    def has_reward(self, group: Group) -> bool:
        """Return whether reward and metrics are defined; citation ones need a relevant passage."""
        sample = self.build_sample(group, "")
        return all(
            metric.compute_row(sample) is not None for metric in (self.reward, *self.metrics)
        )

    def score(self, group: Group, reply: str) -> dict[str, float]:
        """Compute reward ("reward") and metrics of a reply.

        Raises:
            WinnowError: If one is undefined or not finite. The message names the question.
        """
        sample = self.build_sample(group, reply)
        scores = {}
        for name, metric in {
            "reward": self.reward,
            **{metric.name: metric for metric in self.metrics},
        }.items():
            value = metric.score(sample)
            if value is None or not math.isfinite(value):
                raise WinnowError(
                    f"The metric {metric.name} of a reply to question "
                    f"{group.question.question_id!r} is {value}; the reply is {reply!r}. Leave "
                    "out questions for which it is undefined, or correct the metric."
                )
            scores[name] = float(value)
        return scores


def build_sample(
    question: Question, contexts: Sequence[Context], answer: Answer, steps: Sequence[Step]
) -> Sample:
    """Return the sample that metrics read of an answer, from its question, contexts and steps."""
    used_passage_ids = tuple(passage.passage_id for passage in answer.used)
    placed_ids = tuple(context.passage.passage_id for context in contexts)
    prediction = Prediction(
        question.question_id,
        answer.text,
        answer.unknown,
        reply=answer.reply,
        passage_ids=placed_ids,
        used_ids=used_passage_ids,
    )
    shown_contexts = build_shown(question, steps, answer.used, contexts)
    return Sample(question, prediction, contexts, ranking=contexts, shown=shown_contexts)


def _start(plan: Plan[Answer]) -> tuple[Plan[Answer], Generate]:
    """Return a plan with its only request."""
    requests = next(plan)
    if len(requests) != 1 or not isinstance(requests[0], Generate):
        raise ConfigError(
            f"Rewards need a strategy that requests one reply; received one with {len(requests)} "
            "requests."
        )
    return plan, requests[0]


def encode_prompts(lm: LanguageModel, prompts: Sequence[Sequence[Message]]) -> list[list[int]]:
    """Tokenize chat prompts as a reader does."""
    return [tokenize_chat(lm.tokenizer, prompt) for prompt in prompts]


def generate_replies(
    lm: LanguageModel, prompts: Sequence[Sequence[int]], max_new_tokens: int, temperature: float
) -> list[list[int]]:
    """Generate a reply to each prompt with the current weights, greedily at temperature 0.

    Args:
        lm: Model, whose random state is PyTorch's.
        prompts: Token ids of the prompts.
        max_new_tokens: Maximum number of tokens of a reply.
        temperature: Sampling temperature; all tokens may be drawn.

    Returns:
        Token ids of each reply, with the token that ends it unless it was cut.
    """
    import torch

    pad_id = int(lm.tokenizer.pad_token_id)
    ids, mask = pad_rows(prompts, pad_id, left=True)
    sampling = (
        {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        if temperature
        else {"do_sample": False}
    )
    with torch.no_grad():
        sequences: torch.Tensor = lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
            input_ids=ids.to(lm.device), attention_mask=mask.to(lm.device),
            max_new_tokens=max_new_tokens, pad_token_id=pad_id, num_beams=1, **sampling,
        )  # fmt: skip
    ends = lm.end_token_ids
    replies = []
    for row in sequences[:, ids.shape[1] :].tolist():
        end = next((position for position, token in enumerate(row) if token in ends), len(row) - 1)
        replies.append(row[: end + 1])
    return replies


def decode_reply(lm: LanguageModel, ids: Sequence[int]) -> str:
    """Return the text of a reply without special tokens."""
    return str(lm.tokenizer.decode(list(ids), skip_special_tokens=True)).strip()
