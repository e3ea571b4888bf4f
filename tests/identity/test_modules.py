"""Where modules are, without importing more than the packages around them."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from winnow.identity.modules import (
    find_source,
    identify_without_source,
    is_in_standard_library,
    is_in_winnow,
)


def test_modules_belong_to_python_to_winnow_or_to_distributions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their place: only Winnow's and one's own have a source that counts."""
    (tmp_path / "my_plugin").mkdir()
    (tmp_path / "my_plugin/__init__.py").touch()
    (tmp_path / "my_plugin/parts.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert is_in_standard_library("json.decoder")
    assert not is_in_standard_library("my_plugin")
    assert is_in_winnow("winnow.records")
    assert not is_in_winnow("winnowing")
    assert find_source("my_plugin.parts") == tmp_path / "my_plugin/parts.py"
    assert find_source("winnow.records").name == "records.py"  # type: ignore[union-attr]
    assert [
        find_source(name)
        for name in ("json", "numpy.linalg", "nobody.there", "", "my_plugin.parts.Name")
    ] == [None] * 5
    assert identify_without_source("nobody") == "module nobody"


def test_a_package_that_says_where_its_modules_are_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is installed, and one of its modules is one's own; Winnow's own code counts wherever it
    is.
    """
    installed, own = tmp_path / "site-packages", tmp_path / "own"
    (installed / "plug_in").mkdir(parents=True)
    own.mkdir()
    (installed / "plug_in/__init__.py").write_text(f"__path__.append({str(own)!r})\n")
    (installed / "plug_in/theirs.py").touch()
    (own / "mine.py").touch()
    monkeypatch.syspath_prepend(installed)
    assert find_source("plug_in.mine") == own / "mine.py"
    assert find_source("plug_in.theirs") is None
    assert identify_without_source("six.moves") == ""


def test_a_loaded_package_says_where_its_modules_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that sets its places, such as OpenVINO, no module is imported to find another."""
    installed = tmp_path / "site-packages"
    (installed / "setter/inner").mkdir(parents=True)
    (installed / "setter/__init__.py").write_text("__path__ = list(__path__)\n")
    (installed / "setter/inner/__init__.py").write_text("raise AssertionError\n")
    monkeypatch.syspath_prepend(installed)
    importlib.import_module("setter")
    assert find_source("setter.inner.module") is None


def test_no_module_is_imported_to_find_another() -> None:
    """A class in a module is looked for as a module of it would be; PyTorch, which that module
    imports, is not loaded.
    """
    code = (
        "import sys; from winnow.identity.modules import find_source\nassert "
        "find_source('winnow.training.sft') and not "
        "find_source('winnow.training.sft.ReplyTrainer')\nassert not "
        "find_source('transformers.trainer_utils.EvalPrediction') and not "
        "find_source('peft.config')\nprint([name for name in ('torch', 'peft', "
        "'winnow.training.sft') if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
