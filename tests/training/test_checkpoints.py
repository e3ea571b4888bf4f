"""A checkpoint is whole at any moment, brings back everything, and knows the run that it is of."""

from pathlib import Path

import pytest
import torch
from accelerate import PartialState

from winnow.errors import ConfigError
from winnow.training.checkpoints import Checkpoint

RUN = {"method": "Tiny", "seed": 13}


class Stateful:
    """A method with state."""

    weight = 1.0

    def state_dict(self) -> dict[str, float]:
        """Return it."""
        return {"weight": self.weight}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Take it."""
        self.weight = state["weight"]


def tiny(folder: Path) -> Checkpoint:
    """Return a checkpoint of one linear layer, its weights drawn at random."""
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (step + 1))
    return Checkpoint(
        folder, {"layer": layer}, optimizer, scheduler, PartialState(cpu=True), Stateful()
    )  # type: ignore[arg-type]


def step(checkpoint: Checkpoint) -> torch.Tensor:
    """Move the weights on random inputs and return them."""
    layer = checkpoint.modules["layer"]
    layer(torch.randn(4, 3)).sum().backward()
    checkpoint.optimizer.step()
    checkpoint.scheduler.step()
    checkpoint.optimizer.zero_grad()
    return torch.cat([p.detach().flatten().clone() for p in layer.parameters()])


def test_weights_optimizer_rate_and_random_numbers_come_back(tmp_path: Path) -> None:
    """The step after a checkpoint is bit-equal whether the run went on or another process loaded
    it.
    """
    ours = tiny(tmp_path / "at")
    step(ours)
    ours.method.weight = 0.25  # type: ignore[attr-defined]
    ours.save(RUN, {"step": 1})
    on = step(ours)
    other = tiny(tmp_path / "at")
    assert other.load(RUN) == {"step": 1}
    assert other.method.weight == 0.25  # type: ignore[attr-defined]
    assert torch.equal(step(other), on)
    assert other.scheduler.get_last_lr() == ours.scheduler.get_last_lr() == [pytest.approx(0.1 / 3)]


@pytest.mark.parametrize("at", ["torch.save", "first rename", "second rename"])
def test_a_kill_at_any_moment_of_saving_leaves_a_checkpoint(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the new one is written, before the last one makes room, and before the new one takes
    its place.
    """
    ours = tiny(tmp_path / "at")
    ours.save(RUN, {"step": 5})
    calls = iter(range(9))
    rename, due = Path.rename, {"first rename": 0, "second rename": 1}.get(at)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def renamed(path: Path, target: Path) -> Path:
        return killed() or path if next(calls) == due else rename(path, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", renamed)
        if due is None:
            patch.setattr(torch, "save", killed)
        ours.save(RUN, {"step": 6})
    assert tiny(tmp_path / "at").load(RUN) == {"step": 5}
    ours.save(RUN, {"step": 7})
    assert [p.name for p in tmp_path.iterdir()] == ["at"]
    assert tiny(tmp_path / "at").load(RUN) == {"step": 7}


def test_what_is_removed_is_gone(tmp_path: Path) -> None:
    """The older one too, or the next run would go on from it."""
    ours = tiny(tmp_path / "at")
    ours.save(RUN, {"step": 5})
    (tmp_path / "at").rename(tmp_path / "at.old")
    ours.remove()
    assert tiny(tmp_path / "at").load(RUN) == {}


def test_another_runs_checkpoint_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    """Each difference is named with both values, a setting that only one of them has too."""
    ours = tiny(tmp_path / "at")
    ours.save(RUN, {"step": 1})
    other = tiny(tmp_path / "at")
    before = other.modules["layer"].weight.detach().clone()
    with pytest.raises(
        ConfigError,
        match=r"seed: 13 in the checkpoint, 14 now; warm: None in the checkpoint, 2 now",
    ):
        other.load({**RUN, "seed": 14, "warm": 2})
    assert torch.equal(other.modules["layer"].weight, before)
