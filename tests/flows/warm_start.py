"""Does once, when it is imported, what stages forked from that process would each do again."""

import gc
import sys
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).parent)
)  # the process from which others are forked has not the paths of pytest

from conftest import overrides
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

from flows.project.metrics import build_named_metric
from flows.settings.door import compose
from flows.stages.registry import list_stages
from winnow.identity.code import compute_module_digests
from winnow.reports.report import PLOTTED_METRICS

compose()
compose(overrides(Path("world")))
for name in (*PLOTTED_METRICS, "tokens"):
    build_named_metric(name)
compute_module_digests([f"flows.{stage.name}" for stage in list_stages()])
get_checkpoint_conversion_mapping("llama")
gc.freeze()  # else the first collection of each stage copies all memory of this process
