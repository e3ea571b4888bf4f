"""Stages of the pipeline, one module each, run as `python -m flows.<stage>`. The implementation is
in `winnow`.
"""

import os
import sys
from gc import set_threshold  # `import gc` would hide flows.gc

# Switch off telemetry, and progress bars outside a terminal, unless the user has set these
# variables.
for _name, _value in {
    "DO_NOT_TRACK": "true",
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "true",
}.items():
    os.environ.setdefault(_name, _value)
set_threshold(
    10_000, 10, 10
)  # imports create many objects that stay, among which Python would look for cycles too often
if not sys.stderr.isatty():
    os.environ.setdefault("TQDM_DISABLE", "1")
