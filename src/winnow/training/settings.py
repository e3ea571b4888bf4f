"""Settings of training runs; this module imports no model code, so that keys can be computed without it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from winnow.errors import ConfigError
from winnow.modeling.loading import resolve_dtype

PRECISIONS = ("auto", "bfloat16", "float32")


@dataclass(frozen=True, slots=True)
class SftSettings:
    """Settings of supervised fine-tuning.

    Attributes:
        epochs: passes over the examples.
        learning_rate: at its peak; it decays linearly.
        warmup_ratio: share of the steps over which it rises.
        weight_decay: of AdamW.
        batch_size: examples per device and micro-batch.
        accumulation: micro-batches per optimizer step.
        max_length: longer examples are left out, and counted.
        lora_rank: 0 trains all weights.
        precision: bfloat16 keeps float32 master weights; "auto" means bfloat16 where the hardware has it.
        device: auto, cpu or cuda.
        save_steps: steps between checkpoints.
        logging_steps: steps between log entries.
        seed: of shuffling and dropout.

    """

    speed_only: ClassVar[Mapping[str, str]] = {
        "device": "the same computation on another device",
        "save_steps": "a resumed run continues bit for bit",
        "logging_steps": "logging changes no weight",
    }

    epochs: float = 1.0
    learning_rate: float = 1e-4
    warmup_ratio: float = 0.05
    weight_decay: float = 0.0
    batch_size: int = 4
    accumulation: int = 4
    max_length: int = 1024
    lora_rank: int = 0
    precision: str = "auto"
    device: str = "auto"
    save_steps: int = 15
    logging_steps: int = 2
    seed: int = 13

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if min(self.batch_size, self.accumulation, self.max_length, self.save_steps, self.logging_steps) < 1:
            raise ConfigError(f"training: batch_size, accumulation, max_length and *_steps start at 1; received {self}.")
        _check_precision(self.precision)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the precision that "auto" means on this machine."""
        return _with_precision(settings)


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of the joint training loop; the defaults are RE-RAG's (appendix B), whose effective batch is 64 questions.

    Attributes:
        epochs: passes over the training questions.
        learning_rate: constant after `warmup_steps`.
        weight_decay: of AdamW.
        warmup_steps: steps over which the learning rate rises linearly.
        batch_questions: questions per device and batch.
        accumulation: batches per optimizer step, over all devices.
        chunk_tokens: padded tokens that run through a model at once.
        gradient_caching: run each chunk twice instead of keeping its activations.
        gradient_checkpointing: let the models keep only their layers' inputs.
        dropout: of all layers; None keeps the models' own. On a CPU its random numbers take a third of the time.
        max_grad_norm: gradients are scaled down to it; 0 turns clipping off.
        max_loss: a loss above it stops the run, as a loss that is not finite does.
        precision: bfloat16 (autocast over float32 weights) or float32; "auto" means bfloat16 where the hardware has it.
        device: auto, cpu or cuda.
        save_steps: steps between checkpoints.
        logging_steps: steps between log entries.
        seed: of shuffling, dropout and new weights.

    """

    speed_only: ClassVar[Mapping[str, str]] = {
        "device": "the same computation on another device",
        "chunk_tokens": "chunks are summed: only rounding depends on their size",
        "gradient_caching": "the gradient is the same, computed in two passes",
        "gradient_checkpointing": "activations are recomputed, not changed",
        "max_loss": "it stops a run, and changes none that finishes",
        "save_steps": "a resumed run continues bit for bit",
        "logging_steps": "logging changes no weight",
    }

    epochs: int = 10
    learning_rate: float = 1e-4
    weight_decay: float = 1e-3
    warmup_steps: int = 0
    batch_questions: int = 4
    accumulation: int = 16
    chunk_tokens: int = 8192
    gradient_caching: bool = False
    gradient_checkpointing: bool = False
    dropout: float | None = None
    max_grad_norm: float = 1.0
    max_loss: float = 1e5
    precision: str = "auto"
    device: str = "auto"
    save_steps: int = 50
    logging_steps: int = 5
    seed: int = 13

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        counts = (self.epochs, self.batch_questions, self.accumulation, self.chunk_tokens, self.save_steps, self.logging_steps)
        if min(counts) < 1 or min(self.learning_rate, self.max_loss) <= 0 or self.warmup_steps < 0:
            raise ConfigError(f"training: counts start at 1, rates above 0; received {self}.")
        _check_precision(self.precision)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the precision that "auto" means on this machine."""
        return _with_precision(settings)


def _check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ConfigError(f"training.precision must be one of {', '.join(PRECISIONS)}; received {precision!r}.")


def _with_precision(settings: Mapping[str, Any]) -> dict[str, Any]:
    precision = resolve_dtype(str(settings.get("precision", "auto")), str(settings.get("device", "auto")))
    return {**settings, "precision": precision}
