"""Errors of a command: one line instead of a stack trace."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from winnow.errors import WinnowError

_INTERRUPTED = 130
"""Exit status that shells report for a process that was ended by Ctrl-C."""
_UNUSABLE_PATHS = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
)
"""Errors of paths that the user chose."""


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """Exit with one line instead of a stack trace on a WinnowError, an unusable path or Ctrl-C."""
    try:
        yield
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except OSError as error:
        if error.errno not in _UNUSABLE_PATHS:
            raise
        sys.exit(
            f"{type(error).__name__}: {error.filename} cannot be used ({error.strerror}). Choose "
            "folders that you may write to by paths.data, paths.models, paths.ledger and "
            "tracking.uri, and shorter names."
        )
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Finished calls and artifacts are kept; the same command continues.",
            file=sys.stderr,
        )
        sys.exit(_INTERRUPTED)
