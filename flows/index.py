"""Build the retriever's index of the corpus, and the one that labels questions as answerable.

python -m flows.index
python -m flows.index retriever=dense retriever.engine.factory=HNSW32
"""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from flows._artifacts import Project
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from winnow.artifacts.tables import read_passages


def index(configs: Sequence[DictConfig]) -> Summary:
    """Build what is missing for each job."""
    rows: dict[Path, dict[str, object]] = {}  # by folder: the two indexes may be one
    for cfg in configs:
        project = Project(cfg)
        passages = project.corpus.require() / "passages.parquet"
        for retriever in (cfg.answerable.retriever, cfg.retriever.engine):
            artifact = project.index(retriever)
            if artifact.folder in rows:
                continue
            fresh = not artifact.done
            if fresh:
                with progress(f"indexing {artifact.folder.name}", None):
                    build(retriever).build(lambda path=passages: read_passages(path), artifact.folder)
                artifact.finish(0)
            size = sum(file.stat().st_size for file in artifact.folder.rglob("*") if file.is_file()) / 2**20
            status = "built" if fresh else "finished already"
            rows[artifact.folder] = {"index": artifact.folder, "MB": f"{size:.1f}", "": status}
    return Summary("Index", list(rows.values()))


main = entry(index)
if __name__ == "__main__":
    main()
