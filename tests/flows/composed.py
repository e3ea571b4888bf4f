"""Composes the small world's settings when it is imported, so that stages forked from that process need not do it again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the process from which others are forked has not the paths of pytest

from conftest import overrides

from flows.settings.door import compose

compose(overrides(Path("world")))
