"""What a training method defines: its models, the values of a batch, their loss, and how good the models are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from winnow.training.chunks import Chunk
from winnow.training.groups import Group

if TYPE_CHECKING:
    import torch

    from winnow.modeling.loading import LanguageModel
    from winnow.modeling.pair_model import PairModel

Batch = TypeVar("Batch")


class Method(ABC, Generic[Batch]):
    """A training method. `Batch` is what `prepare` makes of a batch of questions, by default the questions themselves.

    A method with rollouts samples and scores in `prepare`, without gradients, keeps the log-probabilities of its samples
    in the batch, and takes `updates` optimizer steps on it; what it adapts on the way goes into `state_dict`.
    """

    updates: int = 1
    """Optimizer steps per prepared batch."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, PairModel]:
        """Return what is trained, by the name of its folder."""

    @property
    def models(self) -> Mapping[str, LanguageModel]:
        """Return the trained models by the name of their folder."""
        return {name: part.lm for name, part in self.parts.items()}

    @property
    def truncated(self) -> int:
        """Return how many pairs were cut to a model's context length so far."""
        return sum(part.truncated for part in self.parts.values())

    def prepare(self, groups: Sequence[Group], seed: int, epoch: int) -> Batch:  # noqa: ARG002 (methods with rollouts use them)
        """Return the batch of some questions; runs once before its updates, without gradients or dropout."""
        batch: Any = groups
        return batch  # type: ignore[no-any-return]  # the default Batch is Sequence[Group]

    @abstractmethod
    def chunks(self, batch: Batch, seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Divide a batch into chunks of at most `budget` padded tokens."""

    @abstractmethod
    def loss(self, values: torch.Tensor, batch: Batch) -> Mapping[str, torch.Tensor]:
        """Return the loss under "loss", and its terms, of a batch's (rows, columns)."""

    @abstractmethod
    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Return one row of metrics per question; "em" chooses the best checkpoint, the later of equal ones."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps beside models and optimizer: plain values and tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of a checkpoint."""
