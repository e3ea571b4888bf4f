"""GRPO and RLOO: TRL's trainers run on our prompts and rewards, and their reader loads."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from tokenizers.processors import TemplateProcessing

from tests.training.test_ppo import GROUPS, PROMPT, SETTINGS, Broken, Emits, base
from winnow.errors import ConfigError, WinnowError
from winnow.metrics.base import Sample
from winnow.modeling.chat import TEMPLATE_DATE, tokenize_chat
from winnow.modeling.loading import load_causal_lm
from winnow.records import Decoding
from winnow.strategies.cite import Cite
from winnow.training import trl_methods
from winnow.training.rollouts import RewardedTask
from winnow.training.trl_methods import Grpo, Rloo, TrlMethod

__all__ = ["DECODING", "GROUPS", "SETTINGS", "TASK", "Grpo", "Path", "Rloo", "base", "replace"]
DECODING = Decoding(max_new_tokens=4, temperature=1.0)
TASK = RewardedTask(Cite(PROMPT, DECODING), Emits("emits", "emits"))


@pytest.mark.parametrize("method", [Grpo, Rloo])
def test_two_updates(method: type[TrlMethod], base: str, tmp_path: Path) -> None:
    """Rewards and losses are logged, the merged reader loads, and a second call gives the report
    again.
    """
    logged: list[Mapping[str, float]] = []
    learner = method(base, TASK, DECODING, lora_rank=4, replies=4, device="cpu")
    settings = replace(SETTINGS, batch_questions=4)
    report = learner.fit(
        GROUPS[:8], settings, tmp_path / "out", lambda values, _: logged.append(values)
    )
    assert report.steps == 2
    assert any("reward" in row for row in logged)
    assert any("loss" in row for row in logged)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert load_causal_lm(str(tmp_path / "out/reader"), "float32", "cpu").model.num_parameters() > 0
    assert json.loads((tmp_path / "out/training.json").read_text())["steps"] == 2
    assert (
        learner.fit(GROUPS[:8], settings, tmp_path / "out", lambda *_: None).seconds
        == report.seconds
    )


def test_a_reward_that_is_not_a_number_names_the_question(base: str, tmp_path: Path) -> None:
    """As for PPO."""
    task = replace(TASK, reward=Broken("broken", "broken"))
    with pytest.raises(WinnowError, match="'q3' is nan"):
        Grpo(base, task, DECODING, lora_rank=4, device="cpu").fit(
            GROUPS[:8], replace(SETTINGS, batch_questions=8), tmp_path / "out", lambda *_: None
        )
    assert not (tmp_path / "out").exists()


def test_settings_out_of_range(base: str) -> None:
    """A single reply has nothing to be compared with."""
    for wrong in ({"replies": 1}, {"lora_rank": 0}, {"kl_weight": -1.0}):
        with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be at least"):
            Grpo(base, TASK, DECODING, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="temperature"):
        Rloo(base, TASK, Decoding())


def test_replies_weigh_equally_as_published(base: str, tmp_path: Path) -> None:
    """By default; TRL's own default weights tokens equally."""
    for settings, expected in (({}, "grpo"), ({"loss": "dapo"}, "dapo")):
        learner = Grpo(base, TASK, DECODING, **settings)  # type: ignore[arg-type]
        assert learner._build_arguments(SETTINGS, tmp_path)["loss_type"] == expected


def test_the_prompt_is_the_readers(base: str) -> None:
    """One token at its beginning, the same date every day, and a reply that the prompt begins."""
    tokenizer = load_causal_lm(base, "float32", "cpu").tokenizer
    tokenizer.bos_token = "<pad>"
    task = replace(TASK, strategy=Cite(replace(PROMPT, reply_start="Answer:"), DECODING))
    expected = tokenize_chat(tokenizer, task.build_request(GROUPS[0]).messages)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{tokenizer.bos_token} $A",
        special_tokens=[(tokenizer.bos_token, int(tokenizer.bos_token_id))],  # type: ignore[list-item]
    )
    text = Grpo(base, task, DECODING, device="cpu")._build_prompt(tokenizer, GROUPS[0])
    assert tokenizer(text)["input_ids"] == expected
    assert text.endswith("Answer:")
    tokenizer.chat_template = "{{ strftime_now('%Y') }}{{ messages[0]['content'] }}"
    text = Grpo(base, TASK, DECODING, device="cpu")._build_prompt(tokenizer, GROUPS[0])
    assert text.startswith(str(TEMPLATE_DATE.year))


def test_adapters_are_drawn_from_the_seed(base: str, tmp_path: Path) -> None:
    """Whatever the process has drawn before."""
    weights = []
    for number in (1, 2):
        torch.manual_seed(number)
        learner = Grpo(base, TASK, DECODING, lora_rank=4, replies=4, device="cpu")
        out = tmp_path / f"{number}"
        learner.fit(GROUPS[:4], replace(SETTINGS, batch_questions=4), out, lambda *_: None)
        weights.append(load_file(out / "reader/model.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_speed_is_of_the_tokens_since_the_last_checkpoint(tmp_path: Path) -> None:
    """Whose number is in its state."""
    (tmp_path / "trainer_state.json").write_text(json.dumps({"num_input_tokens_seen": 1200}))
    assert trl_methods._count_tokens(str(tmp_path)) == 1200.0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["Grpo", "Rloo"])
def test_two_processes_take_the_steps_of_one(method: str, base: str, tmp_path: Path) -> None:
    """A step has as many prompts with torchrun on two as with one process."""
    settings = replace(SETTINGS, batch_questions=4, accumulation=2)
    one = getattr(trl_methods, method)(base, TASK, DECODING, lora_rank=4, replies=4, device="cpu")
    steps = one.fit(GROUPS[:8], settings, tmp_path / "one", lambda *_: None).steps
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom tests.training.test_trl_methods import *\n"
        f"learner = {method}(sys.argv[1], TASK, DECODING, lora_rank=4, replies=4, device='cpu')\n"
        "settings = replace(SETTINGS, batch_questions=4, accumulation=2)\n"
        "learner.fit(GROUPS[:8], settings, Path(sys.argv[2]), lambda *_: None)\n"
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
        [*launcher, tmp_path / "two"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((tmp_path / "two/training.json").read_text())["steps"] == steps


@pytest.mark.parametrize(("number", "steps"), [(3, 1), (7, 2)])
def test_every_question_is_trained_on(base: str, tmp_path: Path, number: int, steps: int) -> None:
    """TRL leaves out an incomplete batch, and cannot train with fewer questions than one."""
    seen: list[str] = []

    class Seeing(Emits):
        def score(self, sample: Sample) -> float:
            """Note the question."""
            seen.append(sample.question.question_id)
            return super().score(sample)

    task = replace(TASK, reward=Seeing("emits", "emits"))
    learner = Grpo(base, task, DECODING, lora_rank=4, replies=2, device="cpu")
    settings = replace(SETTINGS, batch_questions=4, epochs=1)
    report = learner.fit(GROUPS[:number], settings, tmp_path / "out", lambda *_: None)
    assert (report.steps, report.best_epoch) == (steps, 1)
    assert set(seen) == {group.question.question_id for group in GROUPS[:number]}


def test_dropout_is_the_settings(base: str, tmp_path: Path) -> None:
    """It is in the key of the reader, so that it must change the weights."""
    weights = []
    for dropout in (0.0, 0.5):
        learner = Grpo(base, TASK, DECODING, lora_rank=4, replies=4, device="cpu")
        settings = replace(SETTINGS, batch_questions=4, dropout=dropout)
        out = tmp_path / f"{dropout}"
        learner.fit(GROUPS[:4], settings, out, lambda *_: None)
        weights.append(load_file(out / "reader/model.safetensors"))
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_loss_above_the_limit_ends_the_training(base: str, tmp_path: Path) -> None:
    """As in the other loops."""
    learner = Grpo(base, TASK, DECODING, lora_rank=4, replies=4, device="cpu")
    settings = replace(SETTINGS, batch_questions=4, max_loss=1e-12, epochs=2, logging_steps=1)
    with pytest.raises(WinnowError, match=r"settings\.max_loss=1e-12"):
        learner.fit(GROUPS[:8], settings, tmp_path / "out", lambda *_: None)


def test_a_step_has_all_its_accumulated_batches(base: str, tmp_path: Path) -> None:
    """Five questions fill two batches of four."""
    learner = Grpo(base, TASK, DECODING, lora_rank=4, replies=2, device="cpu")
    settings = replace(SETTINGS, batch_questions=2, accumulation=2, epochs=1)
    units: list[int] = []

    class StopError(Exception): ...

    def stop(_self: object, train: list[object]) -> object:
        units.append(len(train))
        raise StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trl_methods.TrlMethod, "_build_reward", stop)
        with pytest.raises(StopError):
            learner.fit(GROUPS[:5], settings, tmp_path / "out", lambda *_: None)
    assert units == [8]


def test_a_checkpoint_is_not_between_two_passes(base: str, tmp_path: Path) -> None:
    """A resumed run would draw other replies."""
    learner = Grpo(base, TASK, DECODING, passes=2)
    for steps, expected in ((1, 2), (2, 2), (3, 4)):
        arguments = learner._build_arguments(replace(SETTINGS, save_steps=steps), tmp_path)
        assert arguments["save_steps"] == expected


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, 1.5])
def test_a_loss_that_is_no_number_or_too_large_ends_the_training(loss: float) -> None:
    """Those of a step, not only of the whole training."""
    logged: list[object] = []
    callback = trl_methods._build_callback(lambda values, _: logged.append(values), 1.0)
    state = SimpleNamespace(is_world_process_zero=True, global_step=3)
    callback.on_log(None, state, None, logs={"loss": 0.5})
    with pytest.raises(WinnowError, match="loss of step 3"):
        callback.on_log(None, state, None, logs={"loss": loss})
    assert logged == [{"loss": 0.5}]
