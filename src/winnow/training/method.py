"""Interface of a training method: the trained models, the loss of a batch, and the evaluation.

The training loop and the methods share these terms: a group is a question with its retrieved
contexts, and a chunk is a set of rows of a batch that run through the models together. The values
of a batch are a tensor (rows, columns) that the method computes chunk by chunk, such as
log-likelihoods. The loss is a function of the values of the whole batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from winnow.training.chunks import Chunk
from winnow.training.groups import Group

if TYPE_CHECKING:
    import torch

    from winnow.modeling.loading import LanguageModel
    from winnow.modeling.pair_model import PairModel

Batch = TypeVar("Batch")


class Method(ABC, Generic[Batch]):
    """Base class of training methods.

    `Batch` is the type that `prepare` returns. By default, it is the sequence of groups.

    A reinforcement learning method draws answers (rollouts) from its model and scores them in
    `prepare`, without gradients. It stores their log-probabilities in the batch, on which the loop
    takes `updates` optimizer steps. State that changes during training must be returned by
    `state_dict`, so that checkpoints contain it.
    """

    updates: int = 1
    """Number of optimizer steps on each prepared batch."""

    criterion: str = "em"
    """Metric of `evaluate` whose highest mean on the development questions selects the epoch."""

    @property
    @abstractmethod
    def components(self) -> Mapping[str, PairModel]:
        """Return trained models with tokenizers, by the name of the folder where each is saved."""

    @property
    def models(self) -> Mapping[str, LanguageModel]:
        """Return the language models of `components`, by the same names."""
        return {name: component.lm for name, component in self.components.items()}

    @property
    def heads(self) -> Mapping[str, torch.nn.Module]:
        """Return trained modules that are part of no language model, such as a value head, by name.

        Checkpoints contain them, and the saved models do not.
        """
        return {}

    def save_model(self, name: str, folder: Path) -> None:
        """Save the language model of this name with its tokenizer to a folder."""
        lm = self.models[name]
        lm.model.save_pretrained(folder)
        lm.tokenizer.save_pretrained(folder)

    @property
    def truncated(self) -> int:
        """Return the number of question-passage pairs truncated to a maximum length so far."""
        return sum(component.truncated for component in self.components.values())

    @property
    def truncated_answers(self) -> int:
        """Return the number of distinct answers truncated to the maximum answer length so far."""
        return sum(component.truncated_answers for component in self.components.values())

    def prepare(self, groups: Sequence[Group], seed: int, epoch: int) -> Batch:  # noqa: ARG002 (subclasses use seed and epoch)
        """Prepare a batch of questions.

        The loop calls this once before the updates on the batch, without gradients or dropout.
        """
        batch: Any = groups
        return batch  # type: ignore[no-any-return]  # the default Batch is Sequence[Group]

    @abstractmethod
    def chunks(self, batch: Batch, seed: int, epoch: int, max_tokens: int) -> list[Chunk]:
        """Divide a batch into chunks.

        Args:
            batch: Batch that `prepare` returned.
            seed: Seed of the choice of target answers.
            epoch: Epoch, which also seeds this choice.
            max_tokens: Maximum number of tokens in a chunk, including padding. A longer row forms a
                chunk of its own.
        """

    @abstractmethod
    def loss(self, values: torch.Tensor, batch: Batch) -> Mapping[str, torch.Tensor]:
        """Compute the loss of a batch from its values (rows, columns).

        Returns:
            The loss under the name "loss", and any terms to be logged under names of their own.
        """

    def should_stop(self, terms: Mapping[str, float]) -> bool:  # noqa: ARG002 (subclasses use the terms)
        """Return whether to skip the remaining updates on a batch, given the last loss terms."""
        return False

    @abstractmethod
    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Compute the metrics of each question, such as "em" (exact match).

        The loop keeps the models of the epoch with the highest mean of `criterion`, and of several
        equal ones the latest.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint besides models and optimizer: plain values and tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned when the checkpoint was saved."""
