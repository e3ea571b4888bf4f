"""Where a converted model is, and when it is converted again."""

import subprocess
import sys
from pathlib import Path

import pytest

from winnow.modeling import openvino_conversions
from winnow.modeling.openvino_conversions import find_converted, get_conversion_folder
from winnow.modeling.openvino_export import convert_causal_lm
from winnow.testing import make_tiny_causal_lm

pytest.importorskip("openvino_genai")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model."""
    return make_tiny_causal_lm(tmp_path / "lm", ["The quick brown fox"])


def test_the_folder_is_named_by_all_that_made_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights and precision, versions of the libraries, and the revision of the conversion."""
    own = get_conversion_folder(str(folder), tmp_path, "full", "float32")
    others = [
        get_conversion_folder(str(folder), tmp_path, "int8", "float32"),
        get_conversion_folder(str(folder), tmp_path, "full", "bfloat16"),
    ]
    for name, value in (("version", lambda _: "9.9"), ("REVISION", 999)):
        with monkeypatch.context() as patch:
            patch.setattr(openvino_conversions, name, value)
            others.append(get_conversion_folder(str(folder), tmp_path, "full", "float32"))
    with monkeypatch.context() as patch:
        patch.setattr("openvino.get_version", lambda: "9.9")
        others.append(get_conversion_folder(str(folder), tmp_path, "full", "float32"))
    assert len({own, *others}) == 6


def test_another_file_in_the_folder_is_not_read(folder: Path, tmp_path: Path) -> None:
    """A template put there would change prompts whose identity is still the model's."""
    target = convert_causal_lm(str(folder), tmp_path)
    assert find_converted(str(folder), tmp_path) == target
    (target / "added_tokens.json").write_text("{}")
    assert find_converted(str(folder), tmp_path) is None


def test_the_first_look_reports_nothing(folder: Path, tmp_path: Path) -> None:
    """OpenVINO's telemetry is not imported, although a reader looks for a conversion first."""
    code = (
        "import sys; from winnow.readers.local import LocalReader; "
        f"reader = LocalReader({str(folder)!r}, 't', 'float32', runtime='openvino', "
        f"converted={str(tmp_path)!r}); reader.text; print(sys.modules['openvino_telemetry'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
