"""The shared loop: it learns, goes on bit-equal after a kill, keeps the best epoch, and stops where
it should.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file

from tests.training.methods import METHODS, SETTINGS, rag, re_rag, silent
from winnow.errors import ConfigError, WinnowError
from winnow.modeling.pair_model import PairModel
from winnow.training.chunks import Chunk
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.groups import Group
from winnow.training.loop import Method, fit
from winnow.training.rag import Rag
from winnow.training.settings import LoopSettings

if TYPE_CHECKING:
    from conftest import SmallWorld


def test_logged_terms_are_means_over_all_processes(
    small: SmallWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of which knows those of its own questions."""
    logged: list[Mapping[str, float]] = []

    def gather(parts: list[object]) -> list[object]:
        terms = parts[0]
        return [*parts, dict.fromkeys(terms, 7.0)] if isinstance(terms, dict) else parts

    settings = replace(SETTINGS, epochs=1)
    for name in ("one", "two"):
        if name == "two":
            monkeypatch.setattr("winnow.training.loop.gather_object", gather)
        fit(
            rag(small.base),
            small.train,
            small.dev,
            settings,
            tmp_path / name,
            lambda m, _: logged.append(m),
        )
    own, shared = (part["loss"] for part in (logged[0], logged[len(logged) // 2]))
    assert shared == pytest.approx((own + 7.0) / 2)


@METHODS
@pytest.mark.parametrize("top", [0, -1])
def test_at_least_one_context_is_read_in_evaluation(
    make: Callable[..., Method[Any]], top: int, small: SmallWorld
) -> None:
    """Before anything is trained."""
    with pytest.raises(ConfigError, match=f"top must be .*; received {top}"):
        replace(make(small.base), top=top)  # type: ignore[type-var]


@METHODS
def test_a_run_saves_its_best_epoch_and_reports_once(
    make: Callable[[str], Method], small: SmallWorld, tmp_path: Path
) -> None:
    """Loss and speed are logged; folders load; checkpoints are gone; a second call gives the report
    again.
    """
    logged: list[Mapping[str, float]] = []
    report = fit(
        make(small.base),
        small.train,
        small.dev,
        SETTINGS,
        tmp_path / "out",
        lambda m, _: logged.append(m),
    )
    assert report.steps == 6
    assert {"loss", "grad_norm", "learning_rate", "tokens_per_second", "memory_gb"} <= logged[
        0
    ].keys()
    assert [row["epoch"] for row in report.history] == [1, 2]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    folders = sorted(p.name for p in (tmp_path / "out").iterdir() if p.is_dir())
    assert folders == sorted(make(small.base).models)
    again = fit(make(small.base), small.train, small.dev, SETTINGS, tmp_path / "out", silent)
    assert again.seconds == report.seconds
    with_other = Seq2SeqGenerator(str(tmp_path / "out/generator"), max_answer=4)
    assert (
        len(with_other.generate([with_other.tokens.encode("a", small.dev[0].contexts[0].passage)]))
        == 1
    )


class Exploding(Rag):
    """Gives a loss that is not finite on the third question."""

    def loss(self, values: torch.Tensor, groups: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Return the loss, or NaN."""
        bad = any(g.question.question_id == "train-2" for g in groups)
        return {"loss": values.sum() * (float("nan") if bad else 1.0)}


def test_a_loss_that_is_not_finite_or_explodes_names_the_questions(
    small: SmallWorld, tmp_path: Path
) -> None:
    """Nothing is saved as a result."""
    method = Exploding(Seq2SeqGenerator(small.base, max_answer=4, device="cpu"))
    with pytest.raises(
        WinnowError,
        match=r"loss became nan on the questions \[.*'train-2'.*\]\. Lower the learning rate",
    ):
        fit(method, small.train, [], SETTINGS, tmp_path / "out", silent)
    with pytest.raises(WinnowError, match="training loss became"):
        fit(
            rag(small.base),
            small.train,
            [],
            replace(SETTINGS, max_loss=0.001),
            tmp_path / "other",
            silent,
        )
    assert not (tmp_path / "out").exists()


def stopped_at(step: int) -> Callable[[Mapping[str, float], int], None]:
    """A log that raises after a step, as a kill would."""

    def log(metrics: Mapping[str, float], now: int) -> None:
        if now >= step:
            raise KeyboardInterrupt

    return log


def test_a_checkpoint_of_another_run_is_refused(small: SmallWorld, tmp_path: Path) -> None:
    """Another learning rate, another method: the differences are listed, nothing is loaded."""
    with pytest.raises(KeyboardInterrupt):
        fit(rag(small.base), small.train, [], SETTINGS, tmp_path / "out", stopped_at(3))
    with pytest.raises(
        ConfigError,
        match=r"belongs to another run \(learning_rate: 0\.001 in the checkpoint, 0\.01 now\)",
    ):
        fit(
            rag(small.base),
            small.train,
            [],
            replace(SETTINGS, learning_rate=0.01),
            tmp_path / "out",
            silent,
        )
    with pytest.raises(
        ConfigError,
        match=r"estimator\.class: None in the checkpoint, 'T5ForConditionalGeneration' now",
    ):
        fit(re_rag(small.base), small.train, [], SETTINGS, tmp_path / "out", silent)
    assert (
        fit(
            rag(small.base),
            small.train,
            [],
            replace(SETTINGS, gradient_caching=True),
            tmp_path / "out",
            silent,
        ).steps
        == 6
    )


def train(
    base: str, out: Path, groups: Sequence[Group], dev: Sequence[Group], kill_at: int | None
) -> None:
    """Train in this process, killing it with SIGKILL after a step; called in a child."""

    def log(metrics: Mapping[str, float], step: int) -> None:
        if kill_at is not None and step >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    fit(re_rag(base, objective="marginal"), groups, dev, replace(SETTINGS, epochs=3), out, log)


CHILD = """
import sys
sys.path[:0] = {path!r}
from test_loop import *
from winnow.synthetic.facts import Facts, FactsSettings
settings = FactsSettings(
    train=12, dev=6, test=6, contexts=4, values=4, first_names=8, last_names=8, seed=3
)
groups, dev = (
    [Group(case.question, case.contexts) for case in Facts(settings).generate_cases(name)]
    for name in ("train", "dev")
)
train({base!r}, Path({out!r}), groups, dev, {kill})
"""


def child(base: str, out: Path, kill: int | None, *before: str) -> int:
    """Run the training in a process of its own."""
    code = CHILD.format(
        path=[str(Path(__file__).parent), *sys.path], base=base, out=str(out), kill=kill
    )
    script = out.parent / "child.py"
    script.write_text(code)
    command = [sys.executable, *before, str(script)]
    return subprocess.run(
        command,
        capture_output=True,
        check=False,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).returncode


@pytest.mark.slow
def test_killed_and_resumed_ends_with_the_same_weights(small: SmallWorld, tmp_path: Path) -> None:
    """SIGKILL after step 5 of 9, then the same call again: both models bit-equal to an undisturbed
    run's.
    """
    assert child(small.base, tmp_path / "whole", None) == 0
    assert child(small.base, tmp_path / "broken", 5) == -signal.SIGKILL
    assert (tmp_path / "broken.checkpoint").is_dir()
    assert child(small.base, tmp_path / "broken", None) == 0
    for name in ("estimator", "generator"):
        whole, broken = (
            load_file(tmp_path / run / name / "model.safetensors") for run in ("whole", "broken")
        )
        assert all(torch.equal(whole[k], broken[k]) for k in whole)


@pytest.mark.slow
def test_two_processes_share_the_questions(small: SmallWorld, tmp_path: Path) -> None:
    """Torchrun with two: as many steps as with one, over the same questions; one result."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    assert child(small.base, tmp_path / "two", None, *launcher) == 0
    report = json.loads((tmp_path / "two/training.json").read_text())
    assert (
        report["steps"] == 9
    )  # three epochs of twelve questions, two a batch, a batch a process and step
    assert sorted(p.name for p in (tmp_path / "two").iterdir() if p.is_dir()) == [
        "estimator",
        "generator",
    ]


class Constant(Method):
    """One number a question, to see what the loop hands over."""

    def __init__(self, base: str) -> None:
        self.generator = Seq2SeqGenerator(base, max_answer=4, device="cpu")
        self.seen: list[list[str]] = []

    @property
    def components(self) -> Mapping[str, PairModel]:
        """Return the model."""
        return {"generator": self.generator}

    def chunks(self, groups: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Note the questions."""
        self.seen.append([g.question.question_id for g in groups])
        weight = next(iter(self.generator.lm.model.parameters()))
        return [Chunk(range(len(groups)), lambda: weight.sum().expand(len(groups), 1), 7)]

    def loss(self, values: torch.Tensor, groups: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Return nothing to learn."""
        return {"loss": values.mean() * 0}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Return a measure that falls."""
        return [{"em": 1.0 / len(self.seen)} for _ in groups]


def test_every_question_once_an_epoch_and_the_best_epoch_is_kept(
    small: SmallWorld, tmp_path: Path
) -> None:
    """Six batches of two in another order each epoch; exact match falls, so the first epoch is the
    best.
    """
    method = Constant(small.base)
    told: list[tuple[int, str]] = []
    report = fit(
        method,
        small.train,
        small.dev,
        SETTINGS,
        tmp_path / "out",
        silent,
        lambda steps, text: told.append((steps, text)),  # type: ignore[arg-type]
    )
    assert len(method.seen) == 12
    first, second = (
        sorted(n for batch in part for n in batch) for part in (method.seen[:6], method.seen[6:])
    )
    assert first == second == sorted(g.question.question_id for g in small.train)
    assert method.seen[:6] != method.seen[6:]
    assert sum(steps for steps, _ in told) == report.steps
    within = {text for steps, text in told if not steps}  # a step may take minutes
    assert {"1 of 2 batches of the step prepared", "update 1 of 1 on the step's batches"} <= within
    assert (report.best_epoch, report.history[0]["em"] > report.history[1]["em"]) == (1, True)


class Undefined(Constant):
    """A measure that is not a number from the second epoch on."""

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Return 1, then nan."""
        return [{"em": 1.0 if len(self.seen) <= 6 else float("nan")} for _ in groups]


def test_a_criterion_that_is_not_a_number_ends_the_training(
    small: SmallWorld, tmp_path: Path
) -> None:
    """It is named with its epoch, and the former epoch's models and checkpoint stay."""
    with pytest.raises(WinnowError, match="em of the development questions is nan after epoch 2"):
        fit(Undefined(small.base), small.train, small.dev, SETTINGS, tmp_path / "out", silent)
    assert {path.name for path in tmp_path.iterdir()} == {"out.best", "out.checkpoint"}


def test_settings_are_checked() -> None:
    """Counts and rates; precision."""
    with pytest.raises(ConfigError, match="must be at least 1"):
        LoopSettings(epochs=0)
    with pytest.raises(ConfigError, match="received 'int8'"):
        LoopSettings(precision="int8")
