"""Checkpoints of a training run: a kill at any moment leaves a complete one, and another run's is refused.

Ours, not accelerate's `save_state`, which pickles random states and does not record which run it belongs to. Here everything
loads with `weights_only=True` or from safetensors, and differences between runs are named before it is used.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from safetensors.torch import load_model, save_model

from winnow.errors import ConfigError
from winnow.training.method import Method

_STATE = "state.pt"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a run: weights, optimizer, scheduler, the method's state, progress, and all random states."""

    folder: Path
    modules: Mapping[str, Any]
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler
    processes: PartialState
    method: Method[Any]

    @property
    def _older(self) -> Path:
        return self.folder.with_name(self.folder.name + ".old")

    def save(self, fingerprint: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
        """Write a checkpoint beside the last one, then replace it; every process has its own random state."""
        state = [torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None]
        states = gather_object([state]) if self.processes.num_processes > 1 else [state]
        if self.processes.is_main_process:
            partial = self.folder.with_name(self.folder.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for name, module in self.modules.items():
                save_model(module, str(partial / f"{name}.safetensors"))
            body = {
                "fingerprint": dict(fingerprint),
                "progress": dict(progress),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "random": states,
                "method": self.method.state_dict(),
            }
            torch.save(body, partial / _STATE)
            shutil.rmtree(self._older, ignore_errors=True)
            if self.folder.exists():
                self.folder.rename(self._older)
            partial.rename(self.folder)
            shutil.rmtree(self._older, ignore_errors=True)
        self.processes.wait_for_everyone()

    def load(self, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
        """Continue from the checkpoint and return its progress; empty where there is none.

        Raises:
            ConfigError: if the checkpoint belongs to another run; each difference is named.

        """
        if self.processes.is_main_process and self._older.exists() and not self.folder.exists():
            self._older.rename(self.folder)  # a kill between the two renames of `save`
        exists = broadcast_object_list([(self.folder / _STATE).is_file()])[0]
        if not exists:
            return {}
        body = torch.load(self.folder / _STATE, map_location="cpu", weights_only=True)
        theirs = body["fingerprint"]
        differing = [
            f"{n}: {theirs.get(n)!r} in the checkpoint, {fingerprint.get(n)!r} now"
            for n in sorted({*fingerprint, *theirs})
            if fingerprint.get(n) != theirs.get(n)
        ]
        if differing:
            raise ConfigError(
                f"The checkpoint {self.folder} belongs to another run ({'; '.join(differing)}). "
                "Train with its settings, or remove the folder to start again."
            )
        for name, module in self.modules.items():
            load_model(module, str(self.folder / f"{name}.safetensors"))
        self.optimizer.load_state_dict(body["optimizer"])
        self.scheduler.load_state_dict(body["scheduler"])
        self.method.load_state_dict(body.get("method", {}))
        cpu, cuda = body["random"][self.processes.process_index]
        torch.set_rng_state(cpu)
        if cuda is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(cuda)
        return dict(body["progress"])

    def remove(self) -> None:
        """Remove the checkpoint of a complete run."""
        for folder in (self.folder, self._older):
            shutil.rmtree(folder, ignore_errors=True)
