"""Write a page in which every cell, question, prompt, reply and vote of a sweep can be looked up.

The page is one file without network, beside the report. The prompts are replayed from the ledger, and no model is loaded. The
sweep with the same settings must be finished.

    python -m flows.browse experiment=quick_start
    python -m flows.browse experiment=quick_start browse.questions=500
"""

from collections.abc import Mapping, Sequence

from flows.project.cells import require_finished, resolve_cells
from flows.project.engines import identify_engines, open_engines
from flows.project.ledger import open_ledger
from flows.project.metrics import compute_cells_digest, read_results
from flows.report import BROWSER_FILE, describe_provenance
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.report_folder import open_report_folder
from flows.tools.summary import Summary, progress
from winnow.artifacts.files import write_texts
from winnow.artifacts.steps import read_steps
from winnow.reports.browser.cases import Case, Texts, build_case
from winnow.reports.browser.page import BrowserPage, choose_questions
from winnow.reports.cells import CellResult
from winnow.reports.notes import build_incident_notes, build_reply_notes
from winnow.sweeps.run import LoadedCell, load_cells
from winnow.sweeps.spec import CellSpec


def browse(jobs: Sequence[Settings]) -> Summary:
    """Write the page of the cells of all jobs; every cell must be finished."""
    settings, specs = jobs[0], resolve_cells(jobs)
    require_finished(specs)
    results = read_results(jobs, specs, inputs=("placed", "shown", "ranking"))
    question_ids = choose_questions(results, settings.browse.questions, settings.report.seed)
    texts = Texts()
    cases = _build_cases(settings, specs, results, question_ids, texts)
    seed = settings.report.seed
    notes = [
        *_describe_cases(cases, len({s.question.question_id for r in results for s in r.samples}), len(question_ids)),
        *_describe_selection(specs),
        *build_reply_notes(results, seed),
        *build_incident_notes(results),
    ]
    title, digest = f"Winnow: {settings.sweep.name}", compute_cells_digest(specs, results)
    page = BrowserPage(title, results, notes, describe_provenance(settings, specs), texts, cases, seed, digest)
    path = open_report_folder(settings) / BROWSER_FILE
    text = page.render()
    write_texts(path.parent, {path.name: text})
    size = f"{len(text) / 1e6:.1f} MB; {len(results)} cells, prompts of {len(question_ids)} questions"
    return Summary(f"{page.title}: {path}", note=f"{size}. Open it in a browser; it needs no server and no network.")


def _build_cases(
    settings: Settings, specs: Sequence[CellSpec], results: Sequence[CellResult], chosen: Sequence[str], texts: Texts
) -> dict[tuple[int, str], Case]:
    """Replay the chosen questions in every cell that answers them."""
    loaded: Mapping[str, LoadedCell] = {cell.spec.key: cell for cell in load_cells(specs)}
    cases: dict[tuple[int, str], Case] = {}
    with open_ledger(settings) as ledger, progress("replaying calls", len(specs) * len(chosen)) as advance:
        for index, (spec, result) in enumerate(zip(specs, results, strict=True)):
            cell = loaded[spec.key]
            identities = identify_engines(open_engines(spec.engines, check=False))
            samples = {sample.question.question_id: sample for sample in result.samples}
            steps = read_steps(spec.folder, cell.rankings.passages, chosen)
            for question_id in chosen:
                if question_id in samples:
                    sample, recorded = samples[question_id], steps.get(question_id)
                    case = build_case(cell, sample.question, sample.prediction, identities, ledger, texts, recorded)
                    cases[index, question_id] = case
                advance()
    return cases


def _describe_selection(specs: Sequence[CellSpec]) -> list[str]:
    """Say if the closed-book filter left out questions, because no closed-book answer can be right then."""
    counts = [spec.questions.count_questions() for spec in specs]
    removed = {count[0] - count[1] for count in counts if count is not None}
    if None in counts or not any(removed):
        return []
    number = f"{max(removed)} questions" if len(removed) == 1 else "Questions"
    shared = {str(reader["name"]) for spec in specs if (reader := spec.config["closed_book"].get("reader"))}
    whose = f"{' or '.join(sorted(shared))}'s" if shared else "the reader's"
    because = "" if shared else ", so that its closed-book cell has no exact match"
    return [
        f"{number} to which {whose} answer without passages is an exact match were left out "
        f"(sweep.closed_book_filter){because}."
    ]


def _describe_cases(cases: Mapping[tuple[int, str], Case], num_questions: int, num_chosen: int) -> list[str]:
    """Say of how many questions the page holds prompts, and how many replays failed."""
    notes = []
    if num_chosen < num_questions:
        notes.append(
            f"The page has every answer, but contexts and prompts of only {num_chosen} of {num_questions} questions: first "
            "those that only some cells answer right, then those that none does. browse.questions sets the number."
        )
    failed = sum(bool(case.note) for case in cases.values())
    if failed:
        notes.append(f"The calls of {failed} of {len(cases)} answers cannot be shown; each says why.")
    return notes


STAGE = Stage(
    browse,
    reads=("sweep",),
    settings=("browse",),
    grid=True,
    seeds="each",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
