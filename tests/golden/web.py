"""Outputs of searches of the web."""

from pathlib import Path
from typing import Any

from golden import Golden

from winnow.searchers.web.apis import JsonSearchApi
from winnow.searchers.web.downloads import Download
from winnow.searchers.web.pages import PageReader, extract_text

SEARCH_REPLY = {
    name: [
        {"url": f"u{i}", "link": f"l{i}", "title": f"t {i}", "content": "c\n d", "snippet": "s  e"}
        for i in (1, 2, 1)
    ]
    for name in ("results", "organic", "items")
}


PAGE = """<html><head><title>The bridge</title><meta charset="windows-1252"></head><body>\
<nav><a href="/">Home</a></nav>
<article><h1>The Tay Bridge</h1><p>The bridge over the Tay was opened in 1878 and fell in a storm \
in the following year.</p>
<ul><li>Length: 3,264 m</li><li>Caf\u00e9 at its south end</li></ul>\
<table><tr><td>Opened</td><td>1878</td></tr></table>
<p>A second bridge was opened in 1887,
and trains cross it to this day.</p></article><footer>Imprint, cookies</footer></body></html>"""


def search_api(component: type[JsonSearchApi]) -> Golden:
    """The request of a search, and what its reply says."""

    def output(_: Path) -> Any:
        api: Any = component("http://host/search", parameters={"cx": "x"})
        request = api.build_request("a, b", 5)
        return [
            request.method,
            str(request.url),
            request.read().decode(),
            *api.parse_reply(SEARCH_REPLY),
        ]

    return Golden(component, output)


def page_texts(_: Path) -> Any:
    """Titles and texts of pages."""
    pages = [
        Download(PAGE.encode("cp1252"), "text/html", ""),
        Download(b"a\n b", "text/plain", "utf-8"),
    ]
    return [extract_text(page) for page in pages]


PAGES_READ = Golden(PageReader, page_texts)
