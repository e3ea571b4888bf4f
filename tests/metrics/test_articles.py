"""Articles by topic."""

import json
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.metrics.articles import load_articles


def test_passages_by_their_match(tmp_path: Path) -> None:
    """Best first; a fact without a known word takes the article's beginning; an edited file is read
    again.
    """
    file = tmp_path / "a.jsonl"
    text = " ".join([*["river"] * 100, *["mountain"] * 100, *["sea"] * 20])
    file.write_text(json.dumps({"title": "Arlen", "text": text}) + "\n")
    articles = load_articles(file, 1)
    ids = [
        passage.passage_id
        for passage in articles.select("arlen ", "The mountain is high.", 2) or ()
    ]
    assert ids == ["Arlen#1", "Arlen#0"]
    assert [
        passage.passage_id for passage in articles.select("Arlen", "Nothing of it.", 1) or ()
    ] == ["Arlen#0"]
    assert articles.select("Bexley", "x", 1) is None
    file.write_text(json.dumps({"title": "Bexley", "text": "x"}) + "\n")
    assert load_articles(file, 1) is articles
    assert load_articles(file, 2).select("Bexley", "x", 1)


def test_the_topic_is_part_of_the_query(tmp_path: Path) -> None:
    """As published: of two passages with the words of the fact, the one that names the person."""
    file = tmp_path / "a.jsonl"
    words = ["she", "lived", "in", "Paris", *["x"] * 96, "Mary", "Hill", "lived", "Paris"]
    file.write_text(json.dumps({"title": "Mary Hill", "text": " ".join(words)}) + "\n")
    (passage,) = load_articles(file, 1).select("Mary Hill", "She lived in Paris.", 1) or ()
    assert passage.passage_id == "Mary Hill#1"


def test_titles_that_differ_in_case_are_two_articles(tmp_path: Path) -> None:
    """Each is found by its own title, neither by a third spelling; a title twice is refused."""
    file = tmp_path / "a.jsonl"
    lines = [json.dumps({"title": title, "text": title}) for title in ("Seal", "SEAL", "Emma")]
    file.write_text("\n".join(lines))
    articles = load_articles(file, 11)
    for title in ("Seal", "SEAL"):
        assert [one.text for one in articles.select(title, "x", 1) or ()] == [title]
    assert articles.select("seal", "x", 1) is None
    assert articles.select("emma", "x", 1)
    file.write_text("\n".join([*lines, lines[0]]))
    with pytest.raises(InputError, match="line 4: expected one article of each title"):
        load_articles(file, 12)
