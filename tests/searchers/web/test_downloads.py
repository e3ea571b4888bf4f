"""Pages that cannot be downloaded say why, within limits that hold."""

import gzip
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from small_web import Reply, SmallWeb

from winnow.searchers.web.downloads import Downloader, UnreadableError


def downloader(
    timeout: float = 5.0, max_bytes: int = 10_000, *, respect_robots: bool = True
) -> Downloader:
    """A downloader that reads this machine."""
    return Downloader(
        "Tester/1 (research)", timeout, max_bytes, respect_robots=respect_robots, allow_private=True
    )


def test_a_page_is_downloaded_with_its_redirects(web: SmallWeb) -> None:
    """Absolute and relative ones; the encoding is that of the header."""
    web.add("/a", status=301, Location=f"{web.url}/b")
    web.add("/b", status=302, Location="c?x=1")
    web.add("/c", "<p>ö</p>".encode("latin-1"), Content_Type="text/html; charset=ISO-8859-1")
    download = downloader().download(f"{web.url}/a")
    assert (download.body, download.media_type, download.charset.lower()) == (
        b"<p>\xf6</p>",
        "text/html",
        "iso-8859-1",
    )
    assert web.paths() == ["/robots.txt", "/a", "/b", "/c?x=1"]
    assert all(
        headers["User-Agent"] == "Tester/1 (research)" and "Cookie" not in headers
        for _, _, headers, _ in web.requests
    )


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(b"x", 404), "HTTP status 404"),
        (Reply(b"x", 500), "HTTP status 500"),
        (Reply(b"x", 304), "HTTP status 304"),
        (Reply(b"\x89PNG", headers={"Content-Type": "image/png"}), "no text, but 'image/png'"),
        (
            Reply(b"%PDF", headers={"Content-Type": "application/pdf; x=y"}),
            "no text, but 'application/pdf'",
        ),
        (Reply(b"x" * 20_000), "larger than 10000 bytes"),
        (
            Reply(gzip.compress(b"x" * 1_000_000), headers={"Content-Encoding": "gzip"}),
            "larger than 10000 bytes",
        ),
        (Reply(b"no gzip", headers={"Content-Encoding": "gzip"}), "DecodingError"),
        (Reply(b"", 302, {"Location": "/start"}), "more than 5 redirects"),
        (Reply(b"", 302, {"Location": "http://["}), "cannot be resolved"),
        (Reply(b"", 302, {"Location": "mailto:a@b.c"}), "no valid address"),
        (Reply(b"12345678", pause=0.2), r"not received in 0\.5 s"),
    ],
)
def test_a_page_that_cannot_be_had_gives_a_reason(web: SmallWeb, reply: Reply, reason: str) -> None:
    """Errors, other types, sizes, also after decompression, circles of redirects, and pages that
    drip.
    """
    web.replies["/start"] = reply
    start = time.monotonic()
    with pytest.raises(UnreadableError, match=reason):
        downloader(0.5).download(f"{web.url}/start")
    assert time.monotonic() - start < 3


def test_a_server_that_does_not_answer(web: SmallWeb) -> None:
    """A closed port is an error of the connection."""
    with pytest.raises(UnreadableError, match="ConnectError"):
        downloader(respect_robots=False).download("http://127.0.0.1:9/")


@pytest.mark.parametrize(
    ("robots", "allowed"),
    [
        (Reply(b"User-agent: *\nDisallow: /private"), True),
        (Reply(b"User-agent: *\nDisallow: /"), False),
        (Reply(b"User-agent: *\nDisallow: /\nUser-agent: tester\nDisallow:"), True),
        (Reply(b"User-agent: *\nDisallow: /*.html$\nAllow: /"), True),
        (Reply(b"User-agent: *\nDisallow: /pa*e"), False),
        (Reply(b"\xef\xbb\xbfUser-agent: *\nDisallow: /"), False),
        (Reply(b"User-agent: 1\nDisallow: /\nUser-agent: research\nDisallow: /"), True),
        (Reply(b"", 404), True),
        (Reply(b"", 403), True),
        (Reply(b"", 503), False),
        (Reply(b"", 302, {"Location": "/robots.txt"}), True),
        (Reply(b"\xff\xfe\x00nonsense" * 10), True),
        (Reply(b"#" * 600_000), False),
    ],
)
def test_robots_txt_decides(web: SmallWeb, robots: Reply, allowed: bool) -> None:
    """By its rules, also those for one agent; a missing file allows, a failing server forbids.

    It is read once a site, and again after a failure.
    """
    web.replies["/robots.txt"] = robots
    web.add("/page", "text")
    web.add("/page2", "text")
    reader = downloader()
    for path in ("/page", "/page2"):
        if allowed:
            assert reader.download(web.url + path).body == b"text"
        else:
            with pytest.raises(
                UnreadableError,
                match=(
                    r"disallowed by robots\.txt|robots\.txt cannot be had: (HTTP status 503|larger "
                    r"than)"
                ),
            ):
                reader.download(web.url + path)
    requests = 6 if robots.status == 302 else 1 if allowed or b"User" in robots.body else 2
    assert web.paths().count("/robots.txt") == requests
    assert downloader(respect_robots=False).download(f"{web.url}/page").body == b"text"


def test_cookies_are_not_kept(web: SmallWeb) -> None:
    """A page is the same whichever pages were read before."""
    web.add("/page", "text", Set_Cookie="a=b")
    reader = downloader()
    for _ in range(2):
        reader.download(f"{web.url}/page")
    assert all("Cookie" not in headers for _, _, headers, _ in web.requests)


def test_a_host_has_two_connections(web: SmallWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads read its pages, and also where a redirect leads to it."""
    other = web.url.replace("127.0.0.1", "localhost")
    web.add("/page", "x")
    for number in range(4):
        web.add(f"/moved{number}", status=302, Location=f"{web.url}/page")
    most, open_now, lock, open_page = 0, 0, threading.Lock(), Downloader._open

    @contextmanager
    def count(self: Downloader, url: httpx.URL, deadline: float) -> Iterator[httpx.Response]:
        nonlocal most, open_now
        is_counted = url.host == "127.0.0.1"
        with lock:
            open_now += is_counted
            most = max(most, open_now)
        time.sleep(0.05)
        try:
            with open_page(self, url, deadline) as response:
                yield response
        finally:
            with lock:
                open_now -= is_counted

    monkeypatch.setattr(Downloader, "_open", count)
    reader = downloader(respect_robots=False)
    urls = [f"{web.url}/page"] * 4 + [f"{other}/moved{number}" for number in range(4)]
    with ThreadPoolExecutor(8) as threads:
        assert {download.body for download in threads.map(reader.download, urls)} == {b"x"}
    assert most == 2


def test_a_robots_txt_of_500_kibibytes_is_read(web: SmallWeb) -> None:
    """RFC 9309 asks for at least these."""
    rules = b"User-agent: *\nDisallow: /other\n"
    web.add("/page", "text")
    web.replies["/robots.txt"] = Reply(rules + b"#" * (500 * 1024 - len(rules)))
    assert downloader().download(f"{web.url}/page").body == b"text"
