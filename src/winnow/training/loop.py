"""The training loop of the joint methods: RE-RAG, RAG and fusion-in-decoder.

A method (`winnow.training.method.Method`) defines the loss of a batch of questions. The loop
accumulates gradients, evaluates after every epoch, saves checkpoints and keeps the models of the
best epoch. With torchrun, it runs on several devices.

transformers' Trainer cannot be used, because the loss may need two models' outputs for all contexts
of a question at once. Here, question-context pairs are sorted by length, run in chunks within a
token budget, and put back in order for the loss.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object, set_seed

from winnow.artifacts.files import check_free_space
from winnow.artifacts.provenance import compute_key
from winnow.errors import ConfigError, WinnowError
from winnow.identity.markers import get_speed_only_settings
from winnow.modeling.devices import pick_device, resolve_dtype
from winnow.modeling.loading import keep_freed_memory
from winnow.training.attention import without_cudnn_attention
from winnow.training.backward import Autocast, accumulate_gradients
from winnow.training.checkpoints import Checkpoint
from winnow.training.groups import Group, describe_groups, list_question_ids, shuffle_indices
from winnow.training.memory import explain_out_of_memory, measure_peak_memory
from winnow.training.method import Method
from winnow.training.progress import LoopReport, Progress, set_dropout
from winnow.training.settings import LoopSettings, divide_accumulation

Log = Callable[[Mapping[str, float], int], None]
"""Function that records metrics, by name, at an optimizer step."""
Advance = Callable[[int, str], None]
"""Callback for a progress bar: the number of new optimizer steps, a text about the last one."""
_REPORT_FILE = "training.json"
_BYTES_PER_PARAMETER = 20
"""Free disk space that training needs per trained parameter, for checkpoints and saved models."""
_BYTES_PER_FROZEN = 4
"""The same for a parameter that adapters leave as it is: two saved models in bfloat16."""


@without_cudnn_attention()
@explain_out_of_memory(
    "lower settings.chunk_tokens",
    "settings.gradient_checkpointing=true",
    "settings.gradient_caching=true",
)
def fit(
    method: Method[Any],
    train: Sequence[Group],
    dev: Sequence[Group],
    settings: LoopSettings,
    out: Path,
    log: Log,
    advance: Advance = lambda steps, text: None,  # noqa: ARG005 (no progress bar)
) -> LoopReport:
    """Train a method's models and save the models of the best epoch.

    The run resumes from the checkpoint in the folder `<out>.checkpoint`, if there is one. The
    folder `out` is created when the run is complete. If it already contains a report, the function
    returns this report without training.

    Args:
        method: Training method with its models.
        train: Training questions.
        dev: Development questions. If there are none, the models of the last epoch are saved.
        settings: Settings of the training.
        out: Folder to which the models are saved, each in a subfolder of its own.
        log: Function that records metrics at an optimizer step.
        advance: Callback for a progress bar.

    Raises:
        ConfigError: If there are no training questions, or if `accumulation` is not a multiple of
            the number of processes.
        WinnowError: If the loss or the gradient is not finite (the message names the questions), or
            if the criterion of an epoch is nan.
    """
    report_file = out / _REPORT_FILE
    if report_file.is_file():
        return LoopReport(**json.loads(report_file.read_text()))
    if not train:
        raise ConfigError(
            "There are no training questions. Check the training split and the file of retrieved "
            "contexts."
        )
    device = pick_device(settings.device)
    processes = PartialState(cpu=device.type == "cpu")
    divide_accumulation(settings.accumulation, processes.num_processes)
    modules = _load_modules(method, settings, device, processes)
    return _Loop(method, train, dev, settings, out, log, advance, device, processes, modules).run()


def _load_modules(
    method: Method[Any], settings: LoopSettings, device: torch.device, processes: PartialState
) -> dict[str, Any]:
    """Load the models of a method and prepare them for training."""
    set_seed(settings.seed)  # so that new classifier layers get the same weights in all processes
    modules: dict[str, Any] = {name: lm.model for name, lm in method.models.items()}
    set_seed(settings.seed + processes.process_index)  # so that dropout differs between processes
    if device.type == "cpu":
        keep_freed_memory()
    modules |= {name: head.to(device) for name, head in method.heads.items()}
    for module in (lm.model for lm in method.models.values()):
        if device.type == "cpu":  # the backward pass of fused attention is slower on a CPU
            module.set_attn_implementation("eager")
        if settings.dropout is not None:
            set_dropout(module, settings.dropout)
        if settings.gradient_checkpointing:
            module.gradient_checkpointing_enable()  # type: ignore[no-untyped-call]
    return modules


class _Loop:
    """A training run of loaded models, with its optimizer, progress and checkpoint."""

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
        use_bfloat16 = resolve_dtype(settings.precision, settings.device) == "bfloat16"
        self.autocast: Autocast = partial(
            torch.autocast, device.type, torch.bfloat16, enabled=use_bfloat16
        )
        self.batches_per_step = divide_accumulation(settings.accumulation, processes.num_processes)
        parameters = [parameter for module in modules.values() for parameter in module.parameters()]
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        warmup_steps = max(1, settings.warmup_steps)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / warmup_steps)
        )
        self.progress = Progress()
        self.best_folder = out.with_name(out.name + ".best")
        checkpoint_folder = out.with_name(out.name + ".checkpoint")
        self.checkpoint = Checkpoint(
            checkpoint_folder, modules, self.optimizer, self.scheduler, processes, method
        )
        # before training, which may change the method's attributes
        self.fingerprint = self._build_fingerprint()

    def run(self) -> LoopReport:
        """Train the remaining epochs, then move the best models to `out`."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        num_trained = sum(parameter.numel() for parameter in self.parameters)
        num_all = sum(p.numel() for module in self.modules.values() for p in module.parameters())
        check_free_space(
            self.out.parent,
            _BYTES_PER_PARAMETER * num_trained + _BYTES_PER_FROZEN * (num_all - num_trained),
        )
        self.progress = Progress(**self.checkpoint.load(self.fingerprint))
        self.advance(self.progress.step, "")
        while self.progress.epoch < self.settings.epochs:
            self._train_epoch()
            self._finish_epoch()
        report = self._build_report()
        if self.processes.is_main_process:
            (self.best_folder / _REPORT_FILE).write_text(json.dumps(asdict(report)))
            shutil.rmtree(self.out, ignore_errors=True)
            self.best_folder.rename(self.out)
            self.checkpoint.remove()
        self.processes.wait_for_everyone()
        return report

    def _build_report(self) -> LoopReport:
        progress, speed = self.progress, self._compute_tokens_per_second()
        counts = self.method.truncated, self.method.truncated_answers
        memory, best = measure_peak_memory(), progress.best_epoch
        return LoopReport(
            progress.step, progress.seconds, speed, memory, best, progress.history, *counts
        )

    def _compute_tokens_per_second(self) -> float:
        return self.progress.tokens / max(self.progress.seconds, 1e-9)

    def _train_epoch(self) -> None:
        """Train on the epoch's remaining batches, in rounds that one optimizer step accumulates."""
        batches = self._build_batches()
        num_rounds = math.ceil(len(batches) / self.batches_per_step)
        progress = self.progress
        for round_index in range(progress.batch // self.batches_per_step, num_rounds):
            start_time = time.monotonic()
            first_batch = round_index * self.batches_per_step
            next_batch = min(first_batch + self.batches_per_step, len(batches))
            terms = self._train_on_batches(batches[first_batch:next_batch])
            progress.batch = next_batch
            progress.seconds += time.monotonic() - start_time
            updates = self.method.updates
            self.advance(
                updates,
                f"loss {terms['loss']:.3f}, epoch {progress.epoch + 1} of {self.settings.epochs}",
            )
            is_last_round = round_index + 1 == num_rounds
            if self._is_due(self.settings.logging_steps) or is_last_round:
                self._log_step(terms)
            if self._is_due(self.settings.save_steps) and not is_last_round:
                self.checkpoint.save(self.fingerprint, asdict(progress))

    def _is_due(self, interval_steps: int) -> bool:
        """Return whether the last updates reached a multiple of `interval_steps` steps."""
        return self.progress.step % interval_steps < self.method.updates

    def _build_batches(self) -> list[list[Group]]:
        """Build this process's batches, repeating questions so that processes have equally many."""
        world_size, rank = self.processes.num_processes, self.processes.process_index
        order = shuffle_indices(len(self.train), self.settings.seed, self.progress.epoch)
        order += itertools.islice(itertools.cycle(tuple(order)), -len(order) % world_size)
        groups = [self.train[index] for index in order[rank::world_size]]
        batch_size = self.settings.batch_questions
        return [groups[start : start + batch_size] for start in range(0, len(groups), batch_size)]

    def _train_on_batches(self, group_batches: Sequence[Sequence[Group]]) -> dict[str, float]:
        """Prepare batches without gradients, take optimizer steps, and return the last terms."""
        for module in self.modules.values():
            module.eval()
        batches: list[Any] = []
        with torch.no_grad(), self.autocast():
            for groups in group_batches:
                batches.append(self.method.prepare(groups, self.settings.seed, self.progress.epoch))
                self.advance(
                    0, f"{len(batches)} of {len(group_batches)} batches of the step prepared"
                )
        terms: dict[str, float] = {}
        for update in range(self.method.updates):
            terms = self._update_weights(group_batches, batches)
            self.advance(0, f"update {update + 1} of {self.method.updates} on the step's batches")
            self.progress.step += 1
            # all processes take the same updates
            if any(gather_object([self.method.should_stop(terms)])):
                self.progress.step += self.method.updates - update - 1
                break
        return terms

    def _update_weights(
        self, group_batches: Sequence[Sequence[Group]], batches: Sequence[Any]
    ) -> dict[str, float]:
        """Take an optimizer step on batches weighted by question count; return the loss terms."""
        for module in self.modules.values():
            module.train()
        self.optimizer.zero_grad(set_to_none=True)
        num_questions = sum(map(len, group_batches))
        totals: dict[str, float] = {}
        for batch, groups in zip(batches, group_batches, strict=True):
            scale = len(groups) / num_questions
            terms, num_tokens = accumulate_gradients(
                self.method,
                batch,
                groups,
                self.settings,
                self.progress.epoch,
                scale=scale,
                autocast=self.autocast,
            )
            self.progress.tokens += num_tokens * self.processes.num_processes
            for name, value in terms.items():
                totals[name] = totals.get(name, 0.0) + scale * value
        self._average_gradients()
        grad_norm = torch.nn.utils.clip_grad_norm_(
            self.parameters, self.settings.max_grad_norm or math.inf
        )
        if not torch.isfinite(grad_norm):
            step_question_ids = [
                question_id for groups in group_batches for question_id in list_question_ids(groups)
            ]
            raise WinnowError(
                f"The gradient norm became {grad_norm.item()} in step {self.progress.step} on the "
                f"questions {step_question_ids}. Lower the learning rate, or train in float32."
            )
        self.optimizer.step()
        self.scheduler.step()
        return {**totals, "grad_norm": float(grad_norm)}

    def _average_gradients(self) -> None:
        """Average the gradients over the processes, once per optimizer step."""
        if self.processes.num_processes == 1:
            return
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= self.processes.num_processes

    def _finish_epoch(self) -> None:
        """Evaluate, save the models if they are the best so far, and save a checkpoint."""
        rows = self._evaluate()
        progress = self.progress
        means = (
            {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]} if rows else {}
        )
        criterion = means[self.method.criterion] if means else -math.inf
        if math.isnan(criterion):
            raise WinnowError(
                f"{self.method.criterion} of the development questions is nan after epoch "
                f"{progress.epoch + 1}: the training diverged. Lower the learning rate, or train "
                "in float32."
            )
        progress.epoch += 1
        progress.batch = 0
        progress.history.append({"epoch": progress.epoch, **means})
        if means and self.processes.is_main_process:
            self.log({f"dev_{name}": value for name, value in means.items()}, progress.step)
        if not means or criterion >= progress.best:
            progress.best, progress.best_epoch = criterion, progress.epoch
            if self.processes.is_main_process:
                self._save_models(self.best_folder)
        self.checkpoint.save(self.fingerprint, asdict(progress))

    def _evaluate(self) -> list[dict[str, float]]:
        """Compute the metrics of each development question, collected from all processes."""
        for module in self.modules.values():
            module.eval()
        groups = self.dev[self.processes.process_index :: self.processes.num_processes]
        with self.autocast(), torch.inference_mode():
            rows = self.method.evaluate(groups) if groups else []
        return list(gather_object(rows)) if self.processes.num_processes > 1 else rows

    def _log_step(self, terms: Mapping[str, float]) -> None:
        parts = gather_object([terms])  # each process has those of its own questions
        if not self.processes.is_main_process:
            return
        metrics = {
            **{name: sum(part[name] for part in parts) / len(parts) for name in terms},
            "learning_rate": float(self.scheduler.get_last_lr()[0]),
            "tokens_per_second": self._compute_tokens_per_second(),
            "memory_gb": measure_peak_memory() / 1e9,
            "epoch": self.progress.epoch,
        }
        self.log(metrics, self.progress.step)

    def _save_models(self, folder: Path) -> None:
        partial_folder = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial_folder, ignore_errors=True)
        partial_folder.mkdir(parents=True)
        for name in self.method.models:
            self.method.save_model(name, partial_folder / name)
        shutil.rmtree(folder, ignore_errors=True)
        partial_folder.rename(folder)

    def _build_fingerprint(self) -> dict[str, Any]:
        """Build the values that identify a checkpoint's run: method, settings, data and models."""
        ignored_settings = get_speed_only_settings(LoopSettings)
        settings = {
            name: value
            for name, value in asdict(self.settings).items()
            if name not in ignored_settings
        }
        method_settings = {
            name: value
            for name, value in vars(self.method).items()
            if isinstance(value, str | int | float)
        }
        return {
            "method": type(self.method).__name__,
            **{f"method.{name}": value for name, value in method_settings.items()},
            **settings,
            "questions": compute_key([describe_groups(self.train), describe_groups(self.dev)]),
            "processes": self.processes.num_processes,
            **{
                f"{name}.parameters": sum(p.numel() for p in module.parameters())
                for name, module in self.modules.items()
            },
            **{f"{name}.class": type(module).__name__ for name, module in self.modules.items()},
        }
