"""Conversions to OpenVINO are those that were written; tests/readers/test_openvino.py has what they
compute.
"""

import logging
from pathlib import Path

import pytest

from winnow.modeling import openvino_export
from winnow.modeling.openvino_conversions import MODEL_FILE
from winnow.testing import make_tiny_causal_lm

pytest.importorskip("openvino_genai")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model."""
    return make_tiny_causal_lm(tmp_path / "lm", ["The quick brown fox"], context_length=200)


def test_a_changed_conversion_is_made_again(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One weight multiplied by -5 would give other replies under the same identity; so would a file
    that is missing.
    """
    target = openvino_export.convert_causal_lm(str(folder), tmp_path / "converted")
    weights = target / MODEL_FILE.replace(".xml", ".bin")
    original = weights.read_bytes()
    for change in (
        lambda: weights.write_bytes(bytes([original[0] ^ 0x80]) + original[1:]),
        weights.unlink,
    ):
        change()
        with caplog.at_level(logging.WARNING):
            assert openvino_export.convert_causal_lm(str(folder), tmp_path / "converted") == target
        assert "was changed since its conversion" in caplog.text
        assert weights.read_bytes() == original
        caplog.clear()
    (target / "files.json").unlink()  # a conversion of an earlier version is not known to be intact
    openvino_export.convert_causal_lm(str(folder), tmp_path / "converted")
    assert (target / "files.json").is_file()
