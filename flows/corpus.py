"""Convert a public format into the corpus artifact: passage_id, title, text.

python -m flows.corpus
python -m flows.corpus corpus=plain_text corpus.parser.path=/data/texts corpus.name=mine
"""

from collections.abc import Iterator, Sequence

from omegaconf import DictConfig

from flows._artifacts import Project
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import passage_rows
from winnow.records import Passage


def corpus(configs: Sequence[DictConfig]) -> Summary:
    """Write the corpus of each job."""
    return Summary("Corpus", [_write(Project(cfg)) for cfg in configs])


def _write(project: Project) -> dict[str, object]:
    artifact = project.corpus
    if artifact.done:
        return {"corpus": artifact.folder, "passages": "finished already"}
    with progress("reading passages", None) as advance:

        def counted() -> Iterator[Passage]:
            for passage in build(project.cfg.corpus.parser):
                advance()
                yield passage

        rows = parquet.write(artifact.folder / "passages.parquet", contracts.CORPUS, passage_rows(counted()))
    artifact.finish(rows)
    return {"corpus": artifact.folder, "passages": rows}


main = entry(corpus)
if __name__ == "__main__":
    main()
