"""A page's family of tests: all comparable pairs of cells, with p-values corrected together."""

import itertools
from collections.abc import Sequence
from functools import cached_property

from winnow.metrics.comparisons import Comparison, adjust_p_values, compute_p_value
from winnow.reports.cells import (
    CellResult,
    can_compare,
    compare_cells,
    get_common_values,
    have_equal_results,
)

HOW_TO_READ = (
    "Two cells are paired by question. If all values are 0 or 1, the test is McNemar's exact test, "
    "and the interval of the difference agrees with it; otherwise the test is a permutation test "
    "and the interval a bootstrap, and where they disagree, the test is the more reliable one. p "
    "(raw) is that of the pair alone; p (Holm) is corrected for all {num_tests} pairs of cells of "
    "this page with different results. Sentences and charts state p (Holm), so that the highest "
    "cell may be compared with all others although it was selected; its lead is still smaller on "
    "average on other questions. Cells with equal results are one test. 'detectable' is the "
    "smallest difference that these questions show with 80 % power."
)
"""How the differences of a page are tested, which is said once."""


class Family:
    """The pairs of cells with different results, each tested once.

    Cells with other selections of questions are not paired. Cells of one selection with equal
    answers and values of the metric are one, the first of them.

    Args:
        cells: Cells, whose first metric is compared.
        seed: Seed of the bootstrap and of the permutation test.

    Attributes:
        first_equal: Index of the first cell with equal results, for each cell.
        compared: Comparisons and corrected p-values of those pairs that were asked for, by the
            indices of their first cells.
    """

    def __init__(self, cells: Sequence[CellResult], seed: int) -> None:
        self.cells, self.seed = cells, seed
        self.metric = cells[0].metrics[0]
        self.first_equal = [self._find_first_equal(index) for index in range(len(cells))]
        self.compared: dict[tuple[int, int], tuple[Comparison, float]] = {}

    def _find_first_equal(self, index: int) -> int:
        cell, name = self.cells[index], self.metric.name
        return next(
            number
            for number, other in enumerate(self.cells[: index + 1])
            if number == index
            or (
                cell.labels.questions == other.labels.questions
                and have_equal_results(cell, other, name)
            )
        )

    @property
    def num_tests(self) -> int:
        """Return the number of tests over which the p-values are corrected."""
        return len(self._adjusted)

    @property
    def num_questions(self) -> int:
        """Return the number of questions of all selections that at least one cell answers."""
        return len(
            {
                (cell.labels.questions, question_id)
                for cell in self.cells
                for question_id in cell.columns.question_ids
            }
        )

    @property
    def how_to_read(self) -> str:
        """Return how the differences are tested, for readers."""
        return HOW_TO_READ.format(num_tests=self.num_tests)

    @cached_property
    def _adjusted(self) -> dict[tuple[int, int], float]:
        """Return the corrected p-value of each pair of cells with different results."""
        p_values: dict[tuple[int, int], float] = {}
        for first, second in itertools.combinations(sorted(set(self.first_equal)), 2):
            if can_compare(self.cells[first], self.cells[second]):
                values = get_common_values(
                    self.cells[first], self.cells[second], self.metric.name, self.seed
                )
                if values is not None:
                    p_values[first, second] = compute_p_value(*values, seed=self.seed)
        return dict(zip(p_values, adjust_p_values(list(p_values.values())), strict=True))

    def are_equal(self, first: int, second: int) -> bool:
        """Return whether two cells, by index, have equal results on the same question selection."""
        return self.first_equal[first] == self.first_equal[second]

    def compare(self, first: int, second: int) -> tuple[Comparison, float] | None:
        """Compare two cells by their indices.

        Returns:
            The comparison of the first with the second and its corrected p-value, or None if the
            cells have equal results, no question in common or no value.
        """
        one, other = self.first_equal[first], self.first_equal[second]
        adjusted_p_value = self._adjusted.get((min(one, other), max(one, other)))
        if adjusted_p_value is None:
            return None
        if (one, other) not in self.compared:
            comparison = compare_cells(
                self.cells[one], self.cells[other], self.metric.name, self.seed
            )
            assert comparison is not None
            self.compared[one, other] = comparison, adjusted_p_value
        return self.compared[one, other]

    def compare_all(self) -> None:
        """Compare all pairs, so that `compared` has each in one direction at least."""
        for first, second in self._adjusted:
            if (second, first) not in self.compared:
                self.compare(first, second)
