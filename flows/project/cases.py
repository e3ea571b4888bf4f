"""How cells answered single questions, replayed from the ledger for a report without a model."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flows.project.engines import identify_engine_specs
from flows.project.ledger import open_ledger
from flows.settings.typed import Settings
from flows.tools.summary import progress
from winnow.artifacts.provenance import MANIFEST
from winnow.artifacts.steps import read_steps
from winnow.artifacts.tables import read_predictions
from winnow.errors import ArtifactError, MissingArtifactError
from winnow.reports.cells import CellResult
from winnow.reports.page.cases import Case, Texts, build_case
from winnow.reports.page.page import ChosenQuestion, list_chosen_ids
from winnow.sweeps.run import LoadedCell, load_cells
from winnow.sweeps.spec import CellSpec


def build_cases(
    settings: Settings,
    specs: Sequence[CellSpec],
    results: Sequence[CellResult],
    chosen: Sequence[ChosenQuestion],
    texts: Texts,
) -> dict[tuple[int, str], Case]:
    """Replay the chosen questions in every cell that answers them."""
    cells_by_key: Mapping[str, LoadedCell] = {cell.spec.key: cell for cell in load_cells(specs)}
    cases: dict[tuple[int, str], Case] = {}
    ids_by_cell = [list_chosen_ids(result, chosen) for result in results]
    with (
        open_ledger(settings) as ledger,
        progress("replaying calls", sum(map(len, ids_by_cell))) as advance,
    ):
        for index, (spec, result, ids) in enumerate(zip(specs, results, ids_by_cell, strict=True)):
            cell = cells_by_key[spec.key]
            identities = identify_engine_specs(spec.engines)
            samples = {sample.question.question_id: sample for sample in result.samples}
            steps = read_steps(spec.folder, cell.rankings.passages, ids)
            for question_id in ids:
                sample, question_steps = samples[question_id], steps.get(question_id)
                cases[index, question_id] = build_case(
                    cell,
                    sample.question,
                    sample.prediction,
                    identities,
                    ledger,
                    texts,
                    question_steps,
                )
                advance()
    return cases


def describe_selection(specs: Sequence[CellSpec]) -> list[str]:
    """Say which questions the closed-book filter left out, because all closed-book answers are
    wrong then, or right.
    """
    notes = []
    for keeps in dict.fromkeys(spec.questions.keeps for spec in specs):
        own = [spec for spec in specs if spec.questions.keeps == keeps]
        removed_counts = set(_count_removed(own).values())
        if any(spec.questions.closed_book is None for spec in own) or not any(removed_counts):
            continue
        number = f"{max(removed_counts)} questions" if len(removed_counts) == 1 else "Questions"
        reader_names = {
            str(reader["name"])
            for spec in own
            if (reader := spec.config["closed_book"].get("reader"))
        }
        whose = f"{' or '.join(sorted(reader_names))}'s" if reader_names else "the reader's"
        matches = "is no exact match" if keeps == "known" else "is an exact match"
        because = (
            ", so that its closed-book cell has "
            f"{'only exact matches' if keeps == 'known' else 'no exact match'}"
        )
        notes.append(
            f"{number} to which {whose} answer without passages {matches} were left out "
            f"(sweep.closed_book_filter){'' if reader_names else because}."
        )
    return notes


def describe_bias(specs: Sequence[CellSpec]) -> str:
    """Return how the filter biases cells without passages, or "" if it left no question out."""
    removed_counts = {
        selection: count for selection, count in _count_removed(specs).items() if count
    }
    if not removed_counts:
        return ""
    if len({keeps for _, keeps in removed_counts}) > 1:
        return (
            "low or high by selection, because questions were selected by their answers without "
            "passages"
        )
    number = f" ({next(iter(removed_counts.values()))})" if len(removed_counts) == 1 else ""
    if "known" in {keeps for _, keeps in removed_counts}:
        return (
            "high by selection, because questions that are answered wrong without passages were "
            f"left out{number}"
        )
    return (
        "low by selection, because questions that are answered right without passages were left "
        f"out{number}"
    )


def _count_removed(specs: Sequence[CellSpec]) -> dict[tuple[Path, str], int]:
    """Count the questions that each closed-book filter left out, by answers file and `keeps`."""
    selections = {
        (spec.questions.closed_book, spec.questions.keeps): spec.questions
        for spec in specs
        if spec.questions.closed_book
    }
    counts = {key: selection.count_questions() for key, selection in selections.items()}
    return {
        (path, keeps): count[0] - count[1]
        for (path, keeps), count in counts.items()
        if path and count
    }


def describe_other_empty(specs: Sequence[CellSpec]) -> list[str]:
    """Name the finished cells but these with replies without text, which a run with
    `sweep.retry_empty` may have requested again.
    """
    folders = {spec.folder for spec in specs}
    names = []
    for folder in sorted(specs[0].folder.parent.iterdir()):
        if folder not in folders and (folder / MANIFEST).is_file():
            with suppress(ArtifactError, MissingArtifactError):  # of another version
                rows = read_predictions(folder / specs[0].predictions.name)
                is_empty = any(usage.empty for row in rows for usage in row.usage)
                names += [folder.name] if is_empty else []
    if not names:
        return []
    return [
        f"{len(names)} other finished cells have replies without text, which may have been "
        f"requested again: {', '.join(names)}. Sweep them with sweep.retry_empty=true before they "
        "are compared with these."
    ]


def describe_cases(
    cases: Mapping[tuple[int, str], Case], num_questions: int, num_chosen: int
) -> list[str]:
    """Say of how many questions the page holds prompts, and how many replays failed."""
    notes = []
    if num_chosen < num_questions:
        notes.append(
            f"The page has every answer, but contexts and prompts of only {num_chosen} of "
            f"{num_questions} questions: first those that only some cells answer right, then "
            "those that none does. report.questions sets the number."
        )
    num_failed = sum(bool(case.note) for case in cases.values())
    if num_failed:
        notes.append(
            f"The calls of {num_failed} of {len(cases)} answers cannot be shown; each says why."
        )
    return notes
