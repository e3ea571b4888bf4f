"""A checkpoint is whole at any moment, brings back everything, and knows the run that it is of."""

from pathlib import Path

import pytest
import torch
from accelerate import PartialState

from winnow.errors import ConfigError
from winnow.training.checkpoints import Checkpoint

RUN = {"method": "Tiny", "seed": 13}


def tiny(folder: Path) -> Checkpoint:
    """Return a checkpoint of one linear layer, its weights drawn anew."""
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (step + 1))
    return Checkpoint(folder, {"layer": layer}, optimizer, scheduler, PartialState(cpu=True))


def step(checkpoint: Checkpoint) -> torch.Tensor:
    """Move the weights on random inputs and return them."""
    layer = checkpoint.modules["layer"]
    layer(torch.randn(4, 3)).sum().backward()
    checkpoint.optimizer.step()
    checkpoint.scheduler.step()
    checkpoint.optimizer.zero_grad()
    return torch.cat([p.detach().flatten().clone() for p in layer.parameters()])


def test_weights_optimizer_rate_and_random_numbers_come_back(tmp_path: Path) -> None:
    """The step after a checkpoint is bit-equal whether the run went on or another process loaded it."""
    ours = tiny(tmp_path / "at")
    step(ours)
    ours.save(RUN, {"step": 1})
    on = step(ours)
    other = tiny(tmp_path / "at")
    assert other.load(RUN) == {"step": 1}
    assert torch.equal(step(other), on)
    assert other.scheduler.get_last_lr() == ours.scheduler.get_last_lr() == [pytest.approx(0.1 / 3)]


def test_a_kill_between_the_renames_or_while_writing_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    """With the new one not yet in its place the older is taken; what is half written is not looked at."""
    ours = tiny(tmp_path / "at")
    ours.save(RUN, {"step": 5})
    (tmp_path / "at").rename(tmp_path / "at.old")
    (tmp_path / "at.made").mkdir()
    (tmp_path / "at.made" / "state.pt").write_bytes(b"half")
    assert tiny(tmp_path / "at").load(RUN) == {"step": 5}
    ours.save(RUN, {"step": 6})
    assert [p.name for p in tmp_path.iterdir()] == ["at"]
    ours.remove()
    assert tiny(tmp_path / "at").load(RUN) == {}


def test_another_runs_checkpoint_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    """Each difference is named with both values, a setting that only one of them has too."""
    ours = tiny(tmp_path / "at")
    ours.save(RUN, {"step": 1})
    other = tiny(tmp_path / "at")
    before = other.modules["layer"].weight.detach().clone()
    with pytest.raises(ConfigError, match=r"seed: 13 there, 14 now; warm: None there, 2 now"):
        other.load({**RUN, "seed": 14, "warm": 2})
    assert torch.equal(other.modules["layer"].weight, before)
