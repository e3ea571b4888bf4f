"""Fine-tuning of a tiny model: it learns, resumes to the same weights, and refuses what it cannot
use.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM, TrainingArguments

from winnow.errors import ConfigError
from winnow.modeling.loading import load_causal_lm
from winnow.requests import Message
from winnow.testing import make_tiny_causal_lm
from winnow.training.examples import Example
from winnow.training.settings import check_single_device
from winnow.training.sft import (
    ReplyTrainer,
    SftSettings,
    _build_training_arguments,
    fine_tune,
)

TEXTS = ["the colour of the sky is", "blue", "the colour of grass is", "green"]
EXAMPLES = [
    Example(f"{n}", (Message("user", f"the colour of {thing} is {'very ' * (n % 3)}"),), colour)
    for n, (thing, colour) in enumerate([("the sky", "blue"), ("grass", "green")] * 8)
]
SETTINGS = SftSettings(
    epochs=6,
    learning_rate=1e-2,
    batch_size=4,
    accumulation=1,
    precision="float32",
    device="cpu",
    save_steps=5,
    logging_steps=4,
)


def silent(metrics: Mapping[str, float], step: int) -> None:
    """Log nothing."""


def test_the_loss_falls_and_the_model_is_a_plain_folder(tmp_path: Path) -> None:
    """From about log 400 to under 1; loss, rate and memory are logged; checkpoints are gone; a
    second call only reports.
    """
    base = make_tiny_causal_lm(tmp_path / "base", TEXTS)
    logged: list[Mapping[str, float]] = []
    report = fine_tune(
        str(base), EXAMPLES, SETTINGS, tmp_path / "out", lambda m, _: logged.append(m)
    )
    assert logged[0]["loss"] > 3
    assert logged[-1]["loss"] < 1
    assert {"tokens_per_second", "memory_gb", "learning_rate"} <= logged[0].keys()
    assert (report.steps, report.skipped) == (24, 0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["base", "out"]
    assert load_causal_lm(str(tmp_path / "out"), "float32", "cpu").model.dtype == torch.float32
    assert fine_tune(str(base), EXAMPLES, SETTINGS, tmp_path / "out", silent) == report


def test_lora_is_merged(tmp_path: Path) -> None:
    """The result has the base's parameter names and other values."""
    base = make_tiny_causal_lm(tmp_path / "base", TEXTS)
    settings = SftSettings(
        epochs=2, lora_rank=4, precision="float32", device="cpu", learning_rate=1e-2
    )
    fine_tune(str(base), EXAMPLES, settings, tmp_path / "out", silent)
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("base", "out"))
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[k].bfloat16(), after[k]) for k in before)


def test_too_long_examples_are_counted_and_settings_checked(tmp_path: Path) -> None:
    """What exceeds the length is skipped and reported; if all do it is an error."""
    base = make_tiny_causal_lm(tmp_path / "base", TEXTS)
    long = Example("long", (Message("user", "sky " * 500),), "blue")
    settings = SftSettings(max_length=100, precision="float32", device="cpu")
    assert (
        fine_tune(str(base), [*EXAMPLES[:4], long], settings, tmp_path / "out", silent).skipped == 1
    )
    with pytest.raises(ConfigError, match="All 1 training examples exceed"):
        fine_tune(str(base), [long], settings, tmp_path / "none", silent)
    with pytest.raises(ConfigError, match="precision"):
        SftSettings(precision="int8")
    with pytest.raises(ConfigError, match="must be at least 1"):
        SftSettings(batch_size=0)


def train(out: Path, kill_at: int | None) -> None:
    """Train in this process, killing it with SIGKILL after a step; called in a child."""

    def log(metrics: Mapping[str, float], step: int) -> None:
        if kill_at is not None and step >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    fine_tune(str(out.parent / "base"), EXAMPLES, SETTINGS, out, log)


@pytest.mark.slow
def test_killed_and_resumed_ends_with_the_same_weights(tmp_path: Path) -> None:
    """SIGKILL after step 12, then the same call again: bit-equal to an undisturbed run."""
    make_tiny_causal_lm(tmp_path / "base", TEXTS)
    call = (
        "import sys; sys.path[:0] = {path!r}; from test_sft import *; train(Path({out!r}), {kill})"
    )

    def run(name: str, kill: int | None) -> int:
        code = call.format(
            path=[str(Path(__file__).parent), *sys.path], out=str(tmp_path / name), kill=kill
        )
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=False
        ).returncode

    assert run("whole", None) == 0
    assert run("broken", 12) == -signal.SIGKILL
    assert (tmp_path / "broken.checkpoints").is_dir()
    assert run("broken", None) == 0
    whole, broken = (
        load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken")
    )
    assert all(torch.equal(whole[k], broken[k]) for k in whole)
    reports = [
        json.loads((tmp_path / name / "training.json").read_text()) for name in ("whole", "broken")
    ]
    losses = [report["loss"] for report in reports]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    """The same batches per step: torchrun with two ends with the same number of steps, and with
    nearly the same weights.
    """
    base = make_tiny_causal_lm(tmp_path / "base", TEXTS)
    settings = replace(SETTINGS, batch_size=2, accumulation=4, epochs=3)
    one = fine_tune(str(base), EXAMPLES, settings, tmp_path / "one", silent)
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom dataclasses import replace\nfrom pathlib import Path\n"
        "from tests.training.test_sft import EXAMPLES, SETTINGS, fine_tune, silent\n"
        "settings = replace(SETTINGS, batch_size=2, accumulation=int(sys.argv[3]), epochs=3)\n"
        "fine_tune(sys.argv[1], EXAMPLES, settings, Path(sys.argv[2]), silent)\n"
    )
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node=2",
        script,
        base,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "OMP_NUM_THREADS": "1",
    }
    environment["CUDA_VISIBLE_DEVICES"] = ""
    done = subprocess.run(
        [*launcher, tmp_path / "two", "4"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    two = json.loads((tmp_path / "two/training.json").read_text())
    assert two["steps"] == one.steps == 6
    assert two["loss"] == pytest.approx(one.loss, rel=0.02)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all(
        torch.allclose(first[name].float(), second[name].float(), atol=0.02) for name in first
    )
    done = subprocess.run(
        [*launcher, tmp_path / "three", "3"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert (
        "accumulation=3 batches per optimizer step cannot be divided equally among 2 processes"
        in done.stderr
    )


def test_several_gpus_of_one_process_are_refused() -> None:
    """Trainer would draw a batch for each of them; one process a GPU divides the batch instead."""
    check_single_device(SimpleNamespace(n_gpu=0))
    check_single_device(SimpleNamespace(n_gpu=1))
    with pytest.raises(
        ConfigError, match=r"2 GPUs are visible to one process.*CUDA_VISIBLE_DEVICES"
    ):
        check_single_device(SimpleNamespace(n_gpu=2))


def test_adapters_are_drawn_from_the_seed(tmp_path: Path) -> None:
    """Whatever the process has drawn before."""
    base = make_tiny_causal_lm(tmp_path / "base", TEXTS)
    settings = replace(SETTINGS, epochs=1, lora_rank=4)
    weights = []
    for number in (1, 2):
        torch.manual_seed(number)
        fine_tune(str(base), EXAMPLES, settings, tmp_path / f"{number}", silent)
        weights.append(load_file(tmp_path / f"{number}" / "model.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_trainer_gives_the_number_of_tokens_of_a_step_for_every_model(tmp_path: Path) -> None:
    """Also for one whose own loss does not take it, as Gemma 4's; micro-batches would count alike,
    whatever their number of tokens.
    """

    class OwnLoss(LlamaForCausalLM):
        accepts_loss_kwargs = False

    lm = load_causal_lm(str(make_tiny_causal_lm(tmp_path / "base", TEXTS)), "float32", "cpu")
    lm.model.__class__ = OwnLoss
    trainer = ReplyTrainer(lm.model, TrainingArguments(str(tmp_path), use_cpu=True))
    assert trainer.model_accepts_loss_kwargs


@pytest.mark.parametrize(
    ("num_examples", "epochs", "ratio", "steps"),
    [(9, 10, 0.5, 10), (162, 1, 0.05, 1), (9, 10, 0.0, 0), (5, 0.5, 0.9, 1)],
)
def test_the_learning_rate_rises_over_a_fraction_of_all_steps(
    num_examples: int, epochs: float, ratio: float, steps: int, tmp_path: Path
) -> None:
    """Of those that Trainer takes, whose last batches of an epoch are incomplete."""
    settings = SftSettings(
        epochs=epochs, warmup_ratio=ratio, batch_size=4, accumulation=2, device="cpu"
    )
    arguments = _build_training_arguments(settings, tmp_path, "cpu", num_examples)
    assert arguments.warmup_steps == steps
