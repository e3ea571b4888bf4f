"""The labels of a cell."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellLabels:
    """What identifies a cell in tables, plots and MLflow.

    Attributes:
        strategy: its name.
        k: how many contexts a prompt shows, 0 without passages.
        gold: the placement's name.
        setting: what else distinguishes the cell from others, such as "retriever=dense".
        samples: replies per prompt.
        rank_by: what ranks the contexts.
        weight_by: what weights them.
        questions: which questions these are; cells of different ones are never paired, whatever ids they share.

    """

    strategy: str
    k: int
    gold: str
    setting: str = ""
    samples: int = 1
    rank_by: str = "retriever"
    weight_by: str = "none"
    questions: str = ""

    @property
    def line(self) -> str:
        """Return the name of the cell's line in a plot."""
        return f"{self.strategy} ({self.setting})" if self.setting else self.strategy
