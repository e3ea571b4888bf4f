"""Supervised fine-tuning of a causal reader on prompts and replies, with transformers' Trainer.

TRL's SFTTrainer computes logits at every prompt position. For replies of three tokens, this takes half of the training time
on a CPU. Here, prompts are padded on the left, so that all replies end at the same position, and `logits_to_keep` limits the
logits to the replies. Trainer provides the rest: accumulation, checkpoints, resuming, bfloat16 and several GPUs.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from winnow.artifacts.files import check_free_space
from winnow.errors import ConfigError, WinnowError
from winnow.modeling.loading import chat_text, load_causal_lm, pick_device, resolve_dtype
from winnow.training.examples import Example
from winnow.training.memory import peak_memory
from winnow.training.settings import SftSettings

_WIDTH_STEP = 32
"""Batches are padded to a multiple of this width, because oneDNN caches a kernel for every width and keeps its memory."""

_REPORT = "training.json"
_BYTES_PER_PARAMETER = 26  # two checkpoints at once (float32 weights and two moments), and the trained model
Log = Callable[[Mapping[str, float], int], None]


@dataclass(frozen=True, slots=True)
class SftReport:
    """Summary of a fine-tuning run.

    Attributes:
        steps: Number of optimizer steps.
        loss: Mean training loss in nats.
        seconds: Training time in seconds.
        tokens_per_second: Training throughput in tokens, without padding.
        peak_memory: Peak memory in bytes.
        skipped: Number of examples that exceeded the maximum length.

    """

    steps: int
    loss: float
    seconds: float
    tokens_per_second: float
    peak_memory: int
    skipped: int


def fine_tune(base: str, examples: Sequence[Example], settings: SftSettings, out: Path, log: Log) -> SftReport:
    """Fine-tune a causal language model and save it with its tokenizer, as safetensors in bfloat16.

    The run resumes from the last checkpoint in `out`.checkpoints, if one exists. `out` is written when the run is complete.
    If it exists already, its report is returned without training.

    Args:
        base: Name or folder of the model to fine-tune.
        examples: Training examples.
        settings: Settings of the training.
        out: Folder to which the model is saved.
        log: Function that records metrics at a step.

    Raises:
        ConfigError: If all examples exceed the maximum length.
        WinnowError: If the loss is not finite. The message names the examples.

    """
    if (out / _REPORT).is_file():
        return SftReport(**json.loads((out / _REPORT).read_text()))
    checkpoints = out.with_name(out.name + ".checkpoints")
    device = pick_device(settings.device)
    lm = load_causal_lm(base, "float32", "cpu")
    check_free_space(out.parent, _BYTES_PER_PARAMETER * lm.model.num_parameters())
    model: Any = _with_lora(lm.model, settings.lora_rank) if settings.lora_rank else lm.model
    rows = [encode(example, lm.tokenizer) for example in examples]
    usable = [row for row in rows if len(row["input_ids"]) <= settings.max_length]
    if not usable:
        raise ConfigError(f"All {len(rows)} training examples exceed training.max_length={settings.max_length} tokens.")
    trainer = ReplyTrainer(
        model=model,
        args=_training_arguments(settings, checkpoints, device.type, len(usable)),
        train_dataset=usable,
        data_collator=LeftPad(int(lm.tokenizer.pad_token_id)),
    )
    trainer.add_callback(_Logger(trainer, log))
    started = time.monotonic()
    resume = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None  # type: ignore[no-untyped-call]
    outcome = trainer.train(resume_from_checkpoint=resume)
    seconds = time.monotonic() - started
    tokens_per_second = trainer.tokens_seen / seconds
    skipped = len(rows) - len(usable)
    report = SftReport(outcome.global_step, outcome.training_loss, seconds, tokens_per_second, peak_memory(), skipped)
    if trainer.is_world_process_zero():
        _save(trainer, model, lm.tokenizer, report, settings.lora_rank, out)
        shutil.rmtree(checkpoints, ignore_errors=True)
    return report


def encode(example: Example, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Tokenise an example; `reply` is the number of tokens in the reply, which ends the input, including the end token."""
    prompt_ids = tokenizer(chat_text(tokenizer, example.messages), add_special_tokens=False)["input_ids"]
    reply_ids = tokenizer(example.completion, add_special_tokens=False)["input_ids"]
    input_ids = [*prompt_ids, *reply_ids, tokenizer.eos_token_id]
    return {"input_ids": input_ids, "reply": len(reply_ids) + 1, "example_id": example.example_id}


class LeftPad:
    """Collator that pads encoded examples on the left, with the label -100 outside the replies."""

    def __init__(self, pad_token_id: int) -> None:
        """Store the id of the padding token."""
        self.pad_token_id = pad_token_id

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Collate one batch into tensors (batch, width)."""
        longest = max(len(row["input_ids"]) for row in rows)
        width = -(-longest // _WIDTH_STEP) * _WIDTH_STEP
        ids = torch.full((len(rows), width), self.pad_token_id)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        labels = torch.full((len(rows), width), -100)
        for n, row in enumerate(rows):
            tokens = torch.tensor(row["input_ids"])
            ids[n, width - len(tokens) :] = tokens
            mask[n, width - len(tokens) :] = 1
            labels[n, width - row["reply"] :] = tokens[-row["reply"] :]
        example_ids = [row["example_id"] for row in rows]
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, "example_ids": example_ids}


class LengthGroups(torch.utils.data.Sampler[int]):
    """Sampler of shuffled batches of similar length, whose order depends only on the seed and the epoch.

    Trainer's `group_by_length` draws from the global random state, so that a resumed run would see different batches.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        """Store the examples' lengths, the batch size and the seed."""
        self.lengths, self.batch_size, self.seed, self.epoch = lengths, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which seeds the order. accelerate calls this before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        """Yield the positions of the examples, batch by batch.

        The examples are shuffled and sorted by length within pools of 16 batches. Then the batches are shuffled, with
        incomplete batches last.
        """
        rng = random.Random(f"{self.seed}/{self.epoch}")
        order = list(range(len(self.lengths)))
        rng.shuffle(order)
        pool_size = 16 * self.batch_size
        batches: list[list[int]] = []
        for pool_start in range(0, len(order), pool_size):
            pool = sorted(order[pool_start : pool_start + pool_size], key=lambda n: self.lengths[n])
            batches += [pool[start : start + self.batch_size] for start in range(0, len(pool), self.batch_size)]
        full_batches = [batch for batch in batches if len(batch) == self.batch_size]
        short_batches = [batch for batch in batches if len(batch) < self.batch_size]
        rng.shuffle(full_batches)
        return iter([n for batch in [*full_batches, *short_batches] for n in batch])


class ReplyTrainer(Trainer):
    """Trainer that computes logits for the reply tokens only; the loss is their mean negative log-likelihood in nats."""

    tokens_seen = 0

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGroups:
        examples: Any = self.train_dataset if train_dataset is None else train_dataset
        return LengthGroups([len(row["input_ids"]) for row in examples], self.args.train_batch_size, self.args.seed)

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        """Compute the loss of one micro-batch.

        Raises:
            WinnowError: If the loss is not finite. The message names the examples.

        """
        mask, labels = inputs["attention_mask"], inputs["labels"]
        self.tokens_seen += int(mask.sum())
        kept_positions = int((labels != -100).sum(dim=1).max()) + 1
        position_ids = (mask.cumsum(dim=1) - 1).clamp(min=0)
        logits = model(
            input_ids=inputs["input_ids"], attention_mask=mask, position_ids=position_ids, logits_to_keep=kept_positions
        ).logits
        flat_logits = logits[:, :-1].float().reshape(-1, logits.shape[-1])
        flat_labels = labels[:, -kept_positions + 1 :].reshape(-1)
        total = torch.nn.functional.cross_entropy(flat_logits, flat_labels, reduction="sum")
        count = num_items_in_batch if num_items_in_batch is not None else (labels != -100).sum()
        loss = total / count
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            loss = loss * self.accelerator.num_processes  # the count covers all processes, but gradients are averaged
        if not torch.isfinite(loss):
            raise WinnowError(
                f"The training loss became {loss.item()} on {inputs['example_ids']}; lower training.learning_rate."
            )
        return (loss, logits) if return_outputs else loss


class _Logger(TrainerCallback):
    """Logs loss, learning rate, gradient norm, tokens per second and peak memory."""

    def __init__(self, trainer: ReplyTrainer, log: Log) -> None:
        self.trainer, self.log, self.started = trainer, log, time.monotonic()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:  # noqa: ARG002 (Trainer calls it so)
        logs = kwargs.get("logs") or {}
        if "loss" not in logs or not state.is_world_process_zero:
            return
        metrics = {metric: float(logs[metric]) for metric in ("loss", "learning_rate", "grad_norm") if metric in logs}
        metrics["tokens_per_second"] = self.trainer.tokens_seen / (time.monotonic() - self.started)
        metrics["memory_gb"] = peak_memory() / 1e9
        self.log(metrics, state.global_step)


def _training_arguments(settings: SftSettings, checkpoints: Path, device: str, examples: int) -> TrainingArguments:
    steps = max(1, round(examples / (settings.batch_size * settings.accumulation) * settings.epochs))
    return TrainingArguments(
        output_dir=str(checkpoints),
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
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


def _with_lora(model: Any, rank: int) -> Any:
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"))


def _save(
    trainer: Trainer, model: Any, tokenizer: PreTrainedTokenizerBase, report: SftReport, lora_rank: int, out: Path
) -> None:
    unwrapped = trainer.accelerator.unwrap_model(model)
    if lora_rank:
        unwrapped = unwrapped.merge_and_unload()
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    unwrapped.to(torch.bfloat16).save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / _REPORT).write_text(json.dumps(asdict(report)))
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
