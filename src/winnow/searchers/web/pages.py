"""Web pages as passages: the main text of a page without navigation, advertisements and markup."""

import codecs
import hashlib
import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt

from winnow.identity.values import check_values
from winnow.records import Passage
from winnow.requests import Snapshot
from winnow.searchers.web.apis import SearchResult
from winnow.searchers.web.downloads import Download, Downloader, UnreadableError
from winnow.text.words import cut_words, repair_surrogates

_META_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)
_META_BYTES = 4096
"""Bytes at the beginning of a page in which HTML may declare its encoding, generously."""


@dataclass
class PageReader:
    """A reader of pages that a search found, with trafilatura for text and protego for robots.txt.

    Args:
        timeout: Time for the download of a page, with its redirects, in seconds.
        max_bytes: Maximum size of a page in bytes.
        max_words: Number of words after which a text is cut.
        respect_robots: Whether pages that a site's robots.txt disallows are not read.
        user_agent: Name under which pages are requested, whose first word robots.txt may name.
        allow_private: Whether pages on private networks and on this machine are read.
    """

    revision: ClassVar[int] = 2

    timeout: Annotated[float, Gt(0)] = 20.0
    max_bytes: Annotated[int, Ge(1)] = 5_000_000
    max_words: Annotated[int, Ge(1)] = 5_000
    respect_robots: bool = True
    user_agent: str = "Winnow/1 (research on retrieval-augmented question answering)"
    allow_private: bool = False

    def __post_init__(self) -> None:
        check_values("search.engine.pages", self)

    @cached_property
    def downloader(self) -> Downloader:
        """Return the downloader, which is created on first use."""
        return Downloader(
            self.user_agent, self.timeout, self.max_bytes, self.respect_robots, self.allow_private
        )

    def close(self) -> None:
        """Close the connections."""
        if "downloader" in self.__dict__:
            self.__dict__.pop("downloader").close()

    def read(self, result: SearchResult) -> tuple[Passage | None, Snapshot]:
        """Read the page of a search result.

        Returns:
            The page as a passage whose id is its URL, and a snapshot. If the page cannot be read,
            the passage has the excerpt that the search engine showed, or is None if there is none,
            and the note of the snapshot says why.
        """
        timestamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        digest = title = text = note = ""
        try:
            download = self.downloader.download(result.url)
            digest = hashlib.sha256(download.body).hexdigest()
            title, text = extract_text(download)
            note = "" if text else "the page has no text"
        except UnreadableError as error:
            note = str(error)
        except Exception as error:
            note = f"its text cannot be extracted: {type(error).__name__}: {error}"[:200]
        text = cut_words(text, self.max_words) or result.excerpt
        passage = Passage(result.url, result.title or title, text) if text.strip() else None
        return passage, Snapshot(result.url, timestamp, digest, note)


def extract_text(download: Download) -> tuple[str, str]:
    """Extract the title and the main text of a page; both are empty if it has none.

    A page is decoded by its HTTP header, by its own declaration, or by a guess, in this order.
    Broken HTML is repaired as far as it can be.
    """
    text = _decode(download)
    if download.media_type == "text/plain":
        return "", _normalize(text)
    from trafilatura import bare_extraction

    logging.getLogger("trafilatura").setLevel(
        logging.CRITICAL
    )  # the snapshot says what it could not read
    document = bare_extraction(text, include_comments=False, favor_recall=True, with_metadata=True)
    if document is None or isinstance(document, dict):
        return "", ""
    return _normalize(document.title or ""), _normalize(document.text or "")


def _decode(download: Download) -> str:
    """Decode a page; invalid bytes are replaced."""
    encoding = _find_encoding(download.charset) or _find_declared_encoding(download.body)
    if encoding:
        return download.body.decode(encoding, errors="replace")
    from trafilatura.utils import decode_file

    return decode_file(download.body)


_MEANT = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
"""Encodings that browsers use for names of smaller ones (WHATWG Encoding Standard, section 4.2)."""


def _find_encoding(name: str) -> str:
    """Return the encoding of text that a page means by a name, or "" if Python knows none."""
    try:
        codec = codecs.lookup(name)
    except LookupError:
        return ""
    return _MEANT.get(codec.name, codec.name) if codec._is_text_encoding else ""


def _find_declared_encoding(body: bytes) -> str:
    """Return the encoding that a page declares in its text, or ""; it cannot be UTF-16, in which
    the declaration itself could not be read (WHATWG HTML, section 13.2.3.2).
    """
    match = _META_CHARSET.search(body[:_META_BYTES])
    encoding = _find_encoding(match.group(1).decode()) if match else ""
    return "utf-8" if encoding.startswith("utf-16") else encoding


def _normalize(text: str) -> str:
    """Return a text on one line, so that sentences that lines divide are whole."""
    return " ".join(repair_surrogates(text).replace("\0", " ").split())
