"""Mutated model folders: each loads, or is refused by name."""

import os
import random
import shutil
from pathlib import Path

import pytest
from mutations import mutate

from winnow.errors import WinnowError
from winnow.modeling.loading import check_model, load_causal_lm
from winnow.testing import make_tiny_causal_lm

CASES = int(os.environ.get("WINNOW_FUZZ", "2000")) // 50
"""Folders, each of which is loaded."""


def test_a_mutated_model_folder_loads_or_is_refused(tmp_path: Path) -> None:
    """One of its files changed, removed or of another architecture; a small model, so that no
    weights take long.
    """
    rng = random.Random(0)
    whole = make_tiny_causal_lm(tmp_path / "whole", ["some text"])
    names = sorted(file.name for file in whole.iterdir())
    for case in range(CASES):
        folder = tmp_path / str(case)
        shutil.copytree(whole, folder)
        file = folder / rng.choice(names)
        match rng.randrange(4):
            case 0:
                file.unlink()
            case 1 if file.name == "config.json":
                file.write_text(
                    file.read_text().replace(
                        "llama", rng.choice(["bert", "t5", "nothing", "mamba"])
                    )
                )
            case _:
                file.write_bytes(mutate(file.read_bytes()[: 2**20], rng))
        try:
            check_model(str(folder))
            load_causal_lm(str(folder), "float32", "cpu")
        except WinnowError:
            pass
        except MemoryError:
            pass  # a size of terabytes in the configuration
        except Exception as error:
            pytest.fail(f"case {case}, {file.name}: {type(error).__name__}: {str(error)[:300]}")
        finally:
            shutil.rmtree(folder)
