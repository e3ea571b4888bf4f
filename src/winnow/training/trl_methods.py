"""GRPO and RLOO of a reader on reply rewards, by TRL: alternatives to PPO without a value model."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge

from winnow.artifacts.files import check_free_space
from winnow.errors import ConfigError, WinnowError
from winnow.identity.markers import ModelName
from winnow.identity.values import check_values
from winnow.modeling.chat import render_chat
from winnow.modeling.devices import pick_device, resolve_dtype
from winnow.records import Decoding
from winnow.training.adapters import load_with_adapters, save_merged
from winnow.training.attention import without_cudnn_attention
from winnow.training.checkpoint_folders import find_last_checkpoint
from winnow.training.loop import Log
from winnow.training.memory import explain_out_of_memory, measure_peak_memory
from winnow.training.progress import LoopReport, set_dropout
from winnow.training.rollouts import RewardedTask, check_decoding
from winnow.training.settings import check_single_device, count_processes, divide_accumulation

if TYPE_CHECKING:
    from winnow.training.groups import Group
    from winnow.training.settings import LoopSettings

_REPORT_FILE = "training.json"
_BYTES_PER_PARAMETER = 8


@dataclass
class TrlMethod:
    """Base class of the methods of TRL that compare several replies to each question.

    Args:
        base: Name or folder of the reader to train.
        task: Prompts and rewards.
        decoding: Generation settings of the rollouts.
        lora_rank: Rank of the adapters; without them, the reader is the reference model.
        replies: Number of replies to each question that are compared.
        passes: Number of passes over the replies of a batch.
        clip: Largest change of a probability ratio that is rewarded.
        kl_weight: Weight of the penalty on the divergence from the reference model.
        quantize: "none" or, on a GPU, "4bit" (QLoRA).
        device: "auto", "cpu" or "cuda".
    """

    config_name: ClassVar[str]
    trainer_name: ClassVar[str]

    base: Annotated[str, ModelName]
    task: RewardedTask
    decoding: Decoding = Decoding(max_new_tokens=32, temperature=1.0)
    lora_rank: Annotated[int, Ge(1)] = 64
    replies: Annotated[int, Ge(2)] = 4
    passes: Annotated[int, Ge(1)] = 1
    clip: Annotated[float, Ge(0)] = 0.2
    kl_weight: Annotated[float, Ge(0)] = 0.05
    quantize: str = "none"
    device: str = "auto"

    def __post_init__(self) -> None:
        check_values("method", self)
        if self.decoding.temperature <= 0:
            raise ConfigError("Replies are sampled: set decoding.temperature above 0.")
        check_decoding(self.decoding, ("stop", "seed"))

    @without_cudnn_attention()
    @explain_out_of_memory(
        "lower settings.batch_questions", "lower method.replies", "method.quantize=4bit"
    )
    def fit(
        self, train: Sequence[Group], settings: LoopSettings, out: Path, log: Log
    ) -> LoopReport:
        """Train the reader and save it with its adapters merged, in the folder `<out>/reader`.

        The run resumes from the last checkpoint in the folder `<out>.checkpoints`. If `out` already
        contains a report, the function returns this report without training.

        Args:
            train: Questions with their contexts.
            settings: Settings of the training. A batch has `batch_questions` questions with all
                their replies.
            out: Folder of the result, which is created when the run is complete.
            log: Function that records metrics at an optimizer step.
        """
        import trl
        from datasets import Dataset
        from transformers import set_seed

        report_file = out / _REPORT_FILE
        if report_file.is_file():
            return LoopReport(**json.loads(report_file.read_text()))
        set_seed(settings.seed)  # Trainer sets it after the adapters are drawn
        lm = load_with_adapters(self.base, self.lora_rank, self.quantize, self.device)
        model: Any = lm.model
        check_free_space(out.parent, _BYTES_PER_PARAMETER * model.num_parameters())
        if settings.dropout is not None:
            set_dropout(model, settings.dropout)
        unit = settings.batch_questions * settings.accumulation
        # TRL leaves out an incomplete batch; the first questions fill it
        train = [*train, *islice(cycle(tuple(train)), -len(train) % unit)]
        prompts = [self._build_prompt(lm.tokenizer, group) for group in train]
        checkpoints = out.with_name(out.name + ".checkpoints")
        arguments = getattr(trl, self.config_name)(**self._build_arguments(settings, checkpoints))
        check_single_device(arguments)
        trainer: Any = getattr(trl, self.trainer_name)(
            model=model,
            reward_funcs=self._build_reward(train),
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": prompts, "group": list(range(len(train)))}),
            processing_class=lm.tokenizer,
            callbacks=[_build_callback(log, settings.max_loss)],
        )
        start_time = time.monotonic()
        last_checkpoint = find_last_checkpoint(checkpoints)
        tokens_before = _count_tokens(last_checkpoint) if last_checkpoint else 0.0
        output = trainer.train(resume_from_checkpoint=last_checkpoint)
        seconds = time.monotonic() - start_time
        tokens = float(trainer.state.num_input_tokens_seen) - tokens_before
        report = LoopReport(
            output.global_step,
            seconds,
            tokens / max(seconds, 1e-9),
            measure_peak_memory(),
            settings.epochs,
            [],
        )
        if trainer.is_world_process_zero():
            partial_folder = out.with_name(out.name + ".partial")
            shutil.rmtree(partial_folder, ignore_errors=True)
            (partial_folder / "reader").mkdir(parents=True)
            save_merged(
                trainer.accelerator.unwrap_model(model), self.base, partial_folder / "reader"
            )
            lm.tokenizer.save_pretrained(partial_folder / "reader")
            (partial_folder / _REPORT_FILE).write_text(json.dumps(asdict(report)))
            shutil.rmtree(out, ignore_errors=True)
            partial_folder.rename(out)
            shutil.rmtree(checkpoints, ignore_errors=True)
        return report

    def _build_prompt(self, tokenizer: Any, group: Group) -> str:
        """Return the prompt as the reader renders it, without the special tokens that TRL's
        tokenizer adds.
        """
        text = render_chat(tokenizer, self.task.build_request(group).messages)
        token_ids: list[int] = tokenizer("a")["input_ids"]
        adds_first = bool(token_ids) and token_ids[0] == tokenizer.bos_token_id
        return text.removeprefix(tokenizer.bos_token) if adds_first else text

    def _build_reward(self, train: Sequence[Group]) -> Any:
        """Return TRL's reward function, which also logs the other metrics of the task."""

        def reward(
            completions: Sequence[str], group: Sequence[int], log_metric: Any = None, **_: Any
        ) -> list[float]:
            scores = [
                self.task.score(train[index], text.strip())
                for index, text in zip(group, completions, strict=True)
            ]
            for name in scores[0] if log_metric is not None else ():
                log_metric(name, sum(score[name] for score in scores) / len(scores))
            return [score["reward"] for score in scores]

        return reward

    def _build_arguments(self, settings: LoopSettings, checkpoints: Path) -> Mapping[str, Any]:
        """Return the settings by the names that both trainers share."""
        device = pick_device(settings.device)
        return {
            "output_dir": str(checkpoints),
            "per_device_train_batch_size": settings.batch_questions * self.replies,
            "gradient_accumulation_steps": divide_accumulation(
                settings.accumulation, count_processes()
            ),
            "num_train_epochs": settings.epochs,
            "learning_rate": settings.learning_rate,
            "lr_scheduler_type": "constant_with_warmup",
            "warmup_steps": settings.warmup_steps,
            "weight_decay": settings.weight_decay,
            "max_grad_norm": settings.max_grad_norm,
            "num_generations": self.replies,
            "num_iterations": self.passes,
            "max_completion_length": self.decoding.max_new_tokens,
            "temperature": self.decoding.temperature,
            "top_p": self.decoding.top_p,
            "epsilon": self.clip,
            "beta": self.kl_weight,
            "bf16": resolve_dtype(settings.precision, settings.device) == "bfloat16",
            "use_cpu": device.type == "cpu",
            "gradient_checkpointing": settings.gradient_checkpointing,
            # a resumed run draws other replies, so that it must not begin between two passes
            "save_steps": math.ceil(settings.save_steps / self.passes) * self.passes,
            "save_total_limit": 1,
            "logging_steps": settings.logging_steps,
            "seed": settings.seed,
            "report_to": "none",
            "disable_tqdm": True,
            "dataloader_pin_memory": device.type == "cuda",
        }


@dataclass
class Grpo(TrlMethod):
    """Group relative policy optimization (Shao et al. 2024), which compares a question's replies.

    Args:
        loss: How the tokens of replies are weighted. "grpo" weights replies equally, as published;
            with "dapo" and "bnpo" a longer reply counts for more, and "dr_grpo" divides by the
            maximum length.
    """

    config_name: ClassVar[str] = "GRPOConfig"
    trainer_name: ClassVar[str] = "GRPOTrainer"

    loss: Literal["grpo", "dapo", "bnpo", "dr_grpo"] = "grpo"

    def _build_arguments(self, settings: LoopSettings, checkpoints: Path) -> Mapping[str, Any]:
        """Return the settings of the base class and the kind of loss."""
        return {**super()._build_arguments(settings, checkpoints), "loss_type": self.loss}


@dataclass
class Rloo(TrlMethod):
    """REINFORCE with the leave-one-out mean reward as the baseline (Ahmadian et al. 2024)."""

    config_name: ClassVar[str] = "RLOOConfig"
    trainer_name: ClassVar[str] = "RLOOTrainer"


def _count_tokens(checkpoint: str) -> float:
    """Return the number of tokens that were read before a checkpoint."""
    from transformers.trainer_callback import TrainerState

    state = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
    return float(state.num_input_tokens_seen)


def _build_callback(log: Log, max_loss: float) -> Any:
    """Return a callback that passes TRL's numbers on, without the times, and stops a training whose
    loss is not finite or above a limit.
    """
    from transformers import TrainerCallback

    class MetricsLogger(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002 (signature of Trainer)
            logs = kwargs.get("logs") or {}
            if state.is_world_process_zero:
                values = {
                    name: float(value)
                    for name, value in logs.items()
                    if isinstance(value, int | float)
                }
                loss = values.get("loss", 0.0)
                if not math.isfinite(loss) or loss > max_loss:
                    raise WinnowError(
                        f"The loss of step {state.global_step} is {loss}, and "
                        f"settings.max_loss={max_loss}. Lower settings.learning_rate."
                    )
                log(
                    {name.replace("/", "_"): value for name, value in values.items()},
                    state.global_step,
                )

    return MetricsLogger()
