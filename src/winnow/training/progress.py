"""Progress of the training loop, its report, and the number of its steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from winnow.training.settings import LoopSettings


@dataclass(frozen=True, slots=True)
class LoopReport:
    """Summary of a training run.

    Attributes:
        steps: Number of optimizer steps.
        seconds: Training time in seconds, without evaluation.
        tokens_per_second: Training throughput in tokens, without padding.
        peak_memory: Peak memory in bytes.
        best_epoch: Epoch whose models were saved, counted from 1.
        history: Mean metrics on the development questions after each epoch.
        truncated: Number of pairs that the first process truncated to a model's maximum length
            since it last started.
        truncated_answers: Number of distinct answers that it truncated to the maximum length of an
            answer.
    """

    steps: int
    seconds: float
    tokens_per_second: float
    peak_memory: int
    best_epoch: int
    history: Sequence[Mapping[str, float]]
    truncated: int = 0
    truncated_answers: int = 0


@dataclass
class Progress:
    """The progress of a run, as saved in its checkpoint.

    Attributes:
        step: Number of finished optimizer steps.
        epoch: Number of finished epochs.
        batch: Number of batches that this process has finished in the current epoch.
        seconds: Training time in seconds, without evaluation.
        tokens: Number of tokens that all processes have trained on, without padding.
        best: Highest mean of the method's criterion on the development questions so far.
        best_epoch: Epoch that reached `best`, counted from 1.
        history: Mean metrics on the development questions after each epoch.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    tokens: int = 0
    best: float = -math.inf
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def count_optimizer_steps(num_questions: int, settings: LoopSettings, updates: int = 1) -> int:
    """Compute the number of optimizer steps of a complete run on one device.

    Args:
        num_questions: Number of training questions.
        settings: Settings of the training.
        updates: Number of optimizer steps on each prepared batch, as in `Method.updates`.
    """
    batches = math.ceil(num_questions / settings.batch_questions)
    return settings.epochs * math.ceil(batches / settings.accumulation) * updates


def set_dropout(model: torch.nn.Module, probability: float) -> None:
    """Set the dropout probability of every layer of a model."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = probability
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, probability)
