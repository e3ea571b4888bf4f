"""Folders that stages write to."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from winnow.errors import ConfigError


def check_outputs(
    setting: str, outputs: Sequence[tuple[str, ...]], varying: str = "retriever.name"
) -> None:
    """Raise ConfigError if two jobs write to the same place, of which the last would remain.

    Args:
        setting: Dotted name of the setting of the folder.
        outputs: Folder of each job, with what else its files are named by.
        varying: Setting that the message proposes as a part of the folder's name.
    """
    places = [(str(Path(folder)), *names) for folder, *names in outputs]
    for (folder, *_), count in Counter(places).items():
        if count > 1:
            raise ConfigError(
                f"{setting}={folder!r} is the folder of {count} jobs, of which the last would "
                f"remain. Give each its own, for example '{setting}={folder}/${{{varying}}}'."
            )
