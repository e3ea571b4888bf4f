"""A small world of facts and a T5 that knows its words, shared by the tests of the
joint methods.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from winnow.synthetic.facts import Facts, FactsSettings
from winnow.synthetic.scratch_t5 import ScratchT5, make_t5
from winnow.training.groups import Group


@dataclass(frozen=True)
class SmallWorld:
    """Where the model is, and the questions of each split."""

    base: str
    train: Sequence[Group]
    dev: Sequence[Group]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallWorld:
    """Twelve training and six development questions with four contexts each."""
    world = Facts(
        FactsSettings(
            train=12, dev=6, test=6, contexts=4, values=4, first_names=8, last_names=8, seed=3
        )
    )
    folder = tmp_path_factory.mktemp("small")
    base = make_t5(
        folder / "t5",
        world.list_vocabulary_texts(),
        ScratchT5(d_model=32, d_ff=64, layers=1, heads=2, dropout=0.1),
        seed=3,
    )
    train, dev = (
        [Group(c.question, c.contexts) for c in world.generate_cases(name)]
        for name in ("train", "dev")
    )
    return SmallWorld(str(base), train, dev)
