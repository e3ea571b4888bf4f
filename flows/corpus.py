"""Convert a corpus from a public format into the corpus artifact with the columns passage_id, title
and text.

python -m flows.corpus
python -m flows.corpus corpus=plain_text corpus.parser.path=/data/texts corpus.name=mine
"""

from collections.abc import Iterator, Sequence

from flows.project.artifacts import Project
from flows.project.searched import list_projects
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.tools.summary import Summary, progress
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_passage_rows
from winnow.errors import InputError
from winnow.records import Passage


def corpus(jobs: Sequence[Settings]) -> Summary:
    """Write the corpus of each job."""
    projects = [project for settings in jobs for project in list_projects(settings)]
    rows = [_write_corpus(project) for project in projects]
    return Summary("Corpus", rows, artifacts=[project.corpus.folder for project in projects])


def _write_corpus(project: Project) -> dict[str, object]:
    """Write the corpus unless it is finished, and return its row of the summary."""
    artifact = project.corpus
    if artifact.is_finished:
        return {"corpus": artifact.folder, "passages": "finished already"}
    with progress("reading passages", None) as advance:

        def iter_passages() -> Iterator[Passage]:
            for passage in project.settings.corpus.parser.build():
                advance()
                yield passage

        rows = parquet.write(
            artifact.folder / "passages.parquet",
            contracts.CORPUS,
            build_passage_rows(iter_passages()),
        )
    if not rows:
        path = project.settings.corpus.parser.get("path")
        raise InputError(
            f"corpus={project.settings.corpus.name}: {path} contains no passage. Correct "
            "corpus.parser.path."
        )
    artifact.finish(rows)
    return {"corpus": artifact.folder, "passages": rows}


STAGE = Stage(
    corpus,
    version=1,
    resolve=lambda project: [own.corpus for own in list_projects(project.settings)],
    reads=("acquire",),
    settings=("corpus", "search"),
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
