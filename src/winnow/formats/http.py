"""Headers of HTTP replies."""

import email.utils
import time
from collections.abc import Mapping


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in a Retry-After header (s, ms or date), or None without a valid one."""
    try:
        if (value := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(value) / 1000)
        if (value := headers.get("retry-after")) is None:
            return None
        if value[:1].isalpha():
            return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
        return max(0.0, float(value))
    except (ValueError, OverflowError):
        return None
