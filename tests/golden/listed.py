"""Strategies and mixtures whose outputs are recorded."""

from dataclasses import replace
from pathlib import Path

from model_outputs import encoder

from winnow.datasets.joined import JoinedDataset
from winnow.datasets.jsonl import JsonlQuestions
from winnow.datasets.split import Split
from winnow.retrievers.dense import Dense
from winnow.retrievers.mixture import Mixture, NeighborMaps
from winnow.strategies.cite import Cite
from winnow.strategies.cite_without import CiteWithout
from winnow.strategies.closed_book import ClosedBook
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.fid import FusionInDecoder
from winnow.strategies.marginal import Marginal
from winnow.strategies.pf_concat import PFConcat
from winnow.strategies.post_fusion import PostFusion


def mixture(folder: Path, **counts: int) -> Mixture:
    """A mixture of the corpus of the goldens."""
    maps = NeighborMaps(Dense(encoder(folder)), neighbors=1, irrelevant=1)
    return replace(Mixture(maps, relevant=1, irrelevant=1, seemingly_relevant=1), **counts)


def joined_questions(folder: Path) -> JoinedDataset:
    """Twice the questions of the goldens, each time with splits of their own."""
    return JoinedDataset(
        dict.fromkeys("ab", JsonlQuestions(f"{folder}/own.jsonl", id="id")), Split(test=1)
    )


STRATEGIES = (
    ClosedBook,
    Concatenation,
    PostFusion,
    ConcatPF,
    PFConcat,
    FusionInDecoder,
    Marginal,
    Cite,
    CiteWithout,
)
