"""Guard against requests to private addresses, to which a web page could otherwise redirect."""

import ipaddress
import socket

import httpx

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv6 addresses that contain an IPv4 address in their last 32 bits (RFC 6052)."""


class AddressError(Exception):
    """Raised for a forbidden address: of a scheme other than http(s), or of a private network."""


class GuardedTransport(httpx.BaseTransport):
    """A transport of httpx that connects to public addresses only.

    The host name is resolved once and the connection is made to the address that was checked, so
    that a name that resolves to another address a moment later (DNS rebinding) does not pass.
    Connections are not reused.

    Args:
        allow_private: Whether addresses of private networks and of this machine are allowed.
    """

    def __init__(self, *, allow_private: bool = False) -> None:
        """Create the transport."""
        self.allow_private = allow_private
        self._inner = httpx.HTTPTransport(
            trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the checked address of its host.

        Raises:
            AddressError: If the scheme is not http(s), or if the host has an address that is not
                public.
        """
        check_scheme(request.url)
        host = request.url.host
        address = resolve_public_address(host, allow_private=self.allow_private)
        guarded = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return self._inner.handle_request(guarded)

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def check_scheme(url: httpx.URL) -> None:
    """Raise AddressError unless a URL is http(s) and names a host."""
    if url.scheme not in ("http", "https") or not url.host:
        raise AddressError(f"only http and https addresses are read; received {str(url)[:200]!r}")


def resolve_public_address(host: str, *, allow_private: bool = False) -> str:
    """Return an IP address of a host, all of whose addresses must be public unless `allow_private`.

    Raises:
        AddressError: If the host has an address that is not public, or none.
    """
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressError(f"the host {host!r} cannot be resolved ({error})") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    if not allow_private:
        for address in addresses:
            if not is_public(address):
                raise AddressError(f"{host!r} has the private address {address}, which is not read")
    if not addresses:
        raise AddressError(f"the host {host!r} has no address")
    return addresses[0]


def is_public(address: str) -> bool:
    """Return whether an IP address (or the IPv4 address inside an IPv6 one) is public."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if embedded := ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None):
            return is_public(str(embedded))
        if ip in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
    return ip.is_global and not ip.is_multicast
