"""Interface of training methods: trained models, values of a batch, loss, and evaluation."""

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
    """Base class of training methods. `Batch` is the type that `prepare` returns, by default the questions themselves.

    A method with rollouts draws and scores its samples in `prepare`, without gradients. It stores their log-probabilities in
    the batch and takes `updates` optimizer steps on it. State that changes during training belongs in `state_dict`.
    """

    updates: int = 1
    """Number of optimizer steps on each prepared batch."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, PairModel]:
        """Return the trained components by the name of the folder to which each is saved."""

    @property
    def models(self) -> Mapping[str, LanguageModel]:
        """Return the language models of the trained components, by the same names."""
        return {name: component.lm for name, component in self.parts.items()}

    @property
    def truncated(self) -> int:
        """Return the number of pairs that were cut to a model's context length so far."""
        return sum(component.truncated for component in self.parts.values())

    def prepare(self, groups: Sequence[Group], seed: int, epoch: int) -> Batch:  # noqa: ARG002 (methods with rollouts use them)
        """Prepare a batch of questions. It is called once before the updates, without gradients or dropout."""
        batch: Any = groups
        return batch  # type: ignore[no-any-return]  # the default Batch is Sequence[Group]

    @abstractmethod
    def chunks(self, batch: Batch, seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Divide a batch into chunks of at most `budget` tokens, including padding."""

    @abstractmethod
    def loss(self, values: torch.Tensor, batch: Batch) -> Mapping[str, torch.Tensor]:
        """Compute the loss of a batch from its values (rows, columns); return it as "loss", with its terms."""

    @abstractmethod
    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Compute the metrics of each question. The best epoch has the highest mean "em"; if several tie, it is the latest."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a checkpoint stores besides models and optimizer, as plain values and tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state from a checkpoint."""
