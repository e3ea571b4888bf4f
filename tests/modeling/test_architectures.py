"""What OpenVINO runs, by a model's configuration."""

import json
from pathlib import Path

from winnow.modeling.architectures import explain_unsupported


def test_a_configuration_tells_what_openvino_runs(tmp_path: Path) -> None:
    """Other architectures, windows that are in use, and positions that depend on the length of the
    text.
    """
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({"model_type": "llama", "rope_parameters": {"rope_type": "llama3"}}, ""),
        ({"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": False}, ""),
        ({"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": True}, "window"),
        (
            {"model_type": "qwen3", "layer_types": ["full_attention", "sliding_attention"]},
            "window",
        ),
        ({"model_type": "llama", "rope_scaling": {"type": "dynamic"}}, "length"),
        ({"model_type": "phi3", "rope_parameters": {"rope_type": "longrope"}}, "length"),
        ({"model_type": "qwen2", "rope_scaling": {"type": "yarn"}}, "length"),
        ({"model_type": "mamba"}, "mamba is not among the tested ones"),
        ({}, "None is not among"),
    )
    for config, reason in cases:
        (tmp_path / "config.json").write_text(json.dumps(config))
        found = explain_unsupported(str(tmp_path))
        assert (found is None) == (reason == ""), config
        assert reason in (found or "")


def test_a_folder_that_does_not_exist_yet_is_supported(tmp_path: Path) -> None:
    """A training will make it, from a model that was checked."""
    assert explain_unsupported(str(tmp_path / "later")) is None
