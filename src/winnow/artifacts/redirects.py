"""A check that refuses redirects of downloads to an unencrypted address or a private network."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from winnow.errors import AssetError

if TYPE_CHECKING:
    import httpx


def check_redirect(reply: httpx.Response) -> None:
    """Check the target of a redirect before it is followed. Use this as an httpx response hook.

    Addresses in settings are not checked, because a mirror may be in a private network. For the
    same reason, a redirect may stay on the same host.

    Raises:
        AssetError: If the redirect leads from https to http, or to a private, loopback or
            link-local address.
    """
    if not reply.has_redirect_location:
        return
    source = reply.request.url
    target = source.join(reply.headers["Location"])
    if source.scheme == "https" and target.scheme != "https":
        raise AssetError(
            f"{source} redirects to {target}, which is not encrypted. Give an address that is "
            "served over https."
        )
    if target.host != source.host and not _is_public(target.host):
        raise AssetError(
            f"{source} redirects to {target}, which is in a private network. If this is intended, "
            "use that address in place of the first one."
        )


def _is_public(host: str) -> bool:
    """Return whether all addresses of a host are public, or cannot be resolved."""
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return True  # the download will fail with its own error
    return all(
        ipaddress.ip_address(str(address).partition("%")[0]).is_global for address in addresses
    )
