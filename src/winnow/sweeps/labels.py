"""The labels of cells. A cell is a setting of a sweep: a strategy, a placement, and so on."""

from collections.abc import Collection
from dataclasses import dataclass

SAMPLES = "samples"
"""Name of the setting that is the label `samples`."""
_SETTINGS_OF_LABELS = {
    "ranked by": "rank_by",
    "weighted by": "weight_by",
    "context": "context",
    SAMPLES: "samples",
}
"""Settings that follow from a label."""
_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


@dataclass(frozen=True, slots=True)
class CellLabels:
    """Labels that identify a cell in tables, plots and MLflow.

    Attributes:
        strategy: Name of the strategy.
        k: Number of contexts per question; 0 for a strategy without passages.
        gold: Name of the placement.
        setting: Other settings that distinguish the cell, such as "retriever=dense".
        samples: Number of replies per prompt.
        rank_by: Source of the ranking, "retriever" or "estimator".
        weight_by: Source of the context weights, "none", "retriever" or "estimator".
        context: Name of what changes the contexts before they are shown, "none" by default.
        questions: Identifier of the question selection. Cells with different selections are never
            compared, even if they share question ids.
        seed: Training seed, if cells with several seeds are compared; otherwise empty.
        code: Revision of the code and versions of the libraries that computed the cell, if they
            differ between the cells of a table; otherwise empty.
        varying: `setting` as pairs of a name and a value.
        uses_gold: Whether the gold labels decide which contexts the prompts have or in which order,
            as no one can who only has the question.
        moves_gold: Whether the placement moves the gold passage, so that its position says nothing
            of its rank.
        placed: Where the passages of the prompts come from, such as "with the gold passage first";
            empty without any.
    """

    strategy: str
    k: int
    gold: str
    setting: str = ""
    samples: int = 1
    rank_by: str = "retriever"
    weight_by: str = "none"
    context: str = "none"
    questions: str = ""
    seed: str = ""
    code: str = ""
    varying: tuple[tuple[str, str], ...] = ()
    uses_gold: bool = False
    moves_gold: bool = False
    placed: str = ""

    @property
    def line(self) -> str:
        """Return the name of the line to which the cell belongs in a plot."""
        details = [text for text in (self.setting, self.seed and f"seed {self.seed}") if text]
        return f"{self.strategy} ({', '.join(details)})" if details else self.strategy

    @property
    def varies_reader(self) -> bool:
        """Return whether the cells of the report differ in their readers or trainings."""
        return any(name.partition(".")[0] in ("reader", "training") for name, _ in self.varying)

    @property
    def varies_data(self) -> bool:
        """Return whether the cells of the report differ in their data sets or splits."""
        return any(name.partition(".")[0] in ("dataset", "split") for name, _ in self.varying)

    @property
    def passages(self) -> str:
        """Return the number of passages in words, such as "five passages"."""
        number = _NUMBERS[self.k] if self.k < len(_NUMBERS) else str(self.k)
        return f"{number} passage{'' if self.k == 1 else 's'}"

    @property
    def shows_passages(self) -> bool:
        """Return whether prompts may have passages, from the ranking or the strategy's searches."""
        return bool(self.k or self.placed)

    @property
    def words(self) -> str:
        """Return the cell in words, such as "post_fusion on five passages as retrieved"."""
        if not self.k:
            return f"{self.line} {self.placed or 'without passages'}"
        return f"{self.line} on {self.passages} {self.placed or self.gold}"

    def select_other_settings(self, labels: Collection[str]) -> dict[str, str]:
        """Return the settings that distinguish the cell, except those implied by these labels."""
        return {
            name: value
            for name, value in self.varying
            if _SETTINGS_OF_LABELS.get(name) not in labels
        }

    def has_other_settings_of(self, other: "CellLabels", labels: Collection[str]) -> bool:
        """Return whether two cells agree on the settings of both that these labels do not imply."""
        ours, theirs = self.select_other_settings(labels), other.select_other_settings(labels)
        return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())
