"""Which rankings a configuration uses, and what their keys depend on."""

import pytest

from flows.project.artifacts import Project
from flows.project.cells import resolve_cell_artifact
from flows.project.rankings import resolve_planned_rankings, resolve_rankings, resolve_relevance
from flows.project.searched import resolve_corpus_spec, resolve_search_spec
from flows.settings.door import compose
from winnow.errors import ConfigError


def _open(*words: str) -> Project:
    return Project(compose(["reader=smollm2", *words]))


def test_a_plan_has_rankings_of_its_own_that_rest_on_those_of_its_retriever() -> None:
    """Cells and scores read them; a retriever without a plan has none."""
    plain, planned = _open("retriever=bm25"), _open("retriever=rank_gpt")
    assert resolve_rankings(plain).key == plain.rankings.key == planned.rankings.key
    assert resolve_rankings(planned).key == resolve_planned_rankings(planned).key != planned.rankings.key
    assert resolve_cell_artifact(plain).settings["inputs"]["rankings"] == plain.rankings.identity
    assert resolve_cell_artifact(planned).settings["inputs"]["rankings"] == resolve_rankings(planned).identity
    assert resolve_relevance(planned).settings["inputs"]["rankings"] == resolve_rankings(planned).identity
    with pytest.raises(ConfigError, match="retriever=bm25 has no plan"):
        resolve_planned_rankings(plain)


@pytest.mark.parametrize(
    "word",
    [
        "rank.limit=5", "rank.splits=[dev]", "retriever.plan.window=5", "retriever.plan.system=Sort.", "depth=50",
        "reader@reranker=smollm2_tuned", "retriever.engine.k1=1.0", "prompt=plain",
    ],
)  # fmt: skip
def test_what_changes_a_planned_ranking_changes_its_key(word: str) -> None:
    """Another question, prompt, model or retriever: but the prompt of a reader that was not trained on it changes nothing."""
    changes = word != "prompt=plain"
    keys = {resolve_planned_rankings(_open("retriever=rank_gpt", *more)).key for more in ([], [word])}
    assert len(keys) == 1 + changes


def test_the_retriever_is_a_search_engine_with_the_index_of_the_rankings() -> None:
    """Under the identity of search=local, so that both share their calls; another search engine changes nothing there."""
    project, other = _open("retriever=hyde"), _open("retriever=hyde", "search=second_half", "corpus=vital_first_half")
    assert resolve_corpus_spec(project).key == resolve_search_spec(project).key
    assert resolve_corpus_spec(project).role == "corpus"
    assert resolve_corpus_spec(other).key != resolve_search_spec(other).key
    assert resolve_corpus_spec(_open("retriever=bm25")).key != resolve_corpus_spec(project).key


def test_a_damaged_corpus_has_a_key_of_its_own() -> None:
    """By kind, share, seed and questions, for the role "search" alone; another corpus than that of the rankings is refused."""
    words = [
        [], ["search=damaged"], ["search=damaged", "search.damage.share=0.2"], ["search=damaged", "search.damage.seed=1"],
        ["search=poisoned"], ["search=damaged", "sweep.split=dev"],
    ]  # fmt: skip
    assert len({resolve_search_spec(_open(*more)).key for more in words}) == len(words)
    assert len({resolve_corpus_spec(_open(*more)).key for more in words}) == 1
    both = ["search=second_half", "corpus=vital_first_half", "+search.damage={_target_:winnow.searchers.damage.SearchDamage}"]
    with pytest.raises(ConfigError, match=r"search\.corpus names another one"):
        resolve_search_spec(_open(*both))
