"""Build the retriever's index of the corpus, and the one that labels questions as answerable.

python -m flows.index
python -m flows.index retriever=dense retriever.engine.factory=HNSW32
"""

from collections.abc import Sequence

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from winnow.tables import passages_of


def index(configs: Sequence[DictConfig]) -> Summary:
    """Build what is missing for each job."""
    rows = []
    for cfg in configs:
        passages = _artifacts.corpus(cfg).need().folder / "passages.parquet"
        for retriever in (cfg.answerable.retriever, cfg.retriever.engine):
            made = _artifacts.index(cfg, retriever)
            fresh = not made.done
            if fresh:
                with progress(f"indexing {made.folder.name}", None):
                    build(retriever).build(lambda p=passages: passages_of(p), made.folder)
                made.finish(0)
            size = sum(f.stat().st_size for f in made.folder.rglob("*") if f.is_file()) / 2**20
            rows.append({"index": made.folder, "MB": f"{size:.1f}", "": "built" if fresh else "done already"})
    return Summary("Index", rows)


main = entry(index)
if __name__ == "__main__":
    main()
