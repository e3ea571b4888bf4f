"""The training loop of RE-RAG, RAG and fusion-in-decoder: accumulation, evaluation, checkpoints, the best epoch's models.

A method defines the loss of a batch of questions; the loop does the rest on one CPU or GPU, or on several (torchrun). It is
ours, not transformers' Trainer, because a step needs all contexts of a question at once, through two models: pairs are
sorted by length across questions, run in chunks of a token budget, and put back in order for the loss.
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

from winnow.artifacts.files import check_space
from winnow.artifacts.provenance import key_of
from winnow.errors import ConfigError, WinnowError
from winnow.identity import speed_only
from winnow.modeling.loading import keep_freed_memory, pick_device, resolve_dtype
from winnow.training.backward import Precision, backward
from winnow.training.checkpoints import Checkpoint
from winnow.training.groups import Group, names, order_of
from winnow.training.memory import peak_memory
from winnow.training.method import Method
from winnow.training.settings import LoopSettings

Log = Callable[[Mapping[str, float], int], None]
Advance = Callable[[int, str], None]
"""Receives how many more steps are done, and a text on the last one."""
REPORT = "training.json"
_BYTES_PER_PARAMETER = 20


@dataclass(frozen=True, slots=True)
class LoopReport:
    """The result of a run.

    Attributes:
        steps: of the optimizer.
        seconds: of training, without evaluation.
        tokens_per_second: real ones.
        peak_memory: in bytes.
        best_epoch: whose models were saved.
        history: the development metrics of each epoch.
        truncated: pairs cut to a context length, on the first device and since the last resume.

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
    """How far a run has come; all of it is in a checkpoint."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of the epoch that this process has finished."""
    seconds: float = 0.0
    tokens: int = 0
    best: float = -math.inf
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def total_steps(questions: int, settings: LoopSettings, updates: int = 1) -> int:
    """Return the optimizer steps of a whole run on one device."""
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
    """Train a method's models and save those of the best epoch to folders below `out`.

    Checkpoints are in `out`.checkpoint; a run that finds one continues from it. `out` appears when the run is complete, and
    a run that finds it returns its report.

    Raises:
        ConfigError: without training questions, or if the processes cannot share an optimizer step.
        WinnowError: if loss or gradient are not finite; the message names the questions.

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
    set_seed(settings.seed)  # new classifiers have equal weights on all processes; dropout differs
    modules: dict[str, Any] = {name: lm.model for name, lm in method.models.items()}
    set_seed(settings.seed + processes.process_index)
    if device.type == "cpu":
        keep_freed_memory()
    for module in modules.values():
        if device.type == "cpu":  # the backward pass of fused attention is slower there
            module.set_attn_implementation("eager")
        if settings.dropout is not None:
            set_dropout(module, settings.dropout)
        if settings.gradient_checkpointing:
            module.gradient_checkpointing_enable()
    return modules


def set_dropout(model: torch.nn.Module, probability: float) -> None:
    """Set the dropout of every layer of a model."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = probability
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, probability)


class _Loop:
    """One run: optimizer and checkpoint over loaded models."""

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
        """Keep the arguments, and create the optimizer."""
        self.method, self.train, self.dev, self.settings = method, train, dev, settings
        self.out, self.log, self.advance = out, log, advance
        self.processes, self.modules = processes, modules
        half = resolve_dtype(settings.precision, settings.device) == "bfloat16"
        self.precision: Precision = partial(torch.autocast, device.type, torch.bfloat16, enabled=half)
        self.accumulation = settings.accumulation // processes.num_processes
        self.parameters = [p for module in modules.values() for p in module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)
        warmup = max(1, settings.warmup_steps)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / warmup))
        self.progress = _Progress()
        self.best_folder = out.with_name(out.name + ".best")
        folder = out.with_name(out.name + ".checkpoint")
        self.checkpoint = Checkpoint(folder, modules, self.optimizer, self.scheduler, processes, method)
        self.fingerprint = self._fingerprint()  # before training: what a method adapts on the way is its state

    def run(self) -> LoopReport:
        """Train to the end."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        check_space(self.out.parent, _BYTES_PER_PARAMETER * sum(p.numel() for p in self.parameters))
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
        p = self.progress
        rate = p.tokens / max(p.seconds, 1e-9)
        return LoopReport(p.step, p.seconds, rate, peak_memory(), p.best_epoch, p.history, self.method.truncated)

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
            if self._passed(self.settings.logging_steps) or number + 1 == steps:
                self._log_step(terms)
            if self._passed(self.settings.save_steps) and number + 1 < steps:
                self.checkpoint.save(self.fingerprint, asdict(progress))

    def _passed(self, interval: int) -> bool:
        """Return whether the last batch's updates reached a multiple of an interval."""
        return self.progress.step % interval < self.method.updates

    def _batches(self) -> list[list[Group]]:
        """Return this process's batches of the epoch; every process has as many."""
        world, rank = self.processes.num_processes, self.processes.process_index
        order = order_of(len(self.train), self.settings.seed, self.progress.epoch)
        order += itertools.islice(itertools.cycle(tuple(order)), -len(order) % world)
        mine = [self.train[n] for n in order[rank::world]]
        size = self.settings.batch_questions
        return [mine[n : n + size] for n in range(0, len(mine), size)]

    def _step(self, groups: Sequence[Sequence[Group]]) -> dict[str, float]:
        """Prepare some batches without gradients, and take the method's updates on them."""
        for module in self.modules.values():
            module.eval()
        with torch.no_grad(), self.precision():
            batches = [self.method.prepare(one, self.settings.seed, self.progress.epoch) for one in groups]
        terms: dict[str, float] = {}
        for _ in range(self.method.updates):
            terms = self._update(groups, batches)
            self.progress.step += 1
        return terms

    def _update(self, groups: Sequence[Sequence[Group]], batches: Sequence[Any]) -> dict[str, float]:
        """Sum the gradients of some batches, weighted by their questions, and take one optimizer step."""
        for module in self.modules.values():
            module.train()
        self.optimizer.zero_grad(set_to_none=True)
        questions = sum(map(len, groups))
        totals: dict[str, float] = {}
        for batch, one in zip(batches, groups, strict=True):
            scale = len(one) / questions
            terms, tokens = backward(
                self.method, batch, one, self.settings, self.progress.epoch, scale=scale, precision=self.precision
            )
            self.progress.tokens += tokens * self.processes.num_processes
            for name, value in terms.items():
                totals[name] = totals.get(name, 0.0) + scale * value
        self._average_gradients()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm or math.inf)
        if not torch.isfinite(norm):
            ids = [name for one in groups for name in names(one)]
            raise WinnowError(
                f"The gradient became {norm.item()} in step {self.progress.step} on {ids}; "
                "lower the learning rate, or train in float32."
            )
        self.optimizer.step()
        self.scheduler.step()
        return {**totals, "grad_norm": float(norm)}

    def _average_gradients(self) -> None:
        """Average the gradients over processes, once per step however many backward passes it has."""
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
        mine = self.dev[self.processes.process_index :: self.processes.num_processes]
        with self.precision(), torch.inference_mode():
            rows = self.method.evaluate(mine) if mine else []
        return list(gather_object(rows)) if self.processes.num_processes > 1 else rows

    def _log_step(self, terms: Mapping[str, float]) -> None:
        if not self.processes.is_main_process:
            return
        rate = self.progress.tokens / max(self.progress.seconds, 1e-9)
        learning_rate = float(self.scheduler.get_last_lr()[0])
        more = {"learning_rate": learning_rate, "tokens_per_second": rate, "memory_gb": peak_memory() / 1e9}
        self.log({**terms, **more, "epoch": self.progress.epoch}, self.progress.step)

    def _save_models(self, folder: Path) -> None:
        partial_folder = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial_folder, ignore_errors=True)
        for name, lm in self.method.models.items():
            lm.model.save_pretrained(partial_folder / name)
            lm.tokenizer.save_pretrained(partial_folder / name)
        shutil.rmtree(folder, ignore_errors=True)
        partial_folder.rename(folder)

    def _fingerprint(self) -> dict[str, Any]:
        """Return what a checkpoint must have in common with the run that continues it."""
        ignored = speed_only(LoopSettings)
        settings = {name: value for name, value in asdict(self.settings).items() if name not in ignored}
        method = {name: value for name, value in vars(self.method).items() if isinstance(value, str | int | float)}
        return {
            "method": type(self.method).__name__,
            **{f"method.{name}": value for name, value in method.items()},
            **settings,
            "questions": key_of([names(self.train), names(self.dev)]),
            "processes": self.processes.num_processes,
            **{f"{n}.parameters": sum(p.numel() for p in m.parameters()) for n, m in self.modules.items()},
            **{f"{n}.class": type(m).__name__ for n, m in self.modules.items()},
        }
