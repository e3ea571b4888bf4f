"""Turn a public format into the corpus artifact: passage_id, title, text.

python -m flows.corpus
python -m flows.corpus corpus=plain_text corpus.reader.path=/data/texts corpus.name=mine
"""

from collections.abc import Iterator, Sequence

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from winnow import store
from winnow.records import Passage
from winnow.tables import passage_rows


def corpus(configs: Sequence[DictConfig]) -> Summary:
    """Write the corpus of each job."""
    return Summary("Corpus", [_write(cfg) for cfg in configs])


def _write(cfg: DictConfig) -> dict[str, object]:
    made = _artifacts.corpus(cfg)
    if made.done:
        return {"corpus": made.folder, "passages": "done already"}
    with progress("reading passages", None) as advance:

        def counted() -> Iterator[Passage]:
            for passage in build(cfg.corpus.reader):
                advance()
                yield passage

        rows = store.write(made.folder / "passages.parquet", store.CORPUS, passage_rows(counted()))
    made.finish(rows)
    return {"corpus": made.folder, "passages": rows}


main = entry(corpus)
if __name__ == "__main__":
    main()
