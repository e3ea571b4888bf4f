"""Save and restore training checkpoints, so that interrupted runs can resume.

A checkpoint is replaced only when the next one is complete, so that a run can be killed at any
moment. It contains a fingerprint of its run: the settings and data that another run must share to
load it. accelerate's `save_state` has no such fingerprint, and it pickles random states. Here,
every file is a safetensors file or loads with `weights_only=True`.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from safetensors.torch import load_file, save_file

from winnow.errors import ConfigError
from winnow.training.method import Method

_STATE_FILE = "state.pt"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run's checkpoint: weights, optimizer, scheduler, progress, method state and random states.

    Attributes:
        folder: Folder of the checkpoint.
        modules: Trained modules by the name of their weights file.
        optimizer: Optimizer of the run.
        scheduler: Learning rate scheduler of the run.
        processes: Processes of the run. Only the main process writes the checkpoint.
        method: Training method, whose `state_dict` is saved too.
    """

    folder: Path
    modules: Mapping[str, Any]
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler
    processes: PartialState
    method: Method[Any]

    @property
    def _previous_folder(self) -> Path:
        return self.folder.with_name(self.folder.name + ".old")

    def save(self, fingerprint: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
        """Write a new checkpoint, then replace the previous one with it.

        Args:
            fingerprint: Settings and data that identify the run, as plain values.
            progress: Progress of the run as plain values, such as the number of finished steps.
        """
        random_state = [
            torch.get_rng_state(),
            torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        ]
        random_states = (
            gather_object([random_state]) if self.processes.num_processes > 1 else [random_state]
        )
        if self.processes.is_main_process:
            partial_folder = self.folder.with_name(self.folder.name + ".partial")
            shutil.rmtree(partial_folder, ignore_errors=True)
            partial_folder.mkdir()
            for name, module in self.modules.items():
                save_file(_collect_trained(module), partial_folder / f"{name}.safetensors")
            state = {
                "fingerprint": dict(fingerprint),
                "progress": dict(progress),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "random": random_states,
                "method": self.method.state_dict(),
            }
            torch.save(state, partial_folder / _STATE_FILE)
            shutil.rmtree(self._previous_folder, ignore_errors=True)
            if self.folder.exists():
                self.folder.rename(self._previous_folder)
            partial_folder.rename(self.folder)
            shutil.rmtree(self._previous_folder, ignore_errors=True)
        self.processes.wait_for_everyone()

    def load(self, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
        """Restore the run from its checkpoint.

        Args:
            fingerprint: Settings and data that identify the run.

        Returns:
            The saved progress, or an empty dict if there is no checkpoint.

        Raises:
            ConfigError: If the checkpoint belongs to another run. The message lists every
                difference.
        """
        if (
            self.processes.is_main_process
            and self._previous_folder.exists()
            and not self.folder.exists()
        ):
            self._previous_folder.rename(
                self.folder
            )  # the run was killed between the two renames of `save`
        exists = broadcast_object_list([(self.folder / _STATE_FILE).is_file()])[0]
        if not exists:
            return {}
        state = torch.load(self.folder / _STATE_FILE, map_location="cpu", weights_only=True)
        saved_fingerprint = state["fingerprint"]
        differences = [
            f"{name}: {saved_fingerprint.get(name)!r} in the checkpoint, "
            f"{fingerprint.get(name)!r} now"
            for name in sorted({*fingerprint, *saved_fingerprint})
            if fingerprint.get(name) != saved_fingerprint.get(name)
        ]
        if differences:
            raise ConfigError(
                f"The checkpoint {self.folder} belongs to another run ({'; '.join(differences)}). "
                "Train with the settings of that run, or remove the folder to start training "
                "from the beginning."
            )
        for name, module in self.modules.items():
            _restore_trained(module, load_file(self.folder / f"{name}.safetensors"))
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.method.load_state_dict(state.get("method", {}))
        cpu_state, cuda_state = state["random"][self.processes.process_index]
        torch.set_rng_state(cpu_state)
        if cuda_state is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(cuda_state)
        return dict(state["progress"])

    def remove(self) -> None:
        """Remove the checkpoint after the run is complete."""
        for folder in (self.folder, self._previous_folder):
            shutil.rmtree(folder, ignore_errors=True)


def _collect_trained(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the trained parameters by name. Frozen ones (below adapters) are the base model's."""
    return {
        name: value.detach().contiguous()
        for name, value in module.named_parameters()
        if value.requires_grad
    }


def _restore_trained(module: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy saved parameters into a module, ignoring untrained names of older checkpoints."""
    parameters = {name: value for name, value in module.named_parameters() if value.requires_grad}
    missing_names = [name for name in parameters if name not in weights]
    if missing_names:
        raise ConfigError(
            f"The checkpoint lacks the parameters {missing_names[:3]}. Remove it to start training "
            "from "
            "the beginning."
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
