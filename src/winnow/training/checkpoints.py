"""Checkpoints of a training run: a kill at any moment leaves a whole one, and another run's is refused.

Ours, not accelerate's `save_state`, which pickles random states and learns nothing of what the run was: here everything
loads with `weights_only=True` or from safetensors, and says what differs before it is used.
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

_STATE = "state.pt"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a run in `folder`: weights, optimizer, scheduler, progress and every process's random numbers."""

    folder: Path
    modules: Mapping[str, Any]
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler
    processes: PartialState

    @property
    def _older(self) -> Path:
        return self.folder.with_name(self.folder.name + ".old")

    def save(self, fingerprint: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
        """Write a checkpoint beside the last one, then take its place; every process has random numbers of its own."""
        state = [torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None]
        states = gather_object([state]) if self.processes.num_processes > 1 else [state]
        if self.processes.is_main_process:
            made = self.folder.with_name(self.folder.name + ".made")
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            for name, module in self.modules.items():
                save_model(module, str(made / f"{name}.safetensors"))
            body = {
                "fingerprint": dict(fingerprint),
                "progress": dict(progress),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "random": states,
            }
            torch.save(body, made / _STATE)
            shutil.rmtree(self._older, ignore_errors=True)
            if self.folder.exists():
                self.folder.rename(self._older)
            made.rename(self.folder)
            shutil.rmtree(self._older, ignore_errors=True)
        self.processes.wait_for_everyone()

    def load(self, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
        """Go on from the checkpoint and return its progress; empty where there is none.

        Raises:
            ConfigError: the checkpoint's fingerprint is another; each difference is named.

        """
        if self.processes.is_main_process and self._older.exists() and not self.folder.exists():
            self._older.rename(self.folder)  # a kill came between the two renames of `save`
        there = broadcast_object_list([(self.folder / _STATE).is_file()])[0]
        if not there:
            return {}
        body = torch.load(self.folder / _STATE, map_location="cpu", weights_only=True)
        theirs = body["fingerprint"]
        differing = [
            f"{n}: {theirs.get(n)!r} there, {fingerprint.get(n)!r} now"
            for n in sorted({*fingerprint, *theirs})
            if fingerprint.get(n) != theirs.get(n)
        ]
        if differing:
            raise ConfigError(
                f"The checkpoint {self.folder} is of another run ({'; '.join(differing)}). "
                "Train with its settings, or remove the folder to begin anew."
            )
        for name, module in self.modules.items():
            load_model(module, str(self.folder / f"{name}.safetensors"))
        self.optimizer.load_state_dict(body["optimizer"])
        self.scheduler.load_state_dict(body["scheduler"])
        cpu, cuda = body["random"][self.processes.process_index]
        torch.set_rng_state(cpu)
        if cuda is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(cuda)
        return dict(body["progress"])

    def remove(self) -> None:
        """Remove what is there; a run that is done needs none."""
        for folder in (self.folder, self._older):
            shutil.rmtree(folder, ignore_errors=True)
