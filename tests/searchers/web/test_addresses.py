"""Only public addresses are requested, however a name or a redirect hides a private one."""

import socket

import httpx
import pytest
from small_web import SmallWeb

from winnow.searchers.web import addresses
from winnow.searchers.web.addresses import (
    AddressError,
    GuardedTransport,
    is_public,
    resolve_public_address,
)
from winnow.searchers.web.downloads import Downloader, UnreadableError

PRIVATE = (
    "127.0.0.1", "127.1.2.3", "0.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:0001::",
    "2001:0000:4136:e378:8000:63bf:80ff:fffe",
)  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_not_public(address: str) -> None:
    """Of this machine, of private and link-local networks, of groups, and IPv4 inside IPv6."""
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses(address: str) -> None:
    """Addresses that anyone can reach."""
    assert is_public(address)


def downloader(*, allow_private: bool = False) -> Downloader:
    """A downloader without robots.txt."""
    return Downloader("test", 5, 10_000, respect_robots=False, allow_private=allow_private)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://localhost/", "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/", "http://0/", "http://2130706433/", "http://0x7f.1/",
        "https://[::ffff:127.0.0.1]/", "file:///etc/passwd", "ftp://example.org/",
        "gopher://127.0.0.1/", "//127.0.0.1/", "http:///nothing", "javascript:alert(1)",
        "data:text/plain,x", "", "http://[",
    ],
)  # fmt: skip
def test_a_page_at_a_private_address_is_not_read(url: str) -> None:
    """Neither by its IP address, in whatever notation, nor by name, nor by another scheme."""
    with pytest.raises(
        UnreadableError,
        match=r"private address|only http and https|no valid address|cannot be resolved",
    ):
        downloader().download(url)


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/", "http://10.0.0.1/x", "file:///etc/passwd", "http://[::1]/"],
)
def test_a_redirect_to_a_private_address_is_not_followed(
    web: SmallWeb, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """The check is repeated for every hop."""
    monkeypatch.setattr(
        addresses, "is_public", lambda address: address == "127.0.0.1" or is_public(address)
    )
    web.add("/start", status=302, Location=target)
    with pytest.raises(UnreadableError, match=r"private address|only http and https"):
        downloader().download(f"{web.url}/start")
    assert web.paths() == ["/start"]


def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may have several addresses; the public one does not excuse the other."""
    entries = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
        for address in ("8.8.8.8", "10.0.0.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entries)
    with pytest.raises(AddressError, match=r"10\.0\.0\.1"):
        resolve_public_address("two.example")
    assert resolve_public_address("two.example", allow_private=True) == "8.8.8.8"


def test_the_connection_is_made_to_the_checked_address(
    web: SmallWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to another address the second time gains nothing; the server still sees
    the name.
    """
    port = int(web.url.rpartition(":")[2])
    answers = iter(["127.0.0.1", "203.0.113.1"])
    resolve = socket.getaddrinfo

    def answer(host: str, *arguments: object, **options: object) -> object:
        if host != "rebinding.example":
            return resolve(host, *arguments, **options)  # type: ignore[arg-type]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), 0))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    web.add("/page", "text")
    with httpx.Client(transport=GuardedTransport(allow_private=True), trust_env=False) as client:
        assert client.get(f"http://rebinding.example:{port}/page").text == "text"
    assert web.requests[0][2]["Host"] == f"rebinding.example:{port}"
    assert next(answers) == "203.0.113.1"


def test_the_certificate_is_that_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS is told the name, although the connection is made to an IP address."""
    sent: list[httpx.Request] = []

    class Inner(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            sent.append(request)
            return httpx.Response(200)

    transport = GuardedTransport()
    monkeypatch.setattr(transport, "_inner", Inner())
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 0))],
    )
    with httpx.Client(transport=transport) as client:
        client.get("https://name.example/path?q=1")
    assert str(sent[0].url) == "https://8.8.8.8/path?q=1"
    assert sent[0].headers["host"] == "name.example"
    assert sent[0].extensions["sni_hostname"] == "name.example"
