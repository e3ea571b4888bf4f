"""Supervised fine-tuning of a causal reader on (prompt, reply) pairs, on transformers' Trainer.

TRL's SFTTrainer computes the vocabulary's logits at every prompt position: half of the time on a CPU, for a reply of three
tokens. Here prompts are padded on the left, so that all replies end together and `logits_to_keep` computes their logits alone;
everything else (accumulation, checkpoints, resume, bf16, several GPUs) is Trainer's.
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

from winnow.artifacts.files import check_space
from winnow.errors import ConfigError, WinnowError
from winnow.modeling.loading import chat_text, load_causal_lm, pick_device, resolve_dtype
from winnow.training.examples import Example
from winnow.training.memory import peak_memory
from winnow.training.settings import SftSettings

_WIDTH_STEP = 32
"""Batches are padded to multiples of this: oneDNN keeps a kernel, with its memory, for each width."""

_REPORT = "training.json"
_BYTES_PER_PARAMETER = 26  # two checkpoints (weights and two moments, float32) while one replaces the other, and the result
Log = Callable[[Mapping[str, float], int], None]


@dataclass(frozen=True, slots=True)
class SftReport:
    """The result of a run; `tokens_per_second` are real (unpadded) ones, memory is the peak in bytes."""

    steps: int
    loss: float
    seconds: float
    tokens_per_second: float
    peak_memory: int
    skipped: int


def fine_tune(base: str, examples: Sequence[Example], settings: SftSettings, out: Path, log: Log) -> SftReport:
    """Train the model at `base` and save it, as safetensors in bfloat16 with its tokenizer, to the folder `out`.

    Checkpoints are in `out`.checkpoints; a run that finds one continues from it. `out` appears when the run is complete, and
    a run that finds it returns its report.
    """
    if (out / _REPORT).is_file():
        return SftReport(**json.loads((out / _REPORT).read_text()))
    checkpoints = out.with_name(out.name + ".checkpoints")
    device = pick_device(settings.device)
    lm = load_causal_lm(base, "float32", "cpu")
    check_space(out.parent, _BYTES_PER_PARAMETER * lm.model.num_parameters())
    model: Any = _with_lora(lm.model, settings.lora_rank) if settings.lora_rank else lm.model
    rows = [encode(example, lm.tokenizer) for example in examples]
    usable = [row for row in rows if len(row["input_ids"]) <= settings.max_length]
    if not usable:
        raise ConfigError(f"All {len(rows)} training examples exceed training.max_length={settings.max_length} tokens.")
    trainer = ReplyTrainer(
        model=model,
        args=_arguments(settings, checkpoints, device.type, len(usable)),
        train_dataset=usable,
        data_collator=LeftPad(int(lm.tokenizer.pad_token_id)),
    )
    trainer.add_callback(_Logger(trainer, log))
    started = time.monotonic()
    resume = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None  # type: ignore[no-untyped-call]
    outcome = trainer.train(resume_from_checkpoint=resume)
    seconds = time.monotonic() - started
    rate = trainer.tokens_seen / seconds
    report = SftReport(outcome.global_step, outcome.training_loss, seconds, rate, peak_memory(), len(rows) - len(usable))
    if trainer.is_world_process_zero():
        _save(trainer, model, lm.tokenizer, report, settings.lora_rank, out)
        shutil.rmtree(checkpoints, ignore_errors=True)
    return report


def encode(example: Example, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Tokenise one pair; `reply` counts the tokens at the end that are the reply with its end-of-turn token."""
    head = tokenizer(chat_text(tokenizer, example.messages), add_special_tokens=False)["input_ids"]
    tail = tokenizer(example.completion, add_special_tokens=False)["input_ids"]
    ids = [*head, *tail, tokenizer.eos_token_id]
    return {"input_ids": ids, "reply": len(tail) + 1, "example_id": example.example_id}


class LeftPad:
    """Collates encoded pairs: (batch, longest) token ids, padded on the left; labels are -100 outside the replies."""

    def __init__(self, pad: int) -> None:
        """Keep the id used for padding."""
        self.pad = pad

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Stack one batch."""
        longest = max(len(r["input_ids"]) for r in rows)
        width = -(-longest // _WIDTH_STEP) * _WIDTH_STEP
        ids = torch.full((len(rows), width), self.pad)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        labels = torch.full((len(rows), width), -100)
        for n, row in enumerate(rows):
            tokens = torch.tensor(row["input_ids"])
            ids[n, width - len(tokens) :] = tokens
            mask[n, width - len(tokens) :] = 1
            labels[n, width - row["reply"] :] = tokens[-row["reply"] :]
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, "names": [r["example_id"] for r in rows]}


class LengthGroups(torch.utils.data.Sampler[int]):
    """Shuffled batches of similar length, drawn by seed and epoch alone.

    Trainer's own group_by_length draws from the global random state, so that a resumed run sees other batches.
    """

    def __init__(self, lengths: Sequence[int], batch: int, seed: int) -> None:
        """Keep the lengths and the batch size."""
        self.lengths, self.batch, self.seed, self.epoch = lengths, batch, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that seeds the order; accelerate calls it before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        """Yield positions: shuffled, sorted within pools of 16 batches, batches shuffled (short ones stay last)."""
        rng = random.Random(f"{self.seed}/{self.epoch}")
        order = list(range(len(self.lengths)))
        rng.shuffle(order)
        pool = 16 * self.batch
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            by_length = sorted(order[start : start + pool], key=lambda n: self.lengths[n])
            batches += [by_length[at : at + self.batch] for at in range(0, len(by_length), self.batch)]
        whole = [b for b in batches if len(b) == self.batch]
        rng.shuffle(whole)
        return iter([n for b in [*whole, *[b for b in batches if len(b) < self.batch]] for n in b])


class ReplyTrainer(Trainer):
    """Trainer whose loss is the mean negative log-likelihood (nats) of the reply tokens, computed at them alone."""

    tokens_seen = 0

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGroups:
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        return LengthGroups([len(row["input_ids"]) for row in rows], self.args.train_batch_size, self.args.seed)

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        """Return the loss of one micro-batch; raise WinnowError with the examples' names if it is not finite."""
        mask, labels = inputs["attention_mask"], inputs["labels"]
        self.tokens_seen += int(mask.sum())
        keep = int((labels != -100).sum(dim=1).max()) + 1
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        logits = model(input_ids=inputs["input_ids"], attention_mask=mask, position_ids=positions, logits_to_keep=keep).logits
        flat = logits[:, :-1].float().reshape(-1, logits.shape[-1])
        total = torch.nn.functional.cross_entropy(flat, labels[:, -keep + 1 :].reshape(-1), reduction="sum")
        count = num_items_in_batch if num_items_in_batch is not None else (labels != -100).sum()
        loss = total / count
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            loss = loss * self.accelerator.num_processes  # the count is over all of them, gradients are averaged
        if not torch.isfinite(loss):
            raise WinnowError(f"The training loss became {loss.item()} on {inputs['names']}; lower training.learning_rate.")
        return (loss, logits) if return_outputs else loss


class _Logger(TrainerCallback):
    """Logs loss, learning rate, tokens/s and memory."""

    def __init__(self, trainer: ReplyTrainer, log: Log) -> None:
        self.trainer, self.log, self.started = trainer, log, time.monotonic()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:  # noqa: ARG002 (Trainer calls it so)
        logs = kwargs.get("logs") or {}
        if "loss" not in logs or not state.is_world_process_zero:
            return
        metrics = {name: float(logs[name]) for name in ("loss", "learning_rate", "grad_norm") if name in logs}
        metrics["tokens_per_second"] = self.trainer.tokens_seen / (time.monotonic() - self.started)
        metrics["memory_gb"] = peak_memory() / 1e9
        self.log(metrics, state.global_step)


def _arguments(settings: SftSettings, checkpoints: Path, device: str, examples: int) -> TrainingArguments:
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
