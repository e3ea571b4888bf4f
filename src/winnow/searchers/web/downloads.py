"""Download of web pages within limits of time, size and redirects, and as robots.txt allows."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING

import httpx

from winnow.searchers.web.addresses import AddressError, GuardedTransport, check_scheme

if TYPE_CHECKING:
    import protego

_MAX_REDIRECTS = 5
_MAX_ROBOTS_BYTES = 500 * 1024
"""Maximum size of a robots.txt (RFC 9309 asks for at least 500 KiB)."""
_CONNECTIONS_PER_HOST = 2
_TYPES = ("text/html", "application/xhtml+xml", "text/plain")


class UnreadableError(Exception):
    """Raised when a page cannot be downloaded. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Download:
    """A page as it was received. `charset` comes from the HTTP header, or is ""."""

    body: bytes
    media_type: str
    charset: str


@dataclass
class Downloader:
    """Downloads pages; several threads can share it.

    Args:
        user_agent: Name under which pages are requested; robots.txt may name what comes before its
            "/" (RFC 9309).
        timeout: Time for a page, with its redirects, in seconds.
        max_bytes: Maximum size of a page in bytes, after decompression.
        respect_robots: Whether pages that robots.txt disallows are not read. If robots.txt cannot
            be had because of an error of the server, the site is not read (RFC 9309).
        allow_private: Whether pages on private networks and on this machine are read.
    """

    user_agent: str
    timeout: float
    max_bytes: int
    respect_robots: bool
    allow_private: bool
    _robots: dict[str, "protego.Protego"] = field(default_factory=dict, repr=False)
    _host_slots: dict[str, threading.Semaphore] = field(
        default_factory=lambda: defaultdict(lambda: threading.Semaphore(_CONNECTIONS_PER_HOST)),
        repr=False,
    )

    def __post_init__(self) -> None:
        """Create the client, which keeps no cookies and uses no proxy."""
        self._client = httpx.Client(
            transport=GuardedTransport(allow_private=self.allow_private),
            headers={"User-Agent": self.user_agent, "Accept": ", ".join(_TYPES)},
            trust_env=False,
        )
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def download(self, url: str) -> Download:
        """Download a page and follow its redirects, checking each like the first address.

        Raises:
            UnreadableError: If the page cannot be had, is not text, or exceeds a limit.
        """
        target, seconds_left = _parse_url(url), self.timeout
        for _ in range(_MAX_REDIRECTS + 1):
            with self._host_slots[target.host]:
                start = time.monotonic()
                deadline = start + seconds_left
                if self.respect_robots and not self._get_robots(target, deadline).can_fetch(
                    str(target), self.user_agent.partition("/")[0]
                ):
                    raise UnreadableError("disallowed by robots.txt")
                with self._open(target, deadline) as response:
                    if not response.has_redirect_location:
                        return self._read_page(response, deadline)
                    location = response.headers["location"]
                seconds_left -= (
                    time.monotonic() - start
                )  # waiting for a host's other downloads does not count
            target = _parse_url(location, target)
        raise UnreadableError(f"more than {_MAX_REDIRECTS} redirects")

    @contextmanager
    def _open(self, url: httpx.URL, deadline: float) -> Iterator[httpx.Response]:
        """Open a URL; failures, also while the response is read, become an UnreadableError."""
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            raise UnreadableError(f"not received in {self.timeout:g} s")
        try:
            check_scheme(url)
            with self._client.stream("GET", url, timeout=remaining_seconds) as response:
                yield response
        except AddressError as error:
            raise UnreadableError(str(error)) from error
        except httpx.TimeoutException as error:
            raise UnreadableError(f"not received in {self.timeout:g} s") from error
        except httpx.InvalidURL as error:  # of a redirect, which httpx parses too
            raise UnreadableError(f"no valid address: {error}"[:300]) from error
        except httpx.HTTPError as error:
            raise UnreadableError(f"{type(error).__name__}: {error}"[:200]) from error

    def _read_page(self, response: httpx.Response, deadline: float) -> Download:
        """Read the body of a response that is a page."""
        if response.status_code != httpx.codes.OK:
            raise UnreadableError(f"HTTP status {response.status_code}")
        media_type = (
            response.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
        )
        if media_type not in _TYPES:
            raise UnreadableError(f"no text, but {media_type[:100]!r}")
        return Download(
            self._read_bytes(response, self.max_bytes, deadline),
            media_type,
            response.charset_encoding or "",
        )

    def _read_bytes(self, response: httpx.Response, limit: int, deadline: float) -> bytes:
        """Read a body of at most `limit` bytes before the deadline."""
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > limit:
                raise UnreadableError(f"larger than {limit} bytes")
            if time.monotonic() > deadline:
                raise UnreadableError(f"not received in {self.timeout:g} s")
        return bytes(body)

    def _get_robots(self, url: httpx.URL, deadline: float) -> "protego.Protego":
        """Return the rules of a site, which are downloaded once."""
        from protego import Protego

        site = f"{url.scheme}://{url.netloc.decode('ascii')}"
        if site not in self._robots:
            self._robots[site] = Protego.parse(self._download_robots(site, deadline))
        return self._robots[site]

    def _download_robots(self, site: str, deadline: float) -> str:
        """Download a robots.txt; it is empty, which allows everything, if there is none.

        Raises:
            UnreadableError: If it cannot be had because of a failure, so that the site must not be
                read.
        """
        target = _parse_url(f"{site}/robots.txt")
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                with self._open(target, deadline) as response:
                    if response.has_redirect_location:
                        target = _parse_url(response.headers["location"], target)
                    elif response.is_success:
                        return self._read_bytes(response, _MAX_ROBOTS_BYTES, deadline).decode(
                            "utf-8-sig", errors="replace"
                        )
                    elif response.is_client_error:
                        return ""
                    else:
                        raise UnreadableError(f"HTTP status {response.status_code}")
        except UnreadableError as error:
            raise UnreadableError(f"robots.txt cannot be had: {error}") from error
        return ""  # RFC 9309: more than five redirects count as a missing file


def _parse_url(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """Parse a URL, which may be relative to another one."""
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        check_scheme(url)
    except (httpx.InvalidURL, AddressError, UnicodeError, ValueError) as error:
        raise UnreadableError(f"no valid address: {error}"[:300]) from error
    return url
