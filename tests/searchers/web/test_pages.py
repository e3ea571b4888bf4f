"""Pages become passages: their main text, whatever their encoding, and what is left if they cannot
be read.
"""

import hashlib
import re

import pytest
from small_web import SmallWeb

from winnow.errors import ConfigError
from winnow.searchers.web import pages
from winnow.searchers.web.apis import SearchResult
from winnow.searchers.web.downloads import Download
from winnow.searchers.web.pages import PageReader, extract_text

SENTENCE = (
    "Die Brücke über den Fluss wurde im Jahr 1878 eröffnet und ist bis heute das Wahrzeichen der "
    "Stadt."
)
ARTICLE = f"""<html><head><title>Die Brücke</title></head><body>
<nav><a href="/">Home</a> <a href="/x">Shop</a></nav>
<article><h1>Die Brücke</h1><p>{SENTENCE}</p><p>Sie wird jeden Tag
von vielen Menschen benutzt, die auf der anderen Seite arbeiten.</p></article>
<footer>Cookies</footer></body></html>"""


def reader(**settings: object) -> PageReader:
    """A reader of pages on this machine."""
    return PageReader(allow_private=True, **settings)  # type: ignore[arg-type]


def test_a_page_becomes_its_main_text(web: SmallWeb) -> None:
    """Without navigation; lines are joined; the snapshot has time and digest."""
    url = web.add("/bridge", ARTICLE)
    passage, snapshot = reader().read(SearchResult(url, "A bridge", "excerpt"))
    assert passage is not None
    assert (passage.passage_id, passage.title) == (url, "A bridge")
    assert SENTENCE in passage.text
    assert "jeden Tag von vielen" in passage.text
    assert "Shop" not in passage.text
    assert (snapshot.url, snapshot.note, snapshot.digest) == (
        url,
        "",
        hashlib.sha256(ARTICLE.encode()).hexdigest(),
    )
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", snapshot.retrieved)


@pytest.mark.parametrize(
    ("header", "encoding", "head"),
    [
        ("utf-8", "utf-8", ""),
        ("windows-1252", "cp1252", ""),
        ("", "cp1252", '<meta charset="windows-1252">'),
        (
            "",
            "iso-8859-15",
            '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-15">',
        ),
        ("", "utf-16", ""),
        ("", "utf-8", ""),
        ("no-such-encoding", "utf-8", ""),
        ("base64", "utf-8", '<meta charset="hex">'),
        ("", "utf-8", '<meta charset="utf-16">'),
    ],
)
def test_a_page_is_decoded(header: str, encoding: str, head: str) -> None:
    """By the header, by its own declaration, or by a guess; names that are no encoding of text are
    ignored.
    """
    body = ARTICLE.replace("<head>", f"<head>{head}").encode(encoding)
    title, text = extract_text(Download(body, "text/html", header))
    assert SENTENCE in text
    assert title == "Die Brücke"


def test_a_label_means_what_browsers_read_by_it() -> None:
    """A page labeled as iso-8859-1 has the quotes and the euro of windows-1252."""
    body = ARTICLE.replace(SENTENCE, f"{SENTENCE} The firm\u2019s price was 5 \u20ac.")
    _, text = extract_text(Download(body.encode("cp1252"), "text/html", "iso-8859-1"))
    assert "The firm\u2019s price was 5 \u20ac." in text


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<", b"<html>", b"\x00" * 50, b"\xff" * 50, b"<!-- " * 100, b"<p>" * 5_000,
        b"<html><body></body></html>", b"<?xml version='1.0' encoding='utf-8'?><html/>",
        b"<script>x</script>", b"<div" * 500, bytes(range(256)) * 20,
    ],
)  # fmt: skip
def test_broken_html_never_fails(web: SmallWeb, body: bytes) -> None:
    """The excerpt of the search engine takes its place, and the snapshot says so."""
    passage, snapshot = reader().read(
        SearchResult(web.add("/broken", body, Content_Type="text/html"), "title", "the excerpt")
    )
    assert passage is not None
    assert passage.text == "the excerpt" or not snapshot.note
    assert snapshot.digest == hashlib.sha256(body).hexdigest()


def test_an_unclosed_page_is_read(web: SmallWeb) -> None:
    """HTML without end tags has text all the same."""
    url = web.add("/open", f"<html><body><article><h1>Brücke<p>{SENTENCE}<p>{SENTENCE}")
    passage, snapshot = reader().read(SearchResult(url, "", ""))
    assert passage is not None
    assert SENTENCE in passage.text
    assert not snapshot.note


def test_plain_text_is_text(web: SmallWeb) -> None:
    """It is not parsed as HTML."""
    url = web.add("/text", "a < b\n\n  and <c>", Content_Type="text/plain")
    passage, _ = reader().read(SearchResult(url, "", ""))
    assert passage is not None
    assert passage.text == "a < b and <c>"


def test_a_page_that_is_not_read_leaves_its_excerpt_or_nothing(web: SmallWeb) -> None:
    """Nothing of the kind reaches a prompt as the page's own text without a note."""
    url = f"{web.url}/missing"
    passage, snapshot = reader().read(SearchResult(url, "title", "what the engine showed"))
    assert passage is not None
    assert (passage.text, snapshot.note, snapshot.digest) == (
        "what the engine showed",
        "HTTP status 404",
        "",
    )
    passage, snapshot = reader().read(SearchResult(url, "title", " "))
    assert passage is None
    assert snapshot.note == "HTTP status 404"


def test_a_parser_that_fails_is_a_note(web: SmallWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsers fail in ways that nobody lists."""

    def fail(_: Download) -> tuple[str, str]:
        raise RecursionError("too deep")

    monkeypatch.setattr(pages, "extract_text", fail)
    passage, snapshot = reader().read(SearchResult(web.add("/deep", "x"), "", "excerpt"))
    assert passage is not None
    assert snapshot.note == "its text cannot be extracted: RecursionError: too deep"


def test_a_long_text_is_cut(web: SmallWeb) -> None:
    """At a number of words."""
    url = web.add("/long", "word " * 100, Content_Type="text/plain")
    passage, _ = reader(max_words=7).read(SearchResult(url, "", ""))
    assert passage is not None
    assert passage.text.split() == ["word"] * 7


@pytest.mark.parametrize("settings", [{"timeout": 0}, {"max_bytes": 0}, {"max_words": -1}])
def test_limits_that_allow_nothing_are_refused(settings: dict[str, int]) -> None:
    """The message has the values."""
    with pytest.raises(ConfigError, match=f"{next(iter(settings))} must be "):
        PageReader(**settings)  # type: ignore[arg-type]
