"""Settings of trainings: ranges, and how a step is divided over processes."""

from types import SimpleNamespace

import pytest

from winnow.errors import ConfigError
from winnow.training.settings import (
    LoopSettings,
    SftSettings,
    check_single_device,
    count_processes,
    divide_accumulation,
)


@pytest.mark.parametrize(
    "name", ["batch_size", "accumulation", "max_length", "save_steps", "logging_steps"]
)
def test_counts_of_fine_tuning_are_at_least_one(name: str) -> None:
    """By name, with the value received."""
    with pytest.raises(ConfigError, match=f"{name} must be at least 1; received 0"):
        SftSettings(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("accumulation", 0),
        ("chunk_tokens", 0),
        ("learning_rate", 0.0),
        ("max_loss", 0.0),
        ("warmup_steps", -1),
        ("max_grad_norm", -1.0),
    ],
)
def test_settings_of_joint_training_are_in_range(name: str, value: float) -> None:
    """By name, with the value received."""
    with pytest.raises(ConfigError, match=f"{name} must be .*; received {value}"):
        LoopSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("ratio", [-0.1, 1.0, 5.0])
def test_a_warmup_is_a_fraction(ratio: float) -> None:
    """A percentage would never end."""
    with pytest.raises(ConfigError, match="warmup_ratio must be"):
        SftSettings(warmup_ratio=ratio)


def test_quantized_weights_need_adapters() -> None:
    """Because they cannot be trained themselves."""
    with pytest.raises(ConfigError, match="quantize must be none or 4bit; received '8bit'"):
        SftSettings(quantize="8bit", lora_rank=8)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="quantize=4bit needs a lora_rank of at least 1"):
        SftSettings(quantize="4bit")
    assert SftSettings(quantize="4bit", lora_rank=8).lora_rank == 8


def test_precision_is_one_of_three_and_auto_is_resolved_for_the_key() -> None:
    """So that two machines with other hardware have two keys; other settings stay."""
    for settings in (SftSettings, LoopSettings):
        with pytest.raises(
            ConfigError, match="precision must be auto, bfloat16 or float32; received 'half'"
        ):
            settings(precision="half")  # type: ignore[arg-type]
        resolved = settings.resolve_settings({"precision": "auto", "device": "cpu", "seed": 5})
        assert resolved["precision"] in ("bfloat16", "float32")
        assert resolved["seed"] == 5
        assert settings.resolve_settings({"precision": "float32"})["precision"] == "float32"


def test_a_step_is_the_same_with_any_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batches are divided equally, or the training is refused."""
    assert [divide_accumulation(16, processes) for processes in (1, 2, 16)] == [16, 8, 1]
    with pytest.raises(ConfigError, match="Set accumulation to a multiple of 3"):
        divide_accumulation(16, 3)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert count_processes() == 1
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert count_processes() == 4


def test_a_process_sees_one_gpu() -> None:
    """Several would multiply the batch."""
    check_single_device(SimpleNamespace(n_gpu=1))
    check_single_device(SimpleNamespace(n_gpu=0))
    with pytest.raises(ConfigError, match="2 GPUs are visible"):
        check_single_device(SimpleNamespace(n_gpu=2))
