"""PPO: a tiny model learns what is rewarded, goes on after a kill as if nothing had happened, and
stops where it should.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from winnow.errors import ConfigError, DiskFullError, WinnowError
from winnow.metrics.base import MeanMetric, Sample
from winnow.metrics.citation import Citation
from winnow.modeling.loading import load_causal_lm
from winnow.records import Decoding
from winnow.strategies.cite import Cite
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question
from winnow.training.backward import _restore_batch_order
from winnow.training.groups import Group
from winnow.training.loop import fit
from winnow.training.policy_gradient import KlPenalty
from winnow.training.ppo import Ppo, Rollouts
from winnow.training.rollouts import RewardedTask, encode_prompts, generate_replies
from winnow.training.settings import LoopSettings

PROMPT = Prompt(
    with_contexts="{contexts} {question}", without_contexts="{question}",
    with_candidates="{contexts} {candidates} {question}", passage="[{number}] {text}",
)  # fmt: skip
SETTINGS = LoopSettings(
    epochs=1, learning_rate=0.005, weight_decay=0.0, batch_questions=16, accumulation=1,
    dropout=0.0, precision="float32", device="cpu", save_steps=1, logging_steps=1,
)  # fmt: skip


@dataclass(frozen=True)
class Emits(MeanMetric):
    """The share of a reply's words that are the wanted one."""

    word: str = "river"

    def score(self, sample: Sample) -> float:
        """Return the share."""
        words = sample.prediction.reply.split()
        return sum(word == self.word for word in words) / max(1, len(words))


@dataclass(frozen=True)
class Broken(MeanMetric):
    """A reward that is not a number for one question."""

    def score(self, sample: Sample) -> float:
        """Return NaN or 0."""
        return float("nan") if sample.question.question_id == "q3" else 0.0


def make_group(number: int) -> Group:
    contexts = (make_context(1, "the river", has_answer=True), make_context(2, "the town"))
    return Group(make_question("who wrote emma", question_id=f"q{number}"), contexts)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose tokens are a few words, so that each is drawn often."""
    folder = tmp_path_factory.mktemp("lm")
    words = [
        "<pad>",
        "</s>",
        "<unk>",
        "the",
        "river",
        "town",
        "who",
        "wrote",
        "emma",
        "[",
        "]",
        "1",
        "2",
    ]
    backend = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1,
        eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.lm_head.weight.data *= (
        10  # adapters leave the output layer as it is, and a random one hardly prefers any token
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def make_ppo(base: str, reward: MeanMetric | None = None, **settings: object) -> Ppo:
    decoding = Decoding(max_new_tokens=4, temperature=1.0)
    task = RewardedTask(
        Cite(PROMPT, decoding),
        reward or Emits("emits", "emits"),
        (Citation("valid", "v", of="valid"),),
    )
    options = {"lora_rank": 4, "passes": 2, "kl": KlPenalty(0.0), "device": "cpu", **settings}
    return Ppo(base, task, decoding, **options)  # type: ignore[arg-type]


GROUPS = [make_group(n) for n in range(16)]


def train(method: Ppo, folder: Path, steps: int, **settings: object) -> list[dict[str, float]]:
    """Train on as many batches as asked for, and return what was logged."""
    logged: list[Mapping[str, float]] = []
    torch.manual_seed(0)
    groups = [make_group(n) for n in range(16 * steps)]
    fit(
        method,
        groups,
        GROUPS[:4],
        replace(SETTINGS, **settings),
        folder,
        lambda values, _: logged.append(values),
    )
    return [dict(values) for values in logged]


def test_a_tiny_model_learns_to_emit_a_token(base: str, tmp_path: Path) -> None:
    """The mean reward reaches 90 % of the optimum, the penalty is measured, and the saved model has
    learnt it.
    """
    logged = train(make_ppo(base, passes=4), tmp_path / "out", 40)
    rewards = [row["reward"] for row in logged if "reward" in row]
    assert rewards[0] < 0.3
    assert sum(rewards[-3:]) / 3 > 0.9
    assert {
        "kl",
        "kl_weight",
        "entropy",
        "value_loss",
        "policy_loss",
        "clipped",
        "update_kl",
        "reply_tokens",
        "valid",
    } <= set(logged[0])
    assert logged[-1]["dev_reward"] > 0.9
    assert [folder.name for folder in tmp_path.iterdir()] == ["out"]
    lm = load_causal_lm(str(tmp_path / "out/reader"), "float32", "cpu")
    prompts = encode_prompts(lm, [make_ppo(base).task.build_request(GROUPS[0])])
    (reply,) = generate_replies(lm, prompts, 4, 0.0)
    assert "river river" in lm.tokenizer.decode(reply)
    assert "value_head" not in "".join(load_file(tmp_path / "out/reader/model.safetensors"))


def test_the_penalty_keeps_the_reader_where_it_was(base: str, tmp_path: Path) -> None:
    """With a heavy penalty on the divergence, the same training moves less."""
    free, held = (
        train(make_ppo(base, kl=KlPenalty(weight)), tmp_path / str(weight), 8)[-2]
        for weight in (0.0, 3.0)
    )
    assert held["kl"] < free["kl"] / 3


def test_old_log_probabilities_are_those_of_the_trained_model(base: str) -> None:
    """The first update has ratios of 1, the reference is the reader without adapters, and its
    divergence is 0 at first.
    """
    method = make_ppo(base, minibatches=2)
    for module in [method.policy.model, method.value_head]:
        module.eval()
    with torch.no_grad():
        batch = method.prepare(GROUPS, 0, 0)
    assert batch.report["kl"] == pytest.approx(0.0, abs=1e-5)
    seen: list[int] = []
    for _ in range(2):
        chunk, *_ = method.chunks(batch, 0, 0, 100_000)
        terms = method.loss(_restore_batch_order([chunk], [chunk.run()]), batch)
        assert terms["clipped"].item() == 0.0
        assert terms["update_kl"].item() == pytest.approx(0.0, abs=1e-6)
        seen += batch.rows
    assert sorted(seen) == list(range(16))
    assert batch.mask.sum(dim=1).max() <= 4


def test_rewards_come_with_the_last_token(base: str) -> None:
    """Without a penalty, discount or values, the return of every token is the reward."""
    method = make_ppo(base, trace=1.0)
    with torch.no_grad():
        batch = method.prepare(GROUPS, 0, 0)
    for row, group in enumerate(GROUPS):
        (reply,) = [sequence[-int(batch.mask[row].sum()) :] for sequence in [batch.sequences[row]]]
        reward = method.task.score(group, method._decode(reply))["reward"]
        torch.testing.assert_close(
            batch.returns[row][batch.mask[row]], torch.full((len(reply),), reward)
        )


def test_the_penalty_adapts_to_the_replies_of_all_processes(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean divergence is over them, and so is their number."""
    others = (100.0, 3 * len(GROUPS))
    monkeypatch.setattr("accelerate.utils.gather_object", lambda parts: [*parts, others])
    method = make_ppo(base, kl=KlPenalty(0.1, target=100 / (4 * len(GROUPS)) / 1.1, horizon=1000))
    with torch.no_grad():
        method.prepare(GROUPS, 0, 0)  # diverges by 0 nats itself, the others by 100 together
    assert method.kl.weight == pytest.approx(0.1 * (1 + 0.1 * 4 * len(GROUPS) / 1000), rel=1e-4)


def test_a_run_that_was_killed_goes_on(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill in the third batch, the resumed run has the same weights and penalty as one
    without.
    """
    kl = KlPenalty(0.1, target=0.5, horizon=50)
    whole = make_ppo(base, kl=replace(kl))
    train(whole, tmp_path / "whole", 4)
    batches: list[int] = []
    prepare = Ppo.prepare

    def fail(method: Ppo, groups: Sequence[Group], seed: int, epoch: int) -> Rollouts:
        batches.append(len(groups))
        if len(batches) == 3:
            raise KeyboardInterrupt
        return prepare(method, groups, seed, epoch)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Ppo, "prepare", fail)
        train(make_ppo(base, kl=replace(kl)), tmp_path / "cut", 4)
    resumed = make_ppo(base, kl=replace(kl))
    assert len(train(resumed, tmp_path / "cut", 4)) == 3
    assert resumed.kl.weight == whole.kl.weight != 0.1
    weights, expected = (
        load_file(tmp_path / name / "reader/model.safetensors") for name in ("cut", "whole")
    )
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_two_processes_take_the_same_updates(base: str, tmp_path: Path) -> None:
    """Torchrun with two, of which each has its own replies: they stop together, and there is one
    reader.
    """
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom tests.training.test_ppo import make_ppo, "
        "train\nsettings = {'accumulation': 2, 'batch_questions': 4, 'save_steps': "
        "4}\ntrain(make_ppo(sys.argv[1], passes=3, max_divergence=1e-3), Path(sys.argv[2]), 1, "
        "**settings)\n"
    )
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node=2",
        script,
        base,
        tmp_path / "out",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "OMP_NUM_THREADS": "1",
    }
    environment["CUDA_VISIBLE_DEVICES"] = ""  # on GPUs, each process needs one of its own
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads((tmp_path / "out/training.json").read_text())
    assert report["steps"] == 6  # sixteen questions, eight a step, three passes
    assert (tmp_path / "out/reader/model.safetensors").is_file()


def test_a_large_step_ends_the_updates_on_a_batch(base: str, tmp_path: Path) -> None:
    """Above the limit, the remaining passes are left out; steps are counted as if they had run."""
    free = train(make_ppo(base, passes=6), tmp_path / "free", 2, learning_rate=0.05)
    held = train(
        make_ppo(base, passes=6, max_divergence=1e-9), tmp_path / "held", 2, learning_rate=0.05
    )
    assert held[0]["update_kl"] < free[0]["update_kl"]


def test_a_reward_that_is_not_a_number_names_the_question(base: str, tmp_path: Path) -> None:
    """Nothing is saved as a result."""
    with pytest.raises(WinnowError, match="'q3' is nan"):
        train(make_ppo(base, Broken("broken", "broken")), tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()


def test_questions_without_a_relevant_passage_have_no_reward(base: str) -> None:
    """Flows leave them out; a score of such a reply is refused instead of being 0."""
    task = replace(make_ppo(base).task, reward=Citation("reward", "r", of="reward"))
    bare = Group(make_question(), (make_context(1, "the town"),))
    assert [task.has_reward(group) for group in (GROUPS[0], bare)] == [True, False]
    with pytest.raises(WinnowError, match="is None"):
        task.score(bare, "[1]")
    assert task.score(GROUPS[0], "emma [1].") == {"reward": 1.0, "valid": 1.0}
    assert task.score(GROUPS[0], "emma [1][7]")["valid"] == 0.0


def test_settings_out_of_range(base: str) -> None:
    """Each is refused with what was received."""
    for wrong in (
        {"lora_rank": 0},
        {"passes": 0},
        {"clip": 0.0},
        {"discount": 1.5},
        {"trace": -0.1},
    ):
        with pytest.raises(ConfigError):
            make_ppo(base, **wrong)
    with pytest.raises(ConfigError, match="temperature"):
        Ppo(base, make_ppo(base).task, Decoding())


def test_a_batch_of_fewer_questions_than_mini_batches_is_trained_on(
    base: str, tmp_path: Path
) -> None:
    """Such as the last one of an epoch."""
    learner, settings = make_ppo(base, minibatches=4), replace(SETTINGS, batch_questions=4)
    report = fit(learner, GROUPS[:5], GROUPS[:4], settings, tmp_path / "out", lambda *_: None)
    assert report.steps > 4


def test_the_space_of_frozen_weights_is_asked_for(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole reader is saved, twice while a better one replaces it."""
    asked: list[int] = []

    def ask(_: Path, num_bytes: int) -> None:
        asked.append(num_bytes)
        raise DiskFullError("full")

    monkeypatch.setattr("winnow.training.loop.check_free_space", ask)
    method = make_ppo(base)
    with pytest.raises(DiskFullError):
        fit(method, GROUPS, GROUPS, SETTINGS, tmp_path / "out", lambda *_: None)
    parameters = list(method.policy.model.parameters())
    frozen = sum(one.numel() for one in parameters if not one.requires_grad)
    assert frozen > 0
    assert asked[0] >= 4 * frozen
