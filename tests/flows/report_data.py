"""Reads the data that are embedded in a report's page."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any


def read_report_data(folder: Path) -> dict[str, Any]:
    """Return what the script of the page in a report's folder reads."""
    text = (folder / "index.html").read_text()
    encoded = text.partition('id="data">')[2].partition("</script>")[0]
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(encoded)))
    return data
