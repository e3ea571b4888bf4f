"""Build the indexes of the corpus for the configured retriever and, if questions are labeled, for
the labeling one.

python -m flows.index
python -m flows.index retriever=dense retriever.engine.index_factory=HNSW32
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.searched import list_indexed_retrievers, list_projects
from flows.project.shards import hold
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.tools.summary import Summary, progress
from winnow.artifacts.parquet import count_rows
from winnow.artifacts.tables import read_passages
from winnow.protocols import BlockRetriever
from winnow.sweeps.shards import Shard


def index(jobs: Sequence[Settings]) -> Summary:
    """Build the missing indexes of each job."""
    rows: dict[Path, dict[str, object]] = {}  # by folder, because both retrievers may be the same
    notes: list[str] = []
    for project in [project for settings in jobs for project in list_projects(settings)]:
        passages = project.corpus.require() / "passages.parquet"
        for retriever in list_indexed_retrievers(project):
            artifact = project.resolve_index(retriever)
            if artifact.folder in rows:
                continue
            is_new = not artifact.is_finished
            if is_new:
                built_retriever = retriever.build()
                with _show_progress(f"indexing {artifact.folder.name}", built_retriever, passages):
                    built_retriever.build(partial(read_passages, passages), artifact.folder)
                artifact.finish(0)
                notes += _list_cut(built_retriever)
            num_bytes = sum(
                file.stat().st_size for file in artifact.folder.rglob("*") if file.is_file()
            )
            status = "built" if is_new else "finished already"
            rows[artifact.folder] = {
                "index": artifact.folder,
                "MB": f"{num_bytes / 2**20:.1f}",
                "": status,
            }
    return Summary("Index", list(rows.values()), note="\n".join(notes), artifacts=list(rows))


def _run_shard(jobs: Sequence[Settings], shard: Shard) -> Summary:
    """Prepare the shard's blocks of the corpus for the indexes that are built from blocks."""
    rows: dict[Path, dict[str, object]] = {}
    notes: list[str] = []
    with hold(jobs[0], shard, "index"):
        for project in [project for settings in jobs for project in list_projects(settings)]:
            passages = project.corpus.require() / "passages.parquet"
            for node in list_indexed_retrievers(project):
                artifact, retriever = project.resolve_index(node), node.build()
                if artifact.folder in rows:
                    continue
                if artifact.is_finished or not isinstance(retriever, BlockRetriever):
                    status = (
                        "finished already"
                        if artifact.is_finished
                        else "left to one process, which builds it whole"
                    )
                else:
                    with _show_progress(
                        f"encoding blocks of {artifact.folder.name}", retriever, passages
                    ):
                        source = partial(read_passages, passages)
                        files = retriever.build_blocks(
                            source, artifact.folder, shard.contains_block
                        )
                    status = f"{len(files)} blocks are there"
                    notes += _list_cut(retriever)
                rows[artifact.folder] = {"index": artifact.folder, "": status}
    title = f"Shard {shard.number} of {shard.count} of index"
    return Summary(title, list(rows.values()), note="\n".join(notes))


def _list_cut(retriever: object) -> Iterator[str]:
    """Yield a sentence for each encoder that cut texts, which were then not searched whole."""
    for encoder in _iter_encoders(retriever):
        if encoder.truncated:
            yield (
                f"{encoder.truncated} of the texts encoded in this run were cut at "
                f"encoder.model.max_length={encoder.max_length} tokens, so that the rest of them "
                "is not searched. Divide the corpus into shorter passages, or raise it."
            )


@contextmanager
def _show_progress(label: str, retriever: object, passages: Path) -> Iterator[None]:
    """Show the number of passages encoded by all encoders, or one step if there is no encoder."""
    encoders = list(_iter_encoders(retriever))
    num_left = len(encoders) * count_rows(passages)
    with progress(label, num_left if encoders else None) as advance:

        def count(texts: int) -> None:
            # an encoder also encodes a text that is not a passage of the corpus, by which it is
            # recognized
            nonlocal num_left
            advance(min(texts, num_left))
            num_left -= min(texts, num_left)

        for encoder in encoders:
            encoder.advance = count
        yield


def _iter_encoders(component: Any) -> Iterator[Any]:
    """Yield the encoders in a component, in its parts and in the parts of these."""
    if hasattr(component, "advance"):
        yield component
    elif isinstance(component, Mapping):
        for part in component.values():
            yield from _iter_encoders(part)
    elif is_dataclass(component):
        for field in fields(component):
            yield from _iter_encoders(getattr(component, field.name))


def _resolve(project: Project) -> Iterator[Artifact]:
    """Yield the indexes of the retriever, of labels and trainings, and of a searched corpus."""
    yield project.resolve_index()
    for own in list_projects(project.settings):
        yield from (own.resolve_index(retriever) for retriever in list_indexed_retrievers(own))


STAGE = Stage(
    index,
    version=1,
    resolve=_resolve,
    reads=("corpus",),
    settings=("encoder", "retriever", "answerable", "reader", "training"),
    run_shard=_run_shard,
    shards="parts",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
