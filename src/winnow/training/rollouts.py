"""Reinforcement learning rollouts: strategy prompts, sampled replies, and rewards by a metric."""

from __future__ import annotations

import logging
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
from winnow.modeling.text_interface import TextInterface
from winnow.predictions import Prediction
from winnow.protocols import Strategy
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Generate, Generation, Plan
from winnow.steps import Step, describe_round
from winnow.training.groups import Group

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)


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

    def build_request(self, group: Group) -> Generate:
        """Return a question's request, or raise ConfigError for a multi-request strategy."""
        return _start(self.strategy.plan(group.question, group.contexts))[1]

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


def check_decoding(decoding: Decoding, unused: Sequence[str]) -> None:
    """Raise ConfigError for a setting of the rollouts that would have no effect."""
    for name in unused:
        value, default = getattr(decoding, name), getattr(Decoding(), name)
        if value != default:
            raise ConfigError(
                f"training.decoding.{name}={value!r} has no effect on the replies that this "
                f"training draws. Set it to {default!r}."
            )


def select_fitting(
    groups: Sequence[Group],
    task: RewardedTask,
    text: TextInterface,
    max_new_tokens: int,
    *,
    as_text: bool = False,
) -> list[Group]:
    """Select the questions whose prompts leave room for a reply, and log how many do not.

    Args:
        groups: Questions with their contexts.
        task: Prompts of the questions.
        text: Tokenizer and limits of the reader.
        max_new_tokens: Maximum number of tokens of a reply.
        as_text: Whether prompts are given as texts, so that those whose passages spell out control
            tokens, which would be read as such, are left out, too.

    Raises:
        ConfigError: If no question is left.
    """
    fitting = []
    for group in groups:
        request = task.build_request(group)
        ids = tokenize_chat(text.tokenizer, request.messages, passages=request.passages)
        is_read = not as_text or ids == tokenize_chat(text.tokenizer, request.messages)
        if is_read and len(ids) + max_new_tokens <= text.context_length:
            fitting.append(group)
    if not fitting and groups:
        raise ConfigError(
            f"None of {len(groups)} prompts fits with a reply of {max_new_tokens} tokens into the "
            f"{text.context_length} tokens of the reader. Lower training.mix.max_words."
        )
    if len(fitting) < len(groups):
        _log.warning(
            "%d of %d prompts are left out: with a reply they exceed the context length of the "
            "reader, or the method cannot give it their control tokens as text.",
            len(groups) - len(fitting),
            len(groups),
        )
    return fitting


def encode_prompts(lm: LanguageModel, requests: Sequence[Generate]) -> list[list[int]]:
    """Tokenize the chat prompts of requests as a reader does."""
    return [
        tokenize_chat(lm.tokenizer, request.messages, passages=request.passages)
        for request in requests
    ]


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
