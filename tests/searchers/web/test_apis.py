"""Requests to the APIs of search engines, and their replies, as their documentation has them."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.errors import ConfigError
from winnow.searchers.web.apis import (
    GoogleCustomSearch,
    JsonSearchApi,
    SearchResult,
    Searxng,
    Serper,
)

KEY = "a-secret-key"
APIS: list[tuple[Any, str, str, str]] = [
    (Searxng("http://127.0.0.1:8080/search"), "results", "url", "content"),
    (Serper("https://google.serper.dev/search", "SOME_KEY"), "organic", "link", "snippet"),
    (
        GoogleCustomSearch(
            "https://customsearch.googleapis.com/customsearch/v1", "SOME_KEY", {"cx": "abc"}
        ),
        "items",
        "link",
        "snippet",
    ),
]


def test_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses, parameters, and keys in headers only."""
    monkeypatch.setenv("SOME_KEY", KEY)
    searxng, serper, google = (api.build_request("Tay Bridge, opened", 30) for api, *_ in APIS)
    assert dict(searxng.url.params) == {"q": "Tay Bridge, opened", "format": "json"}
    assert "x-api-key" not in searxng.headers
    assert json.loads(serper.content) == {"q": "Tay Bridge, opened", "num": 30}
    assert (serper.method, serper.headers["x-api-key"]) == ("POST", KEY)
    assert dict(google.url.params) == {"cx": "abc", "q": "Tay Bridge, opened", "num": "10"}
    assert google.headers["x-goog-api-key"] == KEY
    assert all(
        KEY not in str(request.url) and KEY.encode() not in request.read()
        for request in (searxng, serper, google)
    )


@pytest.mark.parametrize(("api", "name", "url", "excerpt"), APIS)
def test_replies(api: Any, name: str, url: str, excerpt: str) -> None:
    """The order is kept; results without an address and repeated ones are left out."""
    results = [
        {url: "https://a.example/1", "title": "One", excerpt: "first\n text"},
        {"title": "no address"},
        {url: "https://a.example/1", "title": "again"},
        {url: "https://b.example/2", excerpt: None},
        "nonsense",
    ]
    found = [
        SearchResult("https://a.example/1", "One", "first text"),
        SearchResult("https://b.example/2", "", ""),
    ]
    assert api.parse_reply({name: results, "other": 1}) == found
    assert api.parse_reply({}) == []
    for wrong in ([], "text", None, {name: {}}, {name: None}, {"error": "Rate limit"}):
        with pytest.raises(ValueError, match="expected an object with the list"):
            api.parse_reply(wrong)


def test_blocked_engines_are_no_answer() -> None:
    """SearXNG replies without results where those behind it did not answer; with some, it did."""
    api, silent = APIS[0][0], [["google", "Suspended: CAPTCHA"]]
    with pytest.raises(ValueError, match=r"behind SearXNG did not answer: .*CAPTCHA"):
        api.parse_reply({"results": [], "unresponsive_engines": silent})
    found = api.parse_reply({"results": [{"url": "u"}], "unresponsive_engines": silent})
    assert [result.url for result in found] == ["u"]


@pytest.mark.parametrize(("api", "name", "url", "excerpt"), APIS)
def test_halves_of_characters_are_replaced(api: Any, name: str, url: str, excerpt: str) -> None:
    """An excerpt may be cut inside an emoji, and no text with a half of it can be stored."""
    (result,) = api.parse_reply({name: [{url: "u", "title": "a", excerpt: "end \ud83d"}]})
    assert result.excerpt == "end ?"


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["results", "organic", "items", "url", "link", "title", "snippet", "content"]
                ),
                inner,
            )
        ),
    )
)
def test_any_json_is_parsed_or_refused(body: Any) -> None:
    """A reply is a list of results or a ValueError."""
    for api, *_ in APIS:
        try:
            found = api.parse_reply(body)
        except ValueError:
            continue
        assert all(result.url for result in found)


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With where to get one, and what to use instead."""
    monkeypatch.delenv("SOME_KEY", raising=False)
    for api, source in ((APIS[1][0], "serper.dev"), (APIS[2][0], "console.cloud.google.com")):
        with pytest.raises(
            ConfigError, match=rf"environment variable SOME_KEY.*{source}.*search=local"
        ):
            api.check()
    APIS[0][0].check()
    monkeypatch.setenv("SOME_KEY", KEY)
    APIS[2][0].check()
    assert APIS[1][0].mask_key(f"wrong key {KEY}") == "wrong key [key]"
    with pytest.raises(ConfigError, match=r"parameters\.cx"):
        GoogleCustomSearch("https://x.example", "SOME_KEY").check()


@pytest.mark.parametrize(
    "url", ["ftp://x", "x", "", "http://user:password@host/", "https://host/search?key=abc"]
)
def test_an_address_with_a_secret_or_none_is_refused(url: str) -> None:
    """And the message does not repeat it."""
    with pytest.raises(ConfigError) as raised:
        JsonSearchApi(url)
    assert "password@" not in str(raised.value)
    assert "abc" not in str(raised.value)


def test_a_key_with_a_line_end_is_stripped_and_one_that_is_no_key_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file of variables may add a line end; a message does not show the key."""
    monkeypatch.setenv("SOME_KEY", f"{KEY}\r\n")
    assert APIS[1][0].build_headers() == {"X-API-KEY": KEY}
    APIS[1][0].check()
    monkeypatch.setenv("SOME_KEY", "s\u00e9cret-key-of-mine")
    with pytest.raises(ConfigError, match="characters that no key has") as error:
        APIS[1][0].check()
    assert "cret-key" not in str(error.value)


@pytest.mark.parametrize("key", ["s\u00e9cret-key-of-mine", "se\x07cret-key-of-mine"])
def test_a_key_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Before anything is sent, and without showing it."""
    monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(ConfigError, match="characters that no key has") as error:
        APIS[1][0].check()
    assert "cret-key" not in str(error.value)
