"""Removal of secrets from external texts, such as server errors, which may repeat a key."""

import base64
import re
from urllib.parse import quote

MASK = "[key]"
"""Text in place of a secret."""
_MIN_PIECE = 12
"""Minimum length of a masked piece of a secret; shorter ones may occur in a text by chance."""
_PREFIX = re.compile(
    r"(sk-(ant-api\d\d-|or-v\d-|proj-|svcacct-)?|hf_|gsk_|xai-|pplx-|AIza|Bearer )"
)
"""Prefix that all keys of a provider have, which reveals nothing."""


def mask_secret(text: str, secret: str) -> str:
    """Replace a secret, its escaped forms and pieces of 12+ characters with "[key]".

    Args:
        text: Text to be shown or logged. Mask it before it is cut, so that no cut leaves a shorter
            piece.
        secret: Secret, or "" for none.
    """
    if not secret:
        return text
    base64_form = base64.b64encode(secret.encode()).decode()
    for form in (
        secret,
        repr(secret)[1:-1],  # with escaped control characters
        quote(secret, safe=""),
        base64_form.rstrip("=")[:-1] if len(secret) >= _MIN_PIECE else base64_form,
    ):
        text = text.replace(form, MASK)
    body = _PREFIX.sub("", secret, count=1)
    pieces = {body[start : start + _MIN_PIECE] for start in range(len(body) - _MIN_PIECE + 1)}
    parts, position = [], 0
    while position < len(text):
        end = position
        while text[end : end + _MIN_PIECE] in pieces:
            end += 1
        if end > position:
            parts.append(MASK)
            position = end + _MIN_PIECE - 1
        else:
            parts.append(text[position])
            position += 1
    return "".join(parts)
