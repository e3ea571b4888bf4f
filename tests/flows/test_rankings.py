"""Which rankings a configuration uses, and what their keys depend on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.project import searched
from flows.project.artifacts import Project
from flows.project.cells import resolve_cell, resolve_cell_artifact
from flows.project.checks import check_ranked
from flows.project.rankings import resolve_planned_rankings, resolve_rankings, resolve_relevance
from flows.project.searched import resolve_corpus_spec, resolve_search_spec
from flows.settings.door import compose
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import (
    build_hit_rows,
    build_passage_rows,
    build_question_rows,
    build_retrieval_rows,
)
from winnow.errors import ConfigError
from winnow.records import Hit, Passage, Question
from winnow.searchers.damage import SearchDamage


def _open(*words: str) -> Project:
    return Project(compose(["reader=smollm2", *words]))


def test_a_plan_has_rankings_of_its_own_that_rest_on_those_of_its_retriever() -> None:
    """Cells and scores read them; a retriever without a plan has none."""
    plain, planned = _open("retriever=bm25"), _open("retriever=rank_gpt")
    assert resolve_rankings(plain).key == plain.rankings.key == planned.rankings.key
    assert (
        resolve_rankings(planned).key
        == resolve_planned_rankings(planned).key
        != planned.rankings.key
    )
    assert resolve_cell_artifact(plain).settings["inputs"]["rankings"] == plain.rankings.identity
    assert (
        resolve_cell_artifact(planned).settings["inputs"]["rankings"]
        == resolve_rankings(planned).identity
    )
    assert (
        resolve_relevance(planned).settings["inputs"]["rankings"]
        == resolve_rankings(planned).identity
    )
    with pytest.raises(ConfigError, match="retriever=bm25 has no plan"):
        resolve_planned_rankings(plain)


@pytest.mark.parametrize(
    "word",
    [
        "rank.limit=5", "rank.splits=[dev]", "retriever.plan.window=5",
        "retriever.plan.system=Sort.", "depth=50", "reader@reranker=smollm2_tuned",
        "retriever.engine.k1=1.0", "prompt=plain",
    ],
)  # fmt: skip
def test_what_changes_a_planned_ranking_changes_its_key(word: str) -> None:
    """Another question, prompt, model or retriever: but the prompt of a reader that was not trained
    on it changes nothing.
    """
    changes = word != "prompt=plain"
    keys = {
        resolve_planned_rankings(_open("retriever=rank_gpt", *more)).key for more in ([], [word])
    }
    assert len(keys) == 1 + changes


def test_the_retriever_is_a_search_engine_with_the_index_of_the_rankings() -> None:
    """Under the identity of search=local, so that both share their calls; another search engine
    changes nothing there.
    """
    project, other = (
        _open("retriever=hyde"),
        _open("retriever=hyde", "search=second_half", "corpus=vital_first_half"),
    )
    assert resolve_corpus_spec(project).key == resolve_search_spec(project).key
    assert resolve_corpus_spec(project).role == "corpus"
    assert resolve_corpus_spec(other).key != resolve_search_spec(other).key
    assert resolve_corpus_spec(_open("retriever=bm25")).key != resolve_corpus_spec(project).key


def test_a_damaged_corpus_has_a_key_of_its_own() -> None:
    """By kind, share, seed and questions, for the role "search" alone; another corpus than that of
    the rankings is refused.
    """
    words = [
        [], ["search=damaged"], ["search=damaged", "search.damage.share=0.2"],
        ["search=damaged", "search.damage.seed=1"], ["search=poisoned"],
        ["search=damaged", "sweep.split=dev"],
    ]  # fmt: skip
    assert len({resolve_search_spec(_open(*more)).key for more in words}) == len(words)
    assert len({resolve_corpus_spec(_open(*more)).key for more in words}) == 1
    both = [
        "search=second_half",
        "corpus=vital_first_half",
        "+search.damage={_target_:winnow.searchers.damage.SearchDamage}",
    ]
    with pytest.raises(ConfigError, match=r"search\.corpus names another one"):
        resolve_search_spec(_open(*both))


def test_a_cell_names_the_engines_and_the_pool_of_its_ranking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For prices, and for distractors that are those of the retriever without its plan."""
    monkeypatch.setattr("flows.project.artifacts.Artifact.require", lambda self: self.folder)
    settings = compose(
        [
            "reader=smollm2",
            "retriever=rank_gpt",
            "reader@reranker=openai",
            "reranker.base=gpt-4o-mini",
        ]
    )
    cell = resolve_cell(settings)
    assert ([one.role for one in cell.engines], [one.role for one in cell.ranking_engines]) == (
        ["reader"],
        ["reranker"],
    )
    assert set(cell.prices) == {"reranker"}
    assert cell.pool == Project(settings).rankings.folder != cell.retrieval


def test_a_strategy_without_a_reader_has_the_rankings_of_the_others() -> None:
    """The reader serves the plan, so that its training counts; without a plan it does not."""
    words = ["reader=smollm2_tuned", "+grid.strategy=[concatenation,cite_randomly]", "prompt=rage"]
    for retriever, count in (("rank_gpt_small", 1), ("bm25", 1)):
        cells = compose([*words, f"retriever={retriever}"]).cells
        assert len({resolve_rankings(Project(cell)).key for cell in cells}) == count


def test_other_rankings_make_another_damaged_corpus() -> None:
    """They say which passages are relevant; a whole corpus does not depend on them."""
    assert (
        resolve_search_spec(_open("search=damaged", "depth=50")).key
        != resolve_search_spec(_open("search=damaged")).key
    )
    assert resolve_search_spec(_open("depth=50")).key == resolve_search_spec(_open()).key


def test_a_search_of_the_web_cannot_be_damaged() -> None:
    """Its pages are not those of the rankings."""
    with pytest.raises(ConfigError, match="which is not searched here"):
        resolve_search_spec(
            _open(
                "search=searxng", "+search.damage={_target_:winnow.searchers.damage.SearchDamage}"
            )
        )


def test_annotated_and_answering_passages_of_the_split_are_damaged(tmp_path: Path) -> None:
    """At any rank; those of other splits stay."""
    asked = [
        Question("q1", "Who?", ("Jane Austen",), ("3",), split="test"),
        Question("q2", "x?", ("other",), split="dev"),
    ]
    texts = {"1": "nothing", "2": "Jane Austen", "3": "gold", "4": "Jane Austen too"}
    passages = {id_: Passage(id_, "", text) for id_, text in texts.items()}
    hits = build_hit_rows(asked[:1], [[Hit("1", 2.0), Hit("2", 1.0), Hit("4", 0.5)]])
    parquet.write(
        tmp_path / "contexts.parquet",
        contracts.RETRIEVAL,
        build_retrieval_rows(asked[:1], hits, texts),
    )
    parquet.write(
        tmp_path / "passages.parquet", contracts.CORPUS, build_passage_rows(passages.values())
    )
    parquet.write(tmp_path / "questions.parquet", contracts.QUESTIONS, build_question_rows(asked))
    damage = SimpleNamespace(build=lambda: SearchDamage("removed", 1.0))
    settings = SimpleNamespace(
        sweep=SimpleNamespace(split="test"), search=SimpleNamespace(damage=damage)
    )
    rankings = SimpleNamespace(require=lambda: tmp_path)
    project: Any = SimpleNamespace(
        questions_file=tmp_path / "questions.parquet", rankings=rankings, settings=settings
    )
    assert searched._change_passages(project, passages) == {"2": None, "3": None, "4": None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep.split=dev"], r"Set rank\.splits=\[dev\]"),
        (["sweep.limit=300", "sweep.closed_book_filter=false"], r"sweep\.limit=300"),
        (["sweep.limit=null", "sweep.closed_book_filter=false"], r"sweep\.limit=null"),
        (["rank.limit=100"], r"closed_book\.limit=200"),
    ],
)
def test_questions_without_a_planned_ranking_are_noticed_before_any_call(
    words: list[str], message: str
) -> None:
    """With the setting that mends it; without a plan there is nothing to rank."""
    check_ranked([compose(["retriever=bm25", *words]), compose(["retriever=hyde"])])
    with pytest.raises(ConfigError, match=message):
        check_ranked([compose(["retriever=hyde", *words])])
