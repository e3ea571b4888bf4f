"""Write the rankings of one split in a format of other tools, with questions, judgments and
passages, or a sweep to repeat.

- trec: a run file (run.trec), judgments (qrels.trec) and questions (queries.tsv), for trec_eval and
  Pyserini; `retriever=trec_run` reads the run.
- fid: one JSON file of questions with their passages, as FiD and DPR have them; `corpus=fid_json
  dataset=fid_json retriever=provided` read it.
- beir: corpus.jsonl, queries.jsonl and qrels/<split>.tsv; `corpus=beir dataset=beir` read them.
- replay: a finished sweep in one archive, with its questions, rankings, answers, calls and tables,
  from which `python -m flows.replay` computes the same tables on a machine without models.

Relevant are the annotated gold passages or, for a question without any, the retrieved passages with
an answer.

    python -m flows.export export.format=trec export.out=exports/trec
    python -m flows.export retriever=dense export.format=fid export.split=dev
    python -m flows.export experiment=quick_start export.format=replay
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from flows.calls import export_used_calls
from flows.project.archive import write_archive
from flows.project.artifacts import Project
from flows.project.cells import require_finished, resolve_cells
from flows.project.metrics import build_metrics, list_judging_roles
from flows.project.rankings import resolve_rankings
from flows.report import TABLES, report_cells
from flows.settings.identity import slugify
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.outputs import check_outputs
from flows.stages.registry import Stage
from flows.tools.dvc import CALLS
from flows.tools.summary import Summary
from winnow.artifacts.rankings import Rankings, read_rankings
from winnow.artifacts.tables import read_passages, read_questions
from winnow.contexts.build import build_ranked_contexts
from winnow.errors import ConfigError, LedgerError
from winnow.formats.beir import write_beir
from winnow.formats.fid_json import write_fid
from winnow.formats.text import write_lines
from winnow.formats.trec import write_qrels, write_trec_run
from winnow.records import Hit, Question


def export(jobs: Sequence[Settings]) -> Summary:
    """Write the rankings of each job's retriever and split, or the archive of all jobs' cells."""
    if jobs[0].export.format == "replay":
        return _export_sweep(jobs)
    distinct_jobs = {
        (settings.export.out, settings.export.split, resolve_rankings(Project(settings)).key): (
            settings
        )
        for settings in map(_select_rankings, jobs)
    }  # training seeds may have the same rankings
    check_outputs(
        "export.out",
        [
            (out, split if one.export.format == "fid" else "")
            for (out, split, _), one in distinct_jobs.items()
        ],
    )
    rows, notes = [], list[str]()
    for settings in distinct_jobs.values():
        project, out, split = (
            Project(settings),
            Path(settings.export.out),
            str(settings.export.split),
        )
        questions = read_questions(project.questions_file, [split])
        rankings = read_rankings(resolve_rankings(project).require(), questions)
        relevant = _find_relevant(questions, rankings)
        match settings.export.format:
            case "trec":
                runs = (
                    (
                        q.question_id,
                        [Hit(hit.passage_id, hit.score) for hit in rankings.hits[q.question_id]],
                    )
                    for q in questions
                )
                write_trec_run(out / "run.trec", runs, settings.retriever.name)
                write_qrels(out / "qrels.trec", relevant)
                write_lines(
                    out / "queries.tsv",
                    (f"{q.question_id}\t{' '.join(q.text.split())}" for q in questions),
                )
            case "fid":
                notes += _note_lost_gold(questions, rankings)
                contexts = ((q, build_ranked_contexts(rankings, q)) for q in questions)
                write_fid(
                    out / f"{split}.json",
                    ((q, [c for c in ranking if c.rank]) for q, ranking in contexts),
                )
            case _:
                write_beir(
                    out,
                    split,
                    questions,
                    read_passages(project.corpus.require() / "passages.parquet"),
                    relevant,
                )
        num_judged = sum(bool(ids) for ids in relevant.values())
        rows.append(
            {"folder": out, "questions": len(questions), "with a relevant passage": num_judged}
        )
    return Summary(f"Rankings as {jobs[0].export.format}", rows, "\n".join(notes))


def _select_rankings(settings: Settings) -> Settings:
    """Return the settings of the rankings that all cells read; raise ConfigError if they differ."""
    cells = {resolve_rankings(Project(cell)).key: cell for cell in settings.cells}
    if len(cells) > 1:
        names = ", ".join(dict.fromkeys(cell.retriever.name for cell in cells.values()))
        raise ConfigError(
            f"The cells of the grid read {len(cells)} rankings ({names}), and an export is of one. "
            "Choose it with grid=null, or write each with -m and an export.out of its own."
        )
    return next(iter(cells.values()))


def _note_lost_gold(questions: Sequence[Question], rankings: Rankings) -> list[str]:
    """Return a note if annotated gold passages were not retrieved, so that FiD JSON lacks them."""
    lost = sum(
        not set(question.gold_passage_ids).issubset(
            hit.passage_id for hit in rankings.hits[question.question_id]
        )
        for question in questions
    )
    if not lost:
        return []
    return [
        f"{lost} of {len(questions)} questions have annotated gold passages that were not "
        "retrieved. FiD JSON has retrieved passages alone: recall in what reads the file is of "
        "these. Use export.format=beir for all judgments."
    ]


def _export_sweep(jobs: Sequence[Settings]) -> Summary:
    """Write the archive of all jobs' finished cells, with tables computed by the current code."""
    settings, specs = jobs[0], resolve_cells(jobs)
    require_finished(specs)
    file = Path(settings.export.out) / f"{slugify(settings.sweep.name)}.zip"
    with tempfile.TemporaryDirectory() as folder:
        tables, calls = Path(folder, "tables"), Path(folder, CALLS)
        own = settings.replace(report={**settings.report.plain, "out": str(tables), "figures": []})
        report_cells([own, *jobs[1:]], specs)
        number, num_incomplete = export_used_calls(settings, specs, calls)
        if num_incomplete:
            raise LedgerError(
                f"The ledger lacks calls of {num_incomplete} answers, so that they cannot be "
                "replayed. Import them (`winnow ledger import LEDGER FILE`), or remove the "
                "predictions and make them again with `python -m flows.sweep`."
            )
        roles = list_judging_roles(build_metrics(settings))
        write_archive(file, jobs, specs, roles, calls, [tables / name for name in TABLES])
    row = {
        "archive": file,
        "cells": len(specs),
        "calls": number,
        "MB": f"{file.stat().st_size / 2**20:.1f}",
    }
    return Summary(
        "A sweep to repeat without models", [row], f"Check it: python -m flows.replay {file}"
    )


def _find_relevant(questions: Sequence[Question], rankings: Rankings) -> dict[str, Sequence[str]]:
    """Return the ids of the relevant passages of each question."""
    return {
        question.question_id: (
            question.gold_passage_ids
            or [hit.passage_id for hit in rankings.hits[question.question_id] if hit.has_answer]
        )
        for question in questions
    }


STAGE = Stage(export, grid=True, seeds="each")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
