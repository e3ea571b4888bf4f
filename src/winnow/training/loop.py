"""The training loop of RE-RAG, RAG and fusion-in-decoder.

A method defines the loss of a batch of questions. The loop accumulates gradients, evaluates every epoch, saves checkpoints
and keeps the models of the best epoch. It runs on one CPU or GPU, or on several (torchrun).

transformers' Trainer does not fit, because the loss may need two models' outputs for all contexts of a question at once.
Here, pairs are sorted by length across questions, run in chunks within a token budget, and put back in order for the loss.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object, set_seed

from winnow.artifacts.files import check_free_space
from winnow.artifacts.provenance import compute_key
from winnow.errors import ConfigError, WinnowError
from winnow.identity import speed_only
from winnow.modeling.loading import keep_freed_memory, pick_device, resolve_dtype
from winnow.training.backward import Precision, backward
from winnow.training.checkpoints import Checkpoint
from winnow.training.groups import Group, question_ids, shuffled_indices
from winnow.training.memory import peak_memory
from winnow.training.method import Method
from winnow.training.settings import LoopSettings

Log = Callable[[Mapping[str, float], int], None]
Advance = Callable[[int, str], None]
"""Callback for a progress bar: receives the number of new steps and a text about the last one."""
REPORT = "training.json"
_BYTES_PER_PARAMETER = 20


@dataclass(frozen=True, slots=True)
class LoopReport:
    """Summary of a training run.

    Attributes:
        steps: Number of optimizer steps.
        seconds: Training time in seconds, without evaluation.
        tokens_per_second: Training throughput in tokens, without padding.
        peak_memory: Peak memory in bytes.
        best_epoch: Epoch whose models were saved, from 1.
        history: Development metrics of each epoch.
        truncated: Number of pairs cut to the context length by the first process since its last resume.

    """

    steps: int
    seconds: float
    tokens_per_second: float
    peak_memory: int
    best_epoch: int
    history: Sequence[Mapping[str, float]]
    truncated: int = 0


@dataclass
class _Progress:
    """Progress of a run, as saved in its checkpoint."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Number of batches that this process has finished in the current epoch."""
    seconds: float = 0.0
    tokens: int = 0
    best: float = -math.inf
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def total_steps(questions: int, settings: LoopSettings, updates: int = 1) -> int:
    """Compute the number of optimizer steps of a complete run on one device.

    Args:
        questions: Number of training questions.
        settings: Settings of the loop.
        updates: Number of optimizer steps on each prepared batch, as in `Method.updates`.

    """
    batches = math.ceil(questions / settings.batch_questions)
    return settings.epochs * math.ceil(batches / settings.accumulation) * updates


def fit(
    method: Method[Any],
    train: Sequence[Group],
    dev: Sequence[Group],
    settings: LoopSettings,
    out: Path,
    log: Log,
    advance: Advance = lambda steps, text: None,  # noqa: ARG005 (no progress bar)
) -> LoopReport:
    """Train a method's models and save those of the best epoch.

    The run resumes from the checkpoint in `out`.checkpoint, if it exists. `out` is written when the run is complete. If it
    exists already, its report is returned without training.

    Args:
        method: Training method with its models.
        train: Training questions.
        dev: Development questions. Without any, the models of the last epoch are saved.
        settings: Settings of the loop.
        out: Folder to which the models are saved, each in a folder of its own.
        log: Function that records metrics at a step.
        advance: Function that receives the progress.

    Raises:
        ConfigError: If there are no training questions, or if the processes cannot share an optimizer step.
        WinnowError: If the loss or the gradient is not finite. The message names the questions.

    """
    if (out / REPORT).is_file():
        return LoopReport(**json.loads((out / REPORT).read_text()))
    if not train:
        raise ConfigError("There is no training question; check the split and the retrieval's file.")
    device = pick_device(settings.device)
    processes = PartialState(cpu=device.type == "cpu")
    if settings.accumulation % processes.num_processes:
        raise ConfigError(
            f"training.accumulation={settings.accumulation} batches per step cannot be shared by "
            f"{processes.num_processes} processes; use a multiple of that."
        )
    modules = _load_modules(method, settings, device, processes)
    return _Loop(method, train, dev, settings, out, log, advance, device, processes, modules).run()


def _load_modules(
    method: Method[Any], settings: LoopSettings, device: torch.device, processes: PartialState
) -> dict[str, Any]:
    """Load the method's models and set them up for training."""
    set_seed(settings.seed)  # new classifier layers get the same weights in all processes, but dropout differs
    modules: dict[str, Any] = {name: lm.model for name, lm in method.models.items()}
    set_seed(settings.seed + processes.process_index)
    if device.type == "cpu":
        keep_freed_memory()
    for module in modules.values():
        if device.type == "cpu":  # the backward pass of fused attention is slower on a CPU
            module.set_attn_implementation("eager")
        if settings.dropout is not None:
            set_dropout(module, settings.dropout)
        if settings.gradient_checkpointing:
            module.gradient_checkpointing_enable()
    return modules


def set_dropout(model: torch.nn.Module, probability: float) -> None:
    """Set the dropout probability of every layer of a model."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = probability
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, probability)


class _Loop:
    """One training run over loaded models, with its optimizer, progress and checkpoint."""

    def __init__(
        self,
        method: Method[Any],
        train: Sequence[Group],
        dev: Sequence[Group],
        settings: LoopSettings,
        out: Path,
        log: Log,
        advance: Advance,
        device: torch.device,
        processes: PartialState,
        modules: Mapping[str, Any],
    ) -> None:
        """Create the optimizer, the scheduler and the checkpoint."""
        self.method, self.train, self.dev, self.settings = method, train, dev, settings
        self.out, self.log, self.advance = out, log, advance
        self.processes, self.modules = processes, modules
        bfloat16 = resolve_dtype(settings.precision, settings.device) == "bfloat16"
        self.precision: Precision = partial(torch.autocast, device.type, torch.bfloat16, enabled=bfloat16)
        self.accumulation = settings.accumulation // processes.num_processes
        self.parameters = [p for module in modules.values() for p in module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)
        warmup = max(1, settings.warmup_steps)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / warmup))
        self.progress = _Progress()
        self.best_folder = out.with_name(out.name + ".best")
        folder = out.with_name(out.name + ".checkpoint")
        self.checkpoint = Checkpoint(folder, modules, self.optimizer, self.scheduler, processes, method)
        self.fingerprint = self._fingerprint()  # before training, which may change the method's attributes

    def run(self) -> LoopReport:
        """Train the remaining epochs, then move the best models to `out`."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        check_free_space(self.out.parent, _BYTES_PER_PARAMETER * sum(p.numel() for p in self.parameters))
        self.progress = _Progress(**self.checkpoint.load(self.fingerprint))
        self.advance(self.progress.step, "")
        while self.progress.epoch < self.settings.epochs:
            self._train_epoch()
            self._finish_epoch()
        report = self._report()
        if self.processes.is_main_process:
            (self.best_folder / REPORT).write_text(json.dumps(asdict(report)))
            shutil.rmtree(self.out, ignore_errors=True)
            self.best_folder.rename(self.out)
            self.checkpoint.remove()
        self.processes.wait_for_everyone()
        return report

    def _report(self) -> LoopReport:
        progress = self.progress
        return LoopReport(
            progress.step,
            progress.seconds,
            self._tokens_per_second(),
            peak_memory(),
            progress.best_epoch,
            progress.history,
            self.method.truncated,
        )

    def _tokens_per_second(self) -> float:
        return self.progress.tokens / max(self.progress.seconds, 1e-9)

    def _train_epoch(self) -> None:
        batches = self._batches()
        steps = math.ceil(len(batches) / self.accumulation)
        progress = self.progress
        for number in range(progress.batch // self.accumulation, steps):
            start = time.monotonic()
            first = number * self.accumulation
            step_batches = batches[first : first + self.accumulation]
            terms = self._step(step_batches)
            progress.batch = first + len(step_batches)
            progress.seconds += time.monotonic() - start
            updates = self.method.updates
            self.advance(updates, f"loss {terms['loss']:.3f}, epoch {progress.epoch + 1} of {self.settings.epochs}")
            if self._is_due(self.settings.logging_steps) or number + 1 == steps:
                self._log_step(terms)
            if self._is_due(self.settings.save_steps) and number + 1 < steps:
                self.checkpoint.save(self.fingerprint, asdict(progress))

    def _is_due(self, interval: int) -> bool:
        """Return whether the last updates reached a multiple of the interval."""
        return self.progress.step % interval < self.method.updates

    def _batches(self) -> list[list[Group]]:
        """Build this process's batches of the epoch; every process has the same number."""
        world_size, rank = self.processes.num_processes, self.processes.process_index
        order = shuffled_indices(len(self.train), self.settings.seed, self.progress.epoch)
        order += itertools.islice(itertools.cycle(tuple(order)), -len(order) % world_size)
        groups = [self.train[n] for n in order[rank::world_size]]
        size = self.settings.batch_questions
        return [groups[start : start + size] for start in range(0, len(groups), size)]

    def _step(self, group_batches: Sequence[Sequence[Group]]) -> dict[str, float]:
        """Prepare the batches of a step without gradients, then take the method's updates on them."""
        for module in self.modules.values():
            module.eval()
        with torch.no_grad(), self.precision():
            batches = [self.method.prepare(groups, self.settings.seed, self.progress.epoch) for groups in group_batches]
        terms: dict[str, float] = {}
        for _ in range(self.method.updates):
            terms = self._update(group_batches, batches)
            self.progress.step += 1
        return terms

    def _update(self, group_batches: Sequence[Sequence[Group]], batches: Sequence[Any]) -> dict[str, float]:
        """Take one optimizer step on the batches, each weighted by its number of questions."""
        for module in self.modules.values():
            module.train()
        self.optimizer.zero_grad(set_to_none=True)
        questions = sum(map(len, group_batches))
        totals: dict[str, float] = {}
        for batch, groups in zip(batches, group_batches, strict=True):
            scale = len(groups) / questions
            terms, tokens = backward(
                self.method, batch, groups, self.settings, self.progress.epoch, scale=scale, precision=self.precision
            )
            self.progress.tokens += tokens * self.processes.num_processes
            for name, value in terms.items():
                totals[name] = totals.get(name, 0.0) + scale * value
        self._average_gradients()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm or math.inf)
        if not torch.isfinite(norm):
            ids = [question_id for groups in group_batches for question_id in question_ids(groups)]
            raise WinnowError(
                f"The gradient became {norm.item()} in step {self.progress.step} on {ids}; "
                "lower the learning rate, or train in float32."
            )
        self.optimizer.step()
        self.scheduler.step()
        return {**totals, "grad_norm": float(norm)}

    def _average_gradients(self) -> None:
        """Average the gradients over the processes, once per step regardless of the number of backward passes."""
        if self.processes.num_processes == 1:
            return
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= self.processes.num_processes

    def _finish_epoch(self) -> None:
        rows = self._evaluate()
        progress = self.progress
        progress.epoch += 1
        progress.batch = 0
        means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]} if rows else {}
        progress.history.append({"epoch": progress.epoch, **means})
        if means and self.processes.is_main_process:
            self.log({f"dev_{name}": value for name, value in means.items()}, progress.step)
        if not rows or means.get("em", math.inf) >= progress.best:
            progress.best, progress.best_epoch = means.get("em", -math.inf), progress.epoch
            if self.processes.is_main_process:
                self._save_models(self.best_folder)
        self.checkpoint.save(self.fingerprint, asdict(progress))

    def _evaluate(self) -> list[dict[str, float]]:
        for module in self.modules.values():
            module.eval()
        groups = self.dev[self.processes.process_index :: self.processes.num_processes]
        with self.precision(), torch.inference_mode():
            rows = self.method.evaluate(groups) if groups else []
        return list(gather_object(rows)) if self.processes.num_processes > 1 else rows

    def _log_step(self, terms: Mapping[str, float]) -> None:
        if not self.processes.is_main_process:
            return
        metrics = {
            **terms,
            "learning_rate": float(self.scheduler.get_last_lr()[0]),
            "tokens_per_second": self._tokens_per_second(),
            "memory_gb": peak_memory() / 1e9,
            "epoch": self.progress.epoch,
        }
        self.log(metrics, self.progress.step)

    def _save_models(self, folder: Path) -> None:
        partial_folder = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial_folder, ignore_errors=True)
        for name, lm in self.method.models.items():
            lm.model.save_pretrained(partial_folder / name)
            lm.tokenizer.save_pretrained(partial_folder / name)
        shutil.rmtree(folder, ignore_errors=True)
        partial_folder.rename(folder)

    def _fingerprint(self) -> dict[str, Any]:
        """Build what must agree between a checkpoint and the run that resumes from it: method, settings, data, models."""
        ignored = speed_only(LoopSettings)
        settings = {name: value for name, value in asdict(self.settings).items() if name not in ignored}
        method_settings = {name: value for name, value in vars(self.method).items() if isinstance(value, str | int | float)}
        return {
            "method": type(self.method).__name__,
            **{f"method.{name}": value for name, value in method_settings.items()},
            **settings,
            "questions": compute_key([question_ids(self.train), question_ids(self.dev)]),
            "processes": self.processes.num_processes,
            **{f"{name}.parameters": sum(p.numel() for p in module.parameters()) for name, module in self.modules.items()},
            **{f"{name}.class": type(module).__name__ for name, module in self.modules.items()},
        }
