"""Settings of the two kinds of training: supervised fine-tuning and joint training.

This module imports no model code, so that the keys of artifacts can be computed without PyTorch.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Lt

from winnow.errors import ConfigError
from winnow.identity.markers import SpeedOnly
from winnow.identity.values import check_values
from winnow.modeling.devices import resolve_dtype_setting

Precision = Literal["auto", "bfloat16", "float32"]
Quantization = Literal["none", "4bit"]


@dataclass(frozen=True, slots=True)
class SftSettings:
    """Settings of supervised fine-tuning.

    Attributes:
        epochs: Number of passes over the examples.
        learning_rate: Peak learning rate. After the warm-up, the learning rate decays linearly to
            0.
        warmup_ratio: Fraction of the optimizer steps over which the learning rate rises linearly.
        weight_decay: Weight decay of AdamW.
        batch_size: Number of examples in a micro-batch.
        accumulation: Number of micro-batches per optimizer step, summed over all processes.
        max_length: Maximum number of tokens in an example. Longer examples are skipped and counted.
        lora_rank: Rank of the LoRA adapters, or 0 to train all weights.
        quantize: "none" or, on a GPU and with adapters, "4bit": the base model has 4-bit weights
            (QLoRA, nf4).
        precision: "bfloat16" (with float32 master weights), "float32", or "auto" for bfloat16 if
            the hardware supports it.
        device: "auto", "cpu" or "cuda".
        save_steps: Number of optimizer steps between checkpoints.
        logging_steps: Number of optimizer steps between log entries.
        seed: Seed of shuffling and dropout.
    """

    revision: ClassVar[int] = 3

    epochs: Annotated[float, Gt(0)] = 1.0
    learning_rate: Annotated[float, Gt(0)] = 1e-4
    warmup_ratio: Annotated[float, Ge(0), Lt(1)] = 0.05
    weight_decay: Annotated[float, Ge(0)] = 0.0
    batch_size: Annotated[int, Ge(1)] = 4
    accumulation: Annotated[int, Ge(1)] = 4
    max_length: Annotated[int, Ge(1)] = 1024
    lora_rank: Annotated[int, Ge(0)] = 0
    quantize: Quantization = "none"
    precision: Precision = "auto"
    device: Annotated[str, SpeedOnly("the computation is the same on every device")] = "auto"
    save_steps: Annotated[int, Ge(1), SpeedOnly("a resumed run has exactly the same weights")] = 15
    logging_steps: Annotated[int, Ge(1), SpeedOnly("logging does not affect the weights")] = 2
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        check_values("settings", self)
        if self.quantize == "4bit" and not self.lora_rank:
            raise ConfigError("quantize=4bit needs a lora_rank of at least 1; received 0.")

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with precision "auto" resolved for this machine."""
        return resolve_dtype_setting(settings, "precision")


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of joint training.

    The optimizer, the learning rate and the effective batch of 64 questions follow RE-RAG
    (appendix B).

    Attributes:
        epochs: Number of passes over the training questions.
        learning_rate: Learning rate, which is constant after the warm-up.
        weight_decay: Weight decay of AdamW.
        warmup_steps: Number of optimizer steps over which the learning rate rises linearly.
        batch_questions: Number of questions per device in a batch.
        accumulation: Number of batches per optimizer step, summed over all devices.
        chunk_tokens: Maximum number of tokens, including padding, in a chunk: the rows that run
            through a model at once. With dropout, another number is like another seed.
        gradient_caching: Whether to run each chunk twice instead of keeping its activations in
            memory.
        gradient_checkpointing: Whether the models keep only the inputs of their layers and
            recompute other activations.
        dropout: Dropout probability of all layers, or None for the models' own probabilities. On a
            CPU, drawing the random numbers of dropout takes a third of the training time.
        max_grad_norm: Norm to which gradients are clipped, or 0 for no clipping.
        max_loss: Loss above which the run stops with an error. A loss that is not finite always
            stops the run.
        precision: "bfloat16" (autocast with float32 weights), "float32", or "auto" for bfloat16 if
            the hardware supports it.
        device: "auto", "cpu" or "cuda".
        save_steps: Number of optimizer steps between checkpoints.
        logging_steps: Number of optimizer steps between log entries.
        seed: Seed of shuffling, dropout and newly initialized weights.
    """

    revision: ClassVar[int] = 1

    epochs: Annotated[int, Ge(1)] = 10
    learning_rate: Annotated[float, Gt(0)] = 1e-4
    weight_decay: Annotated[float, Ge(0)] = 1e-3
    warmup_steps: Annotated[int, Ge(0)] = 0
    batch_questions: Annotated[int, Ge(1)] = 4
    accumulation: Annotated[int, Ge(1)] = 16
    chunk_tokens: Annotated[
        int, Ge(1), SpeedOnly("a chunk's size affects rounding, and which units dropout drops")
    ] = 8192
    gradient_caching: Annotated[bool, SpeedOnly("the same gradient is computed in two passes")] = (
        False
    )
    gradient_checkpointing: Annotated[bool, SpeedOnly("recomputed activations are the same")] = (
        False
    )
    dropout: Annotated[float, Ge(0), Lt(1)] | None = None
    max_grad_norm: Annotated[float, Ge(0)] = 1.0
    max_loss: Annotated[
        float, Gt(0), SpeedOnly("the limit stops a run and does not affect a run that finishes")
    ] = 1e5
    precision: Precision = "auto"
    device: Annotated[str, SpeedOnly("the computation is the same on every device")] = "auto"
    save_steps: Annotated[int, Ge(1), SpeedOnly("a resumed run has exactly the same weights")] = 50
    logging_steps: Annotated[int, Ge(1), SpeedOnly("logging does not affect the weights")] = 5
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        check_values("settings", self)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with precision "auto" resolved for this machine."""
        return resolve_dtype_setting(settings, "precision")


def divide_accumulation(accumulation: int, processes: int) -> int:
    """Return the number of batches per optimizer step of each process, so that a step is the same
    with any number of them.

    Raises:
        ConfigError: If the batches cannot be divided equally.
    """
    if accumulation % processes:
        raise ConfigError(
            f"accumulation={accumulation} batches per optimizer step cannot be divided equally "
            f"among {processes} processes. Set accumulation to a multiple of {processes}."
        )
    return accumulation // processes


def check_single_device(arguments: Any) -> None:
    """Raise ConfigError if Trainer would use several GPUs per process, which enlarges batches."""
    if arguments.n_gpu > 1:
        raise ConfigError(
            f"{arguments.n_gpu} GPUs are visible to one process, which would multiply the batch. "
            "Start one process a GPU (torchrun --nproc_per_node=...), or set "
            "CUDA_VISIBLE_DEVICES to one of them."
        )


def count_processes() -> int:
    """Return the number of processes of this training, which torchrun starts."""
    return int(os.environ.get("WORLD_SIZE", "1"))
