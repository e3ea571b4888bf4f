"""The APIs of search engines: one request each, and the parsing of its JSON reply.

Keys come from environment variables and are sent in headers, so that no address contains them.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Protocol

import httpx

from winnow.errors import ConfigError, check_address
from winnow.formats.secrets import mask_secret
from winnow.identity.markers import SpeedOnly
from winnow.text.words import repair_surrogates


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A search result: a page's address, title, and the excerpt that the search engine shows."""

    url: str
    title: str
    excerpt: str


class SearchApi(Protocol):
    """The API of a search engine."""

    def check(self) -> None:
        """Raise ConfigError if something is missing, such as the key."""
        ...

    def build_request(self, query: str, n: int) -> httpx.Request:
        """Build the request for `n` results."""
        ...

    def parse_reply(self, body: Any) -> Sequence[SearchResult]:
        """Parse a reply's JSON, best result first; raise ValueError if it is not of this API."""
        ...

    def mask_key(self, text: str) -> str:
        """Replace the key in a text by "[key]", because a server may repeat it."""
        ...


@dataclass(frozen=True)
class JsonSearchApi:
    """What the APIs have in common.

    Args:
        url: Address of the API.
        api_key_variable: Environment variable with the key; "" sends none.
        parameters: Further parameters of every request, such as a language.
    """

    key_header: ClassVar[str] = "X-API-KEY"
    key_source: ClassVar[str] = "the provider of the API"
    """Where a key can be had."""

    url: str
    api_key_variable: Annotated[str, SpeedOnly("the name of a variable, not its content")] = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_address(
            "search.engine.api.url",
            self.url,
            "A key comes from an environment variable (api_key_variable), other parameters from "
            "search.engine.api.parameters.",
        )

    def check(self) -> None:
        """Raise ConfigError if the key is missing, or has a character that no header may have."""
        key = self._read_key()
        if not key.isascii() or not key.isprintable():
            raise ConfigError(
                f"The API key in the environment variable {self.api_key_variable} contains "
                "characters that no key has, such as a letter with an accent. Copy it again from "
                f"{self.key_source}."
            )
        if self.api_key_variable and not key:
            raise ConfigError(
                f"{self.url} needs an API key: set the environment variable "
                f"{self.api_key_variable}. A key can be had from {self.key_source}. Without a "
                "key: search=searxng, or search=local, which searches a corpus."
            )

    def mask_key(self, text: str) -> str:
        """Replace the key and pieces of it in a text by "[key]"."""
        return mask_secret(text, self._read_key())

    def build_headers(self) -> dict[str, str]:
        """Return the header with the key."""
        return {self.key_header: self._read_key()} if self.api_key_variable else {}

    def _read_key(self) -> str:
        """Return the key without the line end that a file of variables may add, or ""."""
        return os.environ.get(self.api_key_variable, "").strip() if self.api_key_variable else ""


@dataclass(frozen=True)
class Searxng(JsonSearchApi):
    """A SearXNG instance, whose settings must list json under search.formats."""

    revision: ClassVar[int] = 1

    def build_request(self, query: str, n: int) -> httpx.Request:  # noqa: ARG002 (SearXNG returns whole pages of results)
        """Build the request; the number of results cannot be chosen."""
        parameters = {**self.parameters, "q": query, "format": "json"}
        return httpx.Request("GET", self.url, params=parameters, headers=self.build_headers())

    def parse_reply(self, body: Any) -> Sequence[SearchResult]:
        """Parse `results`; ValueError if there are none and engines behind it did not answer."""
        results = _parse_results(body, "results", url="url", excerpt="content")
        if not results and (silent := body.get("unresponsive_engines")):
            raise ValueError(f"engines behind SearXNG did not answer: {json.dumps(silent)[:200]}")
        return results


@dataclass(frozen=True)
class Serper(JsonSearchApi):
    """Serper (google.serper.dev), or an API like it."""

    revision: ClassVar[int] = 1
    key_source: ClassVar[str] = "https://serper.dev"

    def build_request(self, query: str, n: int) -> httpx.Request:
        """Build the request."""
        return httpx.Request(
            "POST",
            self.url,
            json={**self.parameters, "q": query, "num": n},
            headers=self.build_headers(),
        )

    def parse_reply(self, body: Any) -> Sequence[SearchResult]:
        """Parse `organic`."""
        return _parse_results(body, "organic", url="link", excerpt="snippet")


@dataclass(frozen=True)
class GoogleCustomSearch(JsonSearchApi):
    """Google's Custom Search JSON API (at most ten results); `parameters.cx` is the engine's id."""

    revision: ClassVar[int] = 1
    key_header: ClassVar[str] = "X-Goog-Api-Key"
    key_source: ClassVar[str] = "https://console.cloud.google.com/apis/credentials"
    max_results: ClassVar[int] = 10

    def check(self) -> None:
        """Raise ConfigError if the key or the id of the search engine is missing."""
        super().check()
        if not self.parameters.get("cx"):
            raise ConfigError(
                "search=google needs the id of a Programmable Search Engine: set "
                "search.engine.api.parameters.cx; it is shown at "
                "https://programmablesearchengine.google.com."
            )

    def build_request(self, query: str, n: int) -> httpx.Request:
        """Build the request."""
        parameters = {**self.parameters, "q": query, "num": str(min(n, self.max_results))}
        return httpx.Request("GET", self.url, params=parameters, headers=self.build_headers())

    def parse_reply(self, body: Any) -> Sequence[SearchResult]:
        """Parse `items`, which a reply without results lacks."""
        return _parse_results(body, "items", url="link", excerpt="snippet")


def _parse_results(body: Any, name: str, *, url: str, excerpt: str) -> list[SearchResult]:
    """Parse the results with an address (the first for each), and replace lone surrogates."""
    results = body.get(name, []) if isinstance(body, Mapping) else None
    is_error = isinstance(body, Mapping) and name not in body and {"error", "message"} & body.keys()
    if not isinstance(results, list) or is_error:
        raise ValueError(
            f"expected an object with the list {name!r}; received {json.dumps(body)[:200]}"
        )
    by_address: dict[str, SearchResult] = {}
    for result in results:
        if isinstance(result, Mapping) and isinstance(result.get(url), str) and result[url].strip():
            address = result[url].strip()
            texts = [
                value if isinstance(value := result.get(part), str) else ""
                for part in ("title", excerpt)
            ]
            by_address.setdefault(
                repair_surrogates(address),
                SearchResult(
                    repair_surrogates(address),
                    *(" ".join(repair_surrogates(text).split()) for text in texts),
                ),
            )
    return list(by_address.values())
