"""The training loop that RE-RAG, RAG and fusion-in-decoder share: accumulation, evaluation, the best epoch's models.

A method says what a batch of questions comes to; the loop does the rest on one CPU or GPU, or on several (torchrun).
It is ours, not transformers' Trainer, because a step needs all contexts of a question at once, through two models: pairs
are sorted by length across questions, run in chunks of a token budget, and put back for the loss
(`winnow.training.chunks`).
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object, set_seed

from winnow.errors import ConfigError, WinnowError
from winnow.models import LanguageModel, keep_freed_memory, pick_device, resolve_dtype
from winnow.pair_model import PairModel
from winnow.store import check_space, key_of
from winnow.training.checkpoints import Checkpoint
from winnow.training.chunks import Chunk, backward, set_dropout
from winnow.training.groups import Group, names, order_of
from winnow.training.sft import peak_memory

Log = Callable[[Mapping[str, float], int], None]
Advance = Callable[[int, str], None]
"""Told how many more steps are done, and what the last one came to."""
REPORT = "training.json"


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of a run; the defaults are RE-RAG's (appendix B), whose effective batch is 64 questions.

    Attributes:
        epochs: passes over the training questions.
        learning_rate: constant, after `warmup_steps`.
        batch_questions: questions a device takes at once.
        accumulation: batches an optimizer step sums over, on all devices together.
        chunk_tokens: padded tokens that run through a model at once.
        recompute: run each chunk twice instead of keeping its activations.
        gradient_checkpointing: let the models keep only their layers' inputs.
        dropout: of all layers; None leaves the models' own. On a CPU its random numbers take a third of the time.
        max_grad_norm: gradients are scaled down to it; 0 leaves them.
        explode_at: a loss above it stops the run, as one that is not finite does.

    """

    epochs: int = 10
    learning_rate: float = 1e-4
    weight_decay: float = 1e-3
    warmup_steps: int = 0
    batch_questions: int = 4
    accumulation: int = 16
    chunk_tokens: int = 8192
    recompute: bool = False
    gradient_checkpointing: bool = False
    dropout: float | None = None
    max_grad_norm: float = 1.0
    explode_at: float = 1e5
    precision: str = "auto"
    device: str = "auto"
    save_steps: int = 50
    logging_steps: int = 5
    seed: int = 13

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        counts = (self.epochs, self.batch_questions, self.accumulation, self.chunk_tokens, self.save_steps, self.logging_steps)
        if min(counts) < 1 or min(self.learning_rate, self.explode_at) <= 0 or self.warmup_steps < 0:
            raise ConfigError(f"training: counts start at 1, rates above 0; received {self}.")
        if self.precision not in ("auto", "bfloat16", "float32"):
            raise ConfigError(f"training.precision must be auto, bfloat16 or float32; received {self.precision!r}.")


class Method(ABC):
    """What is learnt: its models, the numbers of a batch, their loss, and how good the models are."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, PairModel]:
        """Return what is trained by the name of its folder."""

    @property
    def models(self) -> Mapping[str, LanguageModel]:
        """Return the trained models by the name of their folder."""
        return {name: part.lm for name, part in self.parts.items()}

    @property
    def truncated(self) -> int:
        """Return how many pairs were cut to a model's window so far."""
        return sum(part.truncated for part in self.parts.values())

    @abstractmethod
    def chunks(self, groups: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Cut a batch into chunks of at most `budget` padded tokens."""

    @abstractmethod
    def loss(self, values: torch.Tensor, groups: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Return the loss under "loss", and its parts, of a batch's (rows, columns)."""

    @abstractmethod
    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Return one row of measures a question; "em" chooses the best checkpoint, the later of equal ones."""


@dataclass(frozen=True, slots=True)
class LoopReport:
    """What a run came to; `tokens_per_second` are real tokens, memory is the peak in bytes, `history` an epoch a row.

    `truncated` are pairs that were cut to a window, on the first device and since the last resume.
    """

    steps: int
    seconds: float
    tokens_per_second: float
    peak_memory: int
    best_epoch: int
    history: Sequence[Mapping[str, float]]
    truncated: int = 0


def _unseen(steps: int, text: str) -> None:
    """Show no progress."""


@dataclass
class _Progress:
    """Where a run stands; all of it is in a checkpoint."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of the epoch that this process has taken."""
    seconds: float = 0.0
    tokens: int = 0
    best: float = -math.inf
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def steps_in_all(questions: int, settings: LoopSettings) -> int:
    """Return the optimizer's steps of a whole run on one device."""
    batches = math.ceil(questions / settings.batch_questions)
    return settings.epochs * math.ceil(batches / settings.accumulation)


def fit(
    method: Method,
    train: Sequence[Group],
    dev: Sequence[Group],
    settings: LoopSettings,
    out: Path,
    log: Log,
    advance: Advance = _unseen,
) -> LoopReport:
    """Train a method's models and save those of the best epoch to folders below `out`.

    Checkpoints go to `out`.checkpoint; a run that finds one there goes on from it. `out` appears when all is done, and a
    run that finds it there gives its report again.
    """
    if (out / REPORT).is_file():
        return LoopReport(**json.loads((out / REPORT).read_text()))
    return _Loop(method, train, dev, settings, out, log, advance).run()


@dataclass
class _Loop:
    """One run; the fields are `fit`'s arguments."""

    method: Method
    train: Sequence[Group]
    dev: Sequence[Group]
    settings: LoopSettings
    out: Path
    log: Log
    advance: Advance

    def __post_init__(self) -> None:
        if not self.train:
            raise ConfigError("There is no training question; check the split and the retrieval's file.")
        settings, out = self.settings, self.out
        device = pick_device(settings.device)
        self.processes = PartialState(cpu=device.type == "cpu")
        half = resolve_dtype(settings.precision, settings.device) == "bfloat16"
        self.precision = partial(torch.autocast, device.type, torch.bfloat16, enabled=half)
        if settings.accumulation % self.processes.num_processes:
            raise ConfigError(
                f"training.accumulation={settings.accumulation} batches a step cannot be shared by "
                f"{self.processes.num_processes} processes; take a multiple of that."
            )
        self.accumulation = settings.accumulation // self.processes.num_processes
        set_seed(settings.seed)  # a new classifier's weights are alike on all processes, what is dropped out is not
        self.modules: dict[str, Any] = {name: lm.model for name, lm in self.method.models.items()}
        set_seed(settings.seed + self.processes.process_index)
        parameters = [p for m in self.modules.values() for p in m.parameters() if p.requires_grad]
        if device.type == "cpu":
            keep_freed_memory()
            for module in self.modules.values():  # on a CPU the fused attention's backward pass is the slower one
                module.set_attn_implementation("eager")
        if settings.dropout is not None:
            for module in self.modules.values():
                set_dropout(module, settings.dropout)
        if settings.gradient_checkpointing:
            for module in self.modules.values():
                module.gradient_checkpointing_enable()
        self.optimizer = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)
        warm = max(1, settings.warmup_steps)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / warm))
        self.parameters = parameters
        self.at = _Progress()
        self.best = out.with_name(out.name + ".best")
        folder = out.with_name(out.name + ".checkpoint")
        self.checkpoint = Checkpoint(folder, self.modules, self.optimizer, self.scheduler, self.processes)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        check_space(out.parent, 20 * sum(p.numel() for p in parameters))

    def run(self) -> LoopReport:
        """Train to the end."""
        self.at = _Progress(**self.checkpoint.load(self._fingerprint()))
        self.advance(self.at.step, "")
        while self.at.epoch < self.settings.epochs:
            self._epoch()
            self._finish_epoch()
        at = self.at
        rate = at.tokens / max(at.seconds, 1e-9)
        report = LoopReport(at.step, at.seconds, rate, peak_memory(), at.best_epoch, at.history, self.method.truncated)
        if self.processes.is_main_process:
            (self.best / REPORT).write_text(json.dumps(asdict(report)))
            shutil.rmtree(self.out, ignore_errors=True)
            self.best.rename(self.out)
            self.checkpoint.remove()
        self.processes.wait_for_everyone()
        return report

    def _epoch(self) -> None:
        batches = self._batches()
        steps = math.ceil(len(batches) / self.accumulation)
        for number in range(self.at.batch // self.accumulation, steps):
            started = time.monotonic()
            first = number * self.accumulation
            due = batches[first : first + self.accumulation]
            parts = self._step(due)
            self.at.step += 1
            self.at.batch = first + len(due)
            self.at.seconds += time.monotonic() - started
            self.advance(1, f"loss {parts['loss']:.3f}, epoch {self.at.epoch + 1} of {self.settings.epochs}")
            if self.at.step % self.settings.logging_steps == 0 or number + 1 == steps:
                self._tell(parts)
            if self.at.step % self.settings.save_steps == 0 and number + 1 < steps:
                self.checkpoint.save(self._fingerprint(), asdict(self.at))

    def _batches(self) -> list[list[Group]]:
        """Return this process's batches of the epoch; every process has as many."""
        world, rank = self.processes.num_processes, self.processes.process_index
        order = order_of(len(self.train), self.settings.seed, self.at.epoch)
        order += itertools.islice(itertools.cycle(tuple(order)), -len(order) % world)
        mine = [self.train[n] for n in order[rank::world]]
        size = self.settings.batch_questions
        return [mine[n : n + size] for n in range(0, len(mine), size)]

    def _step(self, batches: Sequence[Sequence[Group]]) -> dict[str, float]:
        """Sum the gradients of some batches, weighted by their questions, and move the weights."""
        for module in self.modules.values():
            module.train()
        self.optimizer.zero_grad(set_to_none=True)
        questions = sum(map(len, batches))
        told: dict[str, float] = {}
        for groups in batches:
            share = len(groups) / questions
            parts, tokens = backward(self.method, groups, self.settings, self.at.epoch, scale=share, precision=self.precision)
            self.at.tokens += tokens * self.processes.num_processes
            for name, value in parts.items():
                told[name] = told.get(name, 0.0) + share * value
        self._average()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm or math.inf)
        if not torch.isfinite(norm):
            raise WinnowError(
                f"The gradient became {norm.item()} in step {self.at.step} on {[n for b in batches for n in names(b)]}; "
                "lower the learning rate, or train in float32."
            )
        self.optimizer.step()
        self.scheduler.step()
        return {**told, "grad_norm": float(norm)}

    def _average(self) -> None:
        """Average the gradients over processes. One reduction a step serves any number of backward passes in it."""
        if self.processes.num_processes == 1:
            return
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= self.processes.num_processes

    def _finish_epoch(self) -> None:
        rows = self._evaluate()
        self.at.epoch += 1
        self.at.batch = 0
        found = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]} if rows else {}
        self.at.history.append({"epoch": self.at.epoch, **found})
        if found and self.processes.is_main_process:
            self.log({f"dev_{name}": value for name, value in found.items()}, self.at.step)
        better = found.get("em", math.inf) >= self.at.best or not rows
        if better:
            self.at.best, self.at.best_epoch = found.get("em", -math.inf), self.at.epoch
            if self.processes.is_main_process:
                self._save_models(self.best)
        self.checkpoint.save(self._fingerprint(), asdict(self.at))

    def _evaluate(self) -> list[dict[str, float]]:
        for module in self.modules.values():
            module.eval()
        mine = self.dev[self.processes.process_index :: self.processes.num_processes]
        with self.precision(), torch.inference_mode():
            rows = self.method.evaluate(mine) if mine else []
        return list(gather_object(rows)) if self.processes.num_processes > 1 else rows

    def _tell(self, parts: Mapping[str, float]) -> None:
        if not self.processes.is_main_process:
            return
        rate = self.at.tokens / max(self.at.seconds, 1e-9)
        lr = self.scheduler.get_last_lr()[0]
        more = {"learning_rate": float(lr), "tokens_per_second": rate, "memory_gb": peak_memory() / 1e9}
        self.log({**parts, **more, "epoch": self.at.epoch}, self.at.step)

    def _save_models(self, folder: Path) -> None:
        made = folder.with_name(folder.name + ".partial")
        shutil.rmtree(made, ignore_errors=True)
        for name, lm in self.method.models.items():
            lm.model.save_pretrained(made / name)
            lm.tokenizer.save_pretrained(made / name)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)

    def _fingerprint(self) -> dict[str, Any]:
        """Return what a checkpoint must have in common with the run that goes on from it."""
        machine = {"device", "save_steps", "logging_steps", "chunk_tokens", "recompute", "gradient_checkpointing"}
        sizes = {name: sum(p.numel() for p in m.parameters()) for name, m in self.modules.items()}
        kinds = {name: type(m).__name__ for name, m in self.modules.items()}
        settings = {name: value for name, value in asdict(self.settings).items() if name not in machine}
        asked = key_of([names(self.train), names(self.dev)])
        shape = {"questions": asked, "processes": self.processes.num_processes}
        method = {n: v for n, v in vars(self.method).items() if isinstance(v, str | int | float)}
        return {
            "method": type(self.method).__name__,
            **{f"method.{n}": v for n, v in method.items()},
            **settings,
            **shape,
            **{f"{n}.parameters": v for n, v in sizes.items()},
            **{f"{n}.class": v for n, v in kinds.items()},
        }
