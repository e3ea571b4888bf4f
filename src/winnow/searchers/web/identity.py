"""The names under which the ledger stores searches of the web, which contain their month."""

import re
from datetime import UTC, datetime

_DATED = re.compile(r"[^/@]+/\d{4}-\d{2}@")


def get_current_month() -> str:
    """Return the current month in UTC, as in "2026-11"."""
    return datetime.now(UTC).strftime("%Y-%m")


def name_web_search(name: str, month: str, key: str) -> str:
    """Return the identity of an engine that searches the web.

    Args:
        name: Name of the engine.
        month: Month of the searches, as in "2026-11".
        key: Key of the engine's settings.
    """
    return f"{name}/{month}@{key}"


def is_web_search(identity: str) -> bool:
    """Return whether this identity is a web search, whose results cannot be reproduced."""
    return _DATED.match(identity) is not None
