"""Winnow measures how retrieved passages affect the answers of language models."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from winnow.artifacts.frames import ReportFrames

__version__ = "0.1.0"


def load(folder: str | Path) -> "pd.DataFrame":
    """Read an artifact, such as predictions, as a data frame (see `winnow.artifacts.frames`)."""
    from winnow.artifacts.frames import load_frame

    return load_frame(Path(folder))


def load_steps(folder: str | Path) -> "pd.DataFrame":
    """Read a cell's requests, searches and shown passages as a data frame with a row per step."""
    from winnow.artifacts.frames import load_steps_frame

    return load_steps_frame(Path(folder))


def load_report(folder: str | Path) -> "ReportFrames":
    """Read the numbers of a report, by cell and by question, as pandas data frames."""
    from winnow.artifacts.frames import load_report_frames

    return load_report_frames(Path(folder))
