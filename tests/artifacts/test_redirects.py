"""Redirects that a download may follow."""

from contextlib import nullcontext

import httpx
import pytest

from winnow.artifacts.redirects import check_redirect
from winnow.errors import AssetError


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("http://example.org/a", "which is not encrypted"),
        ("https://169.254.169.254/a", "which is in a private network"),
        ("https://[::1]/a", "which is in a private network"),
        ("https://8.8.8.8/a", ""),
    ],
)
def test_redirects_by_their_target(target: str, message: str) -> None:
    """From an https address; a public https address is followed."""
    reply = httpx.Response(
        302, headers={"Location": target}, request=httpx.Request("GET", "https://1.1.1.1/a")
    )
    with pytest.raises(AssetError, match=message) if message else nullcontext():
        check_redirect(reply)
