"""Numbers of optimizer steps, and dropout."""

import pytest
import torch

from winnow.training.progress import count_optimizer_steps, set_dropout
from winnow.training.settings import LoopSettings


@pytest.mark.parametrize(
    ("questions", "updates", "steps"), [(8, 1, 4), (9, 1, 6), (1, 1, 2), (9, 3, 18)]
)
def test_steps_are_counted_over_epochs_batches_and_updates(
    questions: int, updates: int, steps: int
) -> None:
    """Two epochs of batches of two, two of which are a step: the last step of an epoch may be
    smaller.
    """
    settings = LoopSettings(epochs=2, learning_rate=1e-3, batch_questions=2, accumulation=2)
    assert count_optimizer_steps(questions, settings, updates) == steps


def test_dropout_is_set_in_layers_and_where_a_number_is_its_setting() -> None:
    """Also in attention, which has no layer for it, and behind activations, as in BART."""
    model = torch.nn.Sequential(torch.nn.Dropout(0.1), torch.nn.Linear(1, 1))
    model[1].attention_dropout = 0.1  # type: ignore[assignment]
    model[1].activation_dropout = 0.1  # type: ignore[assignment]
    set_dropout(model, 0.3)
    own = model[1].attention_dropout, model[1].activation_dropout
    assert (model[0].p, *own) == (0.3, 0.3, 0.3)
