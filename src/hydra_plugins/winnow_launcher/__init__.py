"""A Hydra launcher that passes all jobs of a multirun to the stage in one call, so that they share a driver, and its sweeper.

Hydra discovers them in the namespace package `hydra_plugins`, and conf/runner/shared.yaml selects them.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf
from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict


class SharedDriverLauncher(Launcher):
    """Launcher that composes every job, Hydra's own settings included, and passes all to the task's `add_all`."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the context, the task and the configuration that Hydra provides."""
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Compose all jobs and pass them on in one call, so that they succeed or fail together."""
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        logging.getLogger(__name__).info("%d jobs share one driver", len(job_overrides))
        configs = [self._compose(list(overrides), initial_job_idx + offset) for offset, overrides in enumerate(job_overrides)]
        self.task.add_all(configs)  # type: ignore[attr-defined]  # set in flows.stages.command
        return [
            JobReturn(
                overrides=list(overrides), cfg=cfg, hydra_cfg=cfg, working_dir=".", task_name="", status=JobStatus.COMPLETED
            )
            for overrides, cfg in zip(job_overrides, configs, strict=True)
        ]

    def _compose(self, overrides: list[str], job_number: int) -> DictConfig:
        cfg = self.context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(cfg):
            cfg.hydra.job.id = job_number
            cfg.hydra.job.num = job_number
        return cfg


class SharedDriverSweeper(BasicSweeper):
    """Hydra's own sweeper without the composition of every job as a check: the launcher composes all before any runs."""

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Leave the errors to the launcher."""


@dataclass
class SharedDriverConf:
    """Configuration of `hydra/launcher=shared_driver`."""

    _target_: str = "hydra_plugins.winnow_launcher.SharedDriverLauncher"


@dataclass
class SharedDriverSweeperConf(BasicSweeperConf):
    """Configuration of `hydra/sweeper=shared_driver`."""

    _target_: str = "hydra_plugins.winnow_launcher.SharedDriverSweeper"


ConfigStore.instance().store(group="hydra/sweeper", name="shared_driver", node=SharedDriverSweeperConf, provider="winnow")
ConfigStore.instance().store(group="hydra/launcher", name="shared_driver", node=SharedDriverConf, provider="winnow")
