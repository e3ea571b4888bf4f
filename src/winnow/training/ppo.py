"""Proximal policy optimization of a reader on reply rewards (RAGE, section 4; Ouyang et al. 2022).

TRL no longer has PPO. The reader learns by LoRA adapters: without them, it is the reference model,
so that no second copy is in memory. Replies are drawn with the current weights, and their
log-probabilities come from the model that is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Le

from winnow.errors import ConfigError
from winnow.identity.markers import ModelName
from winnow.identity.values import check_values
from winnow.modeling.loading import LanguageModel
from winnow.modeling.pair_inputs import group_by_token_budget, pad_rows
from winnow.records import Decoding
from winnow.training.adapters import load_with_adapters, save_merged
from winnow.training.chunks import Chunk, build_chunks
from winnow.training.method import Method
from winnow.training.policy_gradient import (
    KlPenalty,
    compute_advantages,
    compute_policy_loss,
    compute_value_loss,
    masked_mean,
    whiten,
)
from winnow.training.rollouts import (
    RewardedTask,
    check_decoding,
    decode_reply,
    encode_prompts,
    generate_replies,
)

if TYPE_CHECKING:
    import torch

    from winnow.modeling.pair_model import PairModel
    from winnow.training.groups import Group

_MAX_PROMPTS = 16
"""Number of prompts that are generated from at once."""


@dataclass
class Rollouts:
    """Sampled replies to the questions of a batch, and what the updates need to know about them.

    Tensors have the shape (replies, tokens), where a reply is at the end of its row.

    Attributes:
        sequences: Token ids of each prompt with its reply.
        targets: Token ids of the replies.
        mask: Mask of the replies.
        log_probs: Log-probabilities of the tokens when they were drawn.
        values: Values when the replies were drawn.
        advantages: Whitened advantages.
        returns: Returns that the values learn.
        report: Means over the replies, by name: reward, metrics, length, divergence.
        order: Random order of the replies, which divides them into mini-batches.
        update: Number of updates so far.
        rows: Replies of the current mini-batch.
    """

    sequences: list[list[int]]
    targets: torch.Tensor
    mask: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    report: Mapping[str, float]
    order: list[int]
    update: int = 0
    rows: list[int] = field(default_factory=list)

    def start_update(self, minibatches: int) -> list[int]:
        """Select the replies of the next mini-batch; a batch of fewer replies has fewer of them."""
        number = min(minibatches, len(self.order))
        self.rows = self.order[self.update % number :: number]
        self.update += 1
        return self.rows


@dataclass
class Ppo(Method[Rollouts]):
    """Proximal policy optimization of a causal reader.

    The reward of a reply comes with its last token, and every token costs the divergence from the
    reference model, the reader before the training. A linear head on the last hidden state
    estimates the return.

    Args:
        base: Name or folder of the reader to train.
        task: Prompts and rewards.
        decoding: Generation settings of the rollouts: maximum length and temperature.
        lora_rank: Rank of the adapters (RAGE: 64).
        passes: Number of passes over the replies of a batch.
        minibatches: Number of optimizer steps in each pass.
        clip: Largest change of a probability ratio that is rewarded.
        value_clip: Largest change of a value that is rewarded.
        value_weight: Weight of the loss of the values.
        entropy_weight: Weight of the entropy, which is added to the objective.
        discount: Discount factor.
        trace: Weight of longer estimates of the advantage (lambda).
        kl: Weight of the penalty on the divergence from the reference model.
        max_divergence: Divergence from the policy that drew the replies, in nats per token, above
            which the remaining updates on a batch are left out; None for no limit.
        quantize: "none" or, on a GPU, "4bit" (QLoRA).
        device: "auto", "cpu" or "cuda".
    """

    criterion = "reward"

    base: Annotated[str, ModelName]
    task: RewardedTask
    decoding: Decoding = Decoding(max_new_tokens=32, temperature=1.0)
    lora_rank: Annotated[int, Ge(1)] = 64
    passes: Annotated[int, Ge(1)] = 2
    minibatches: Annotated[int, Ge(1)] = 1
    clip: Annotated[float, Gt(0)] = 0.2
    value_clip: Annotated[float, Gt(0)] = 0.2
    value_weight: float = 0.1
    entropy_weight: float = 0.0
    discount: Annotated[float, Ge(0), Le(1)] = 1.0
    trace: Annotated[float, Ge(0), Le(1)] = 0.95
    kl: KlPenalty = field(default_factory=KlPenalty)
    max_divergence: float | None = None
    quantize: str = "none"
    device: str = "auto"

    def __post_init__(self) -> None:
        check_values("method", self)
        if self.decoding.temperature <= 0:
            raise ConfigError("Rollouts are sampled: set decoding.temperature above 0.")
        check_decoding(self.decoding, ("stop", "seed", "top_p"))

    @property
    def updates(self) -> int:  # type: ignore[override]
        """Return the number of optimizer steps on the replies of a batch."""
        return self.passes * self.minibatches

    @cached_property
    def policy(self) -> LanguageModel:
        """The reader with its adapters."""
        return load_with_adapters(self.base, self.lora_rank, self.quantize, self.device)

    @cached_property
    def value_head(self) -> torch.nn.Linear:
        """The estimator of the return, which starts at 0."""
        import torch

        head = torch.nn.Linear(int(self.policy.model.config.hidden_size), 1)
        torch.nn.init.zeros_(head.weight)
        torch.nn.init.zeros_(head.bias)
        return head.to(self.policy.device)

    @property
    def components(self) -> Mapping[str, PairModel]:
        """Return no model: a policy reads whole prompts instead of pairs."""
        return {}

    @property
    def models(self) -> Mapping[str, LanguageModel]:
        """Return the reader."""
        return {"reader": self.policy}

    @property
    def heads(self) -> Mapping[str, torch.nn.Module]:
        """Return the value head."""
        return {"value_head": self.value_head}

    def save_model(self, name: str, folder: Path) -> None:  # noqa: ARG002 (there is one model)
        """Save the reader with its adapters merged."""
        folder.mkdir(parents=True, exist_ok=True)
        save_merged(self.policy.model, self.base, folder)
        self.policy.tokenizer.save_pretrained(folder)

    def prepare(self, groups: Sequence[Group], seed: int, epoch: int) -> Rollouts:  # noqa: ARG002 (PyTorch's random state is seeded)
        """Draw replies, and compute rewards, advantages and divergences from the reference."""
        import accelerate.utils
        import torch

        prompts = encode_prompts(self.policy, [self.task.build_request(group) for group in groups])
        replies = self._generate(prompts, self.decoding.temperature)
        scores = [
            self.task.score(group, self._decode(reply))
            for group, reply in zip(groups, replies, strict=True)
        ]
        sequences = [[*prompt, *reply] for prompt, reply in zip(prompts, replies, strict=True)]
        targets, mask = self._align(replies)
        log_probs, values, _ = self._run_all(sequences, targets)
        with self.policy.model.disable_adapter():  # type: ignore[operator]  # of PEFT
            reference, _, _ = self._run_all(sequences, targets)
        divergence = (log_probs - reference) * mask
        rewards = -self.kl.weight * divergence
        rewards[:, -1] += torch.tensor([score["reward"] for score in scores], device=rewards.device)
        advantages = compute_advantages(rewards, values, mask, self.discount, self.trace)
        report = {
            **_average(scores),
            "kl": float(divergence.sum(dim=1).mean()),
            "kl_weight": self.kl.weight,
            "reply_tokens": float(mask.sum(dim=1).float().mean()),
        }
        parts = accelerate.utils.gather_object([(float(divergence.sum()), len(groups))])
        num_replies = sum(number for _, number in parts)
        self.kl.update(sum(total for total, _ in parts) / num_replies, num_replies)
        order = torch.randperm(len(groups)).tolist()
        returns = advantages + values
        return Rollouts(
            sequences,
            targets,
            mask,
            log_probs,
            values,
            whiten(advantages, mask),
            returns,
            report,
            order,
        )

    def chunks(self, batch: Rollouts, seed: int, epoch: int, max_tokens: int) -> list[Chunk]:  # noqa: ARG002 (the interface)
        """Divide the next mini-batch into chunks (columns: log-probability, value and entropy)."""
        import torch

        rows = batch.start_update(self.minibatches)
        sequences, targets = [batch.sequences[row] for row in rows], batch.targets[rows]

        def run(positions: Sequence[int]) -> torch.Tensor:
            return torch.cat(
                self._run(
                    [sequences[position] for position in positions], targets[list(positions)]
                ),
                dim=1,
            )

        lengths = [len(sequence) for sequence in sequences]
        return build_chunks(group_by_token_budget(lengths, max_tokens), run, lengths)

    def loss(self, values: torch.Tensor, batch: Rollouts) -> Mapping[str, torch.Tensor]:
        """Compute the loss of the current mini-batch: clipped objective, values and entropy."""
        import torch

        log_probs, estimates, entropies = values.chunk(3, dim=1)
        rows = batch.rows
        mask, old_log_probs = batch.mask[rows], batch.log_probs[rows]
        policy_loss, clipped = compute_policy_loss(
            log_probs, old_log_probs, batch.advantages[rows], mask, self.clip
        )
        value_loss = compute_value_loss(
            estimates, batch.values[rows], batch.returns[rows], mask, self.value_clip
        )
        entropy = masked_mean(entropies, mask)
        log_ratios = torch.where(mask, log_probs.detach() - old_log_probs, 0.0)
        terms = {
            "loss": policy_loss + self.value_weight * value_loss - self.entropy_weight * entropy,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "clipped": clipped,
            "update_kl": masked_mean(log_ratios.exp() - 1 - log_ratios, mask),
        }
        return terms | {name: torch.tensor(value) for name, value in batch.report.items()}

    def should_stop(self, terms: Mapping[str, float]) -> bool:
        """Return whether the policy has moved too far from the one that drew the replies."""
        return self.max_divergence is not None and terms["update_kl"] > self.max_divergence

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Compute reward and metrics of a greedy reply to each question."""
        prompts = encode_prompts(self.policy, [self.task.build_request(group) for group in groups])
        replies = self._generate(prompts, 0.0)
        return [
            {**self.task.score(group, self._decode(reply)), "reply_tokens": float(len(reply))}
            for group, reply in zip(groups, replies, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the weight of the penalty, which adapts."""
        return {"kl_weight": self.kl.weight}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the weight of the penalty."""
        self.kl.weight = float(state["kl_weight"])

    def _generate(self, prompts: Sequence[Sequence[int]], temperature: float) -> list[list[int]]:
        """Generate a reply to each prompt, in batches."""
        replies: list[list[int]] = []
        for start in range(0, len(prompts), _MAX_PROMPTS):
            part = prompts[start : start + _MAX_PROMPTS]
            replies += generate_replies(
                self.policy, part, self.decoding.max_new_tokens, temperature
            )
        return replies

    def _decode(self, reply: Sequence[int]) -> str:
        return decode_reply(self.policy, reply)

    def _align(self, replies: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the token ids of the replies, each at the end of its row, and their mask."""
        targets, mask = pad_rows(replies, int(self.policy.tokenizer.pad_token_id), left=True)
        return targets.to(self.policy.device), mask.to(self.policy.device).bool()

    def _run_all(
        self, sequences: Sequence[Sequence[int]], targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute log-probabilities, values and entropies of all replies, in batches."""
        import torch

        parts = [
            self._run(
                sequences[start : start + _MAX_PROMPTS], targets[start : start + _MAX_PROMPTS]
            )
            for start in range(0, len(sequences), _MAX_PROMPTS)
        ]
        log_probs, values, entropies = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        return log_probs, values, entropies

    def _run(
        self, sequences: Sequence[Sequence[int]], targets: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Compute the log-probabilities of the targets, the values before them, and the entropies,
        each (rows, tokens).
        """
        lm = self.policy
        ids, mask = (
            tensor.to(lm.device)
            for tensor in pad_rows(sequences, int(lm.tokenizer.pad_token_id), left=True)
        )
        width = targets.shape[1]
        output = lm.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            logits_to_keep=width + 1,
            output_hidden_states=True,
            use_cache=False,
        )
        logits = output.logits[:, :-1].float() / self.decoding.temperature
        log_probs = logits.log_softmax(dim=-1)
        entropies = -(log_probs.exp() * log_probs).sum(dim=-1)
        last_hidden_states = output.hidden_states[-1][:, -width - 1 : -1]
        values = (
            self.value_head(last_hidden_states.to(self.value_head.weight.dtype)).squeeze(-1).float()
        )
        return log_probs.gather(2, targets[:, :, None]).squeeze(2), values, entropies


def _average(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each score over the replies."""
    return {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}
