"""Supervised fine-tuning of a causal reader on prompts and replies, with transformers' Trainer.

TRL's SFTTrainer computes logits at every prompt position, which takes half of the training time on
a CPU if replies have three tokens. Here, prompts are padded on the left, so that all replies end at
the same position, and `logits_to_keep` limits the logits to the replies. Trainer provides gradient
accumulation, checkpoints, resuming, bfloat16 and multi-GPU training.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_callback import ExportableState

from winnow.artifacts.files import check_free_space
from winnow.errors import ConfigError, WinnowError
from winnow.modeling.devices import pick_device, resolve_dtype
from winnow.modeling.loading import LanguageModel, load_causal_lm
from winnow.training.adapters import add_adapters, save_merged
from winnow.training.attention import without_cudnn_attention
from winnow.training.checkpoint_folders import find_last_checkpoint
from winnow.training.examples import Example
from winnow.training.memory import explain_out_of_memory, measure_peak_memory
from winnow.training.padding import LeftPaddingCollator, LengthGroupedSampler, encode_example
from winnow.training.settings import (
    SftSettings,
    check_single_device,
    count_processes,
    divide_accumulation,
)

_REPORT_FILE = "training.json"
_BYTES_PER_PARAMETER = 26
"""Disk space for two checkpoints (float32 weights, two AdamW moments) and the trained model."""

Log = Callable[[Mapping[str, float], int], None]
"""Function that records metrics, by name, at an optimizer step."""


@dataclass(frozen=True, slots=True)
class SftReport:
    """Summary of a fine-tuning run.

    Attributes:
        steps: Number of optimizer steps.
        loss: Mean training loss of all steps in nats.
        seconds: Training time in seconds, since it was last resumed.
        tokens_per_second: Training throughput in tokens, without padding, since then.
        peak_memory: Peak memory in bytes.
        skipped: Number of examples that were skipped because they exceed the maximum length.
    """

    steps: int
    loss: float
    seconds: float
    tokens_per_second: float
    peak_memory: int
    skipped: int


@without_cudnn_attention()
@explain_out_of_memory(
    "lower settings.batch_size and raise settings.accumulation as much",
    "settings.lora_rank=64",
    "settings.quantize=4bit",
    "lower settings.max_length",
)
def fine_tune(
    base: str,
    examples: Sequence[Example],
    settings: SftSettings,
    out: Path,
    log: Log,
    new_tokens: Sequence[str] = (),
) -> SftReport:
    """Fine-tune a causal language model and save it with its tokenizer, as safetensors in bfloat16.

    The run resumes from the last checkpoint in the folder `<out>.checkpoints`, if there is one. The
    folder `out` is created when the run is complete. If it already contains a report, the function
    returns this report without training.

    Args:
        base: Name or folder of the model to fine-tune.
        examples: Training examples.
        settings: Settings of the training.
        out: Folder to which the model is saved.
        log: Function that records metrics at an optimizer step.
        new_tokens: Special tokens that the replies need. With any, the model loses its chat
            template, because the beginning of a reply is part of some prompts, as with Self-RAG's
            models.

    Raises:
        ConfigError: If all examples exceed the maximum length.
        WinnowError: If the loss is not finite. The message names the examples.
    """
    report_file = out / _REPORT_FILE
    if report_file.is_file():
        return SftReport(**json.loads(report_file.read_text()))
    checkpoints = out.with_name(out.name + ".checkpoints")
    device = pick_device(settings.device)
    quantized = settings.quantize != "none"
    lm = load_causal_lm(
        base,
        *(("bfloat16", settings.device, settings.quantize) if quantized else ("float32", "cpu")),
    )
    check_free_space(out.parent, _BYTES_PER_PARAMETER * lm.model.num_parameters())
    set_seed(settings.seed)  # Trainer sets it after the adapters are drawn
    if new_tokens:
        add_tokens(lm, new_tokens)
    new_token_ids = [int(lm.tokenizer.convert_tokens_to_ids(token)) for token in new_tokens]  # type: ignore[arg-type]
    model: Any = (
        add_adapters(lm.model, settings.lora_rank, new_token_ids)
        if settings.lora_rank
        else lm.model
    )
    text = lm.text
    rows = [encode_example(example, text) for example in examples]
    usable = [row for row in rows if len(row["input_ids"]) <= settings.max_length]
    if not usable:
        raise ConfigError(
            f"All {len(rows)} training examples exceed max_length={settings.max_length} tokens. "
            "Raise max_length, or use shorter passages."
        )
    trainer = ReplyTrainer(
        model=model,
        args=_build_training_arguments(settings, checkpoints, device.type, len(usable)),
        train_dataset=usable,
        data_collator=LeftPaddingCollator(int(lm.tokenizer.pad_token_id)),
    )
    last_checkpoint = find_last_checkpoint(checkpoints)
    trainer.losses = _LossTotal(last_checkpoint)
    trainer.add_callback(trainer.losses)
    trainer.add_callback(_MetricsLogger(trainer, log))
    start_time = time.monotonic()
    output = trainer.train(resume_from_checkpoint=last_checkpoint)
    seconds = time.monotonic() - start_time
    tokens_per_second = trainer.tokens_seen / seconds
    num_skipped = len(rows) - len(usable)
    report = SftReport(
        output.global_step,
        float(trainer.losses.total) / output.global_step,
        seconds,
        tokens_per_second,
        measure_peak_memory(),
        num_skipped,
    )
    if trainer.is_world_process_zero():
        _save_model(trainer, model, lm.tokenizer, report, base, new_tokens, out)
        shutil.rmtree(checkpoints, ignore_errors=True)
    return report


class _LossTotal(TrainerCallback, ExportableState):
    """The sum of the losses of all steps, which checkpoints keep.

    The mean that transformers returns leaves out the steps before a training was resumed.
    """

    def __init__(self, checkpoint: str | None) -> None:
        self.total: torch.Tensor | float = 0.0
        if checkpoint is not None:
            states = json.loads(Path(checkpoint, "trainer_state.json").read_text())
            own = states["stateful_callbacks"][type(self).__name__]
            self.total = own["attributes"]["total"]

    def state(self) -> dict[str, Any]:
        """Return the sum as a checkpoint stores it."""
        return {"args": {}, "attributes": {"total": float(self.total)}}


class ReplyTrainer(Trainer):
    """A Trainer that computes logits only for the tokens of the replies.

    The loss is the mean negative log-likelihood of these tokens, in nats.

    Attributes:
        tokens_seen: Number of tokens that this process has trained on, without padding.
        losses: Sum of the losses of all steps.
    """

    tokens_seen = 0
    losses: _LossTotal

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Receive the number of tokens of all micro-batches of a step from Trainer, also for models
        whose own loss does not use it.
        """
        super().__init__(*arguments, **options)
        self.model_accepts_loss_kwargs = True

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGroupedSampler:
        examples: Any = self.train_dataset if train_dataset is None else train_dataset
        return LengthGroupedSampler(
            [len(row["input_ids"]) for row in examples], self.args.train_batch_size, self.args.seed
        )

    def training_step(self, *arguments: Any, **options: Any) -> torch.Tensor:
        """Compute a micro-batch's gradients, and add its loss, over all processes, to `losses`."""
        loss = super().training_step(*arguments, **options)
        self.losses.total += self.accelerator.reduce(loss.detach(), "mean")
        return loss

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Compute a micro-batch's loss, divided by the whole batch's reply token count if given.

        Raises:
            WinnowError: If the loss is not finite. The message names the examples.
        """
        mask, labels = inputs["attention_mask"], inputs["labels"]
        self.tokens_seen += int(mask.sum())
        kept_positions = int((labels != -100).sum(dim=1).max()) + 1
        position_ids = (mask.cumsum(dim=1) - 1).clamp(min=0)
        logits = model(
            input_ids=inputs["input_ids"],
            attention_mask=mask,
            position_ids=position_ids,
            logits_to_keep=kept_positions,
        ).logits
        flat_logits = logits[:, :-1].float().reshape(-1, logits.shape[-1])
        flat_labels = labels[:, -kept_positions + 1 :].reshape(-1)
        total = torch.nn.functional.cross_entropy(flat_logits, flat_labels, reduction="sum")
        num_tokens = (
            num_items_in_batch if num_items_in_batch is not None else (labels != -100).sum()
        )
        loss = total / num_tokens
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            loss = (
                loss * self.accelerator.num_processes
            )  # num_tokens counts all processes, but gradients are averaged
        if not torch.isfinite(loss):
            raise WinnowError(
                f"The training loss became {loss.item()} on the examples {inputs['example_ids']}. "
                "Lower the learning rate, or check these examples."
            )
        return (loss, logits) if return_outputs else loss


class _MetricsLogger(TrainerCallback):
    """A callback logging loss, learning rate, gradient norm, tokens per second and peak memory."""

    def __init__(self, trainer: ReplyTrainer, log: Log) -> None:
        self.trainer, self.log, self.start_time = trainer, log, time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002 (signature of Trainer)
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **kwargs: Any,
    ) -> None:
        logs = kwargs.get("logs") or {}
        if "loss" not in logs or not state.is_world_process_zero:
            return
        metrics = {
            metric: float(logs[metric])
            for metric in ("loss", "learning_rate", "grad_norm")
            if metric in logs
        }
        metrics["tokens_per_second"] = self.trainer.tokens_seen / (
            time.monotonic() - self.start_time
        )
        metrics["memory_gb"] = measure_peak_memory() / 1e9
        self.log(metrics, state.global_step)


def _build_training_arguments(
    settings: SftSettings, checkpoints: Path, device: str, num_examples: int
) -> TrainingArguments:
    num_batches = math.ceil(num_examples / settings.batch_size)
    steps = math.ceil(settings.epochs * math.ceil(num_batches / settings.accumulation))
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=divide_accumulation(settings.accumulation, count_processes()),
        num_train_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=round(settings.warmup_ratio * steps),
        weight_decay=settings.weight_decay,
        bf16=resolve_dtype(settings.precision, settings.device) == "bfloat16",
        use_cpu=device == "cpu",
        seed=settings.seed,
        data_seed=settings.seed,
        save_steps=settings.save_steps,
        save_total_limit=1,
        logging_steps=settings.logging_steps,
        remove_unused_columns=False,
        dataloader_pin_memory=device == "cuda",
        report_to="none",
        disable_tqdm=not sys.stderr.isatty(),
    )
    check_single_device(arguments)
    return arguments


def add_tokens(lm: LanguageModel, new_tokens: Sequence[str]) -> None:
    """Add special tokens to the vocabulary, and remove the chat template.

    The embedding of a new token is the mean of those that its text had before. Equal embeddings for
    all of them, as those that `resize_token_embeddings` draws nearly are, take more examples to
    tell apart than a small training set has.
    """
    pieces = [lm.tokenizer(token, add_special_tokens=False)["input_ids"] for token in new_tokens]
    lm.tokenizer.add_special_tokens(
        {"extra_special_tokens": list(new_tokens)}, replace_extra_special_tokens=False
    )
    model: Any = lm.model
    if len(lm.tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(lm.tokenizer), mean_resizing=False)
    token_ids = lm.tokenizer.convert_tokens_to_ids(list(new_tokens))
    with torch.no_grad():
        for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
            means = torch.stack([layer.weight[ids].mean(dim=0) for ids in pieces])
            layer.weight[token_ids] = means
    lm.tokenizer.chat_template = None


def _save_model(
    trainer: Trainer, model: Any, tokenizer: PreTrainedTokenizerBase, report: SftReport, base: str,
    new_tokens: Sequence[str], out: Path,
) -> None:  # fmt: skip
    """Save the model, tokenizer and report to a temporary folder, which then replaces `out`."""
    trained_model = trainer.accelerator.unwrap_model(model)
    partial_folder = out.with_name(out.name + ".partial")
    shutil.rmtree(partial_folder, ignore_errors=True)
    if hasattr(trained_model, "merge_and_unload"):
        partial_folder.mkdir(parents=True)
        save_merged(
            trained_model,
            base,
            partial_folder,
            lambda lm: add_tokens(lm, new_tokens) if new_tokens else None,
        )
    else:
        trained_model.to(torch.bfloat16).save_pretrained(partial_folder)
    tokenizer.save_pretrained(partial_folder)
    (partial_folder / _REPORT_FILE).write_text(json.dumps(asdict(report)))
    shutil.rmtree(out, ignore_errors=True)
    partial_folder.rename(out)
