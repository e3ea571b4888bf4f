"""Write the maps of mixtures in RAGE's format: corpus, queries, and the relevant, irrelevant and
seemingly relevant documents.

The files can be read by RAGE's toolkit, and here by corpus=rage dataset=rage retriever=rage.

    python -m flows.export_maps retriever=mixture export_maps.out=exports/maps
"""

from collections.abc import Sequence
from pathlib import Path

from flows.project.artifacts import Project
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.outputs import check_outputs
from flows.stages.registry import Stage
from flows.tools.summary import Summary
from winnow.artifacts.tables import read_passages, read_questions
from winnow.errors import ConfigError
from winnow.formats.rage import write_rage_files
from winnow.retrievers.mixture import Mixture


def export_maps(jobs: Sequence[Settings]) -> Summary:
    """Write the maps of one split of each job, without questions that lack a relevant passage."""
    check_outputs("export_maps.out", [(one.export_maps.out,) for one in jobs])
    rows = []
    for settings in jobs:
        project, out = Project(settings), Path(settings.export_maps.out)
        retriever = settings.retriever.engine.build()
        if not isinstance(retriever, Mixture):
            raise ConfigError(
                f"retriever={settings.retriever.name} has no maps of relevant and irrelevant "
                "documents. Choose retriever=mixture."
            )
        questions = read_questions(project.questions_file, [settings.export_maps.split])
        document_maps = retriever.maps.open(project.resolve_index().require()).find(questions)
        maps = {
            question.question_id: one.documents
            for question, one in zip(questions, document_maps, strict=True)
        }
        usable = [question for question in questions if maps[question.question_id].relevant]
        write_rage_files(
            out, usable, read_passages(project.corpus.require() / "passages.parquet"), maps
        )
        rows.append(
            {
                "folder": out,
                "questions": len(usable),
                "without a relevant document": len(questions) - len(usable),
            }
        )
    return Summary("Maps in RAGE's format", rows)


STAGE = Stage(export_maps)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
