"""Convert a corpus from a public format into the corpus artifact with the columns passage_id, title and text.

python -m flows.corpus
python -m flows.corpus corpus=plain_text corpus.parser.path=/data/texts corpus.name=mine
"""

from collections.abc import Iterator, Sequence

from omegaconf import DictConfig

from flows._artifacts import Project
from flows._build import build
from flows._entry import make_main
from flows._searched import list_projects
from flows._stages import Stage
from flows._summary import Summary, progress
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_passage_rows
from winnow.errors import InputError
from winnow.records import Passage


def corpus(configs: Sequence[DictConfig]) -> Summary:
    """Write the corpus of each job."""
    projects = [project for cfg in configs for project in list_projects(cfg)]
    rows = [_write_corpus(project) for project in projects]
    return Summary("Corpus", rows, artifacts=[project.corpus.folder for project in projects])


def _write_corpus(project: Project) -> dict[str, object]:
    """Write the corpus unless it is finished, and return its row of the summary."""
    artifact = project.corpus
    if artifact.is_finished:
        return {"corpus": artifact.folder, "passages": "finished already"}
    with progress("reading passages", None) as advance:

        def iter_passages() -> Iterator[Passage]:
            for passage in build(project.cfg.corpus.parser):
                advance()
                yield passage

        rows = parquet.write(artifact.folder / "passages.parquet", contracts.CORPUS, build_passage_rows(iter_passages()))
    if not rows:
        path = project.cfg.corpus.parser.get("path")
        raise InputError(f"corpus={project.cfg.corpus.name}: {path} contains no passage. Correct corpus.parser.path.")
    artifact.finish(rows)
    return {"corpus": artifact.folder, "passages": rows}


STAGE = Stage(
    corpus,
    version=1,
    resolve=lambda project: [own.corpus for own in list_projects(project.cfg)],
    reads=("acquire",),
    settings=("corpus", "search"),
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
