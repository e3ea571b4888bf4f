"""The `winnow` command, which maintains ledgers (stores of model calls) and projects between runs.

The stages of an experiment are run with `python -m flows.<stage>`.
"""

import argparse
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from winnow.errors import LedgerError, WinnowError
from winnow.ledger import tools
from winnow.ledger.merging import import_calls, merge_ledger
from winnow.ledger.postgres import PostgresStore
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.stores import is_server, open_store
from winnow.sweeps.shards import list_ledgers

_FOR_DATABASES = ("export", "import", "merge", "prune", "release")
"""Commands that take the URL of a database too."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `winnow ledger <command> <file>` or `winnow gc`. Errors go to stderr with exit code 1."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["gc"]:
        sys.exit(_run_gc(words[1:]))
    options = _build_parser().parse_args(words)
    try:
        print(_run_command(options))
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except sqlite3.Error as error:
        sys.exit(
            f"The ledger {options.ledger} could not be read or written ({error}). Stop other "
            "programs that use it, and run the command again."
        )


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="winnow", description=__doc__)
    subcommands = parser.add_subparsers(required=True, metavar="{ledger,gc}")
    subcommands.add_parser(
        "gc",
        help="list or remove the artifacts and calls of a project that nothing uses any more",
        add_help=False,
    )
    ledger = subcommands.add_parser("ledger", help="inspect or maintain a ledger file")
    commands = ledger.add_subparsers(dest="command", required=True)
    for name, description in (
        ("size", "print the calls, bytes, tokens and seconds of each engine"),
        (
            "prune",
            (
                "delete the calls of an engine, calls from before a day, recorded failures, or "
                "replies without text"
            ),
        ),
        ("export", "write every call to a JSON Lines file"),
        ("import", "add the calls of an exported JSON Lines file"),
        ("merge", "add the calls of another ledger, for example from another machine"),
        ("check", "read every call and count the damaged ones"),
        ("repair", "set damaged calls aside, so that they are repeated"),
        (
            "release",
            (
                "free the calls that processes of other hosts, or processes that have ended, have "
                "claimed"
            ),
        ),
    ):
        command = commands.add_parser(name, help=description, description=description)
        address = ", or postgresql://USER@HOST/DATABASE" if name in _FOR_DATABASES else ""
        command.add_argument("ledger", help=f"the ledger, for example data/ledger.sqlite{address}")
        if name in ("export", "import"):
            command.add_argument(
                "file", type=Path, help="the exported file, compressed if it ends with .gz"
            )
        if name == "merge":
            command.add_argument("other", help=f"the other ledger, a file{address}")
        if name == "prune":
            command.add_argument(
                "--engine", help="delete only calls of this engine, named as `size` prints it"
            )
            command.add_argument(
                "--before",
                type=_day,
                help="delete only calls from before this day, such as 2026-01-31",
            )
            command.add_argument(
                "--failed",
                action="store_true",
                help="delete only recorded failures, so that these calls are repeated",
            )
            command.add_argument(
                "--empty",
                action="store_true",
                help="delete only replies without text, so that these calls are repeated",
            )
            command.add_argument(
                "--shards",
                action="store_true",
                help="also delete them from the ledgers of shards in the folder next to this one",
            )
    return parser


def _run_gc(words: Sequence[str]) -> int:
    """Run `python -m flows.gc` in the current folder's project, and return its exit status."""
    if not Path("flows/gc.py").is_file():
        print(
            "`winnow gc` reads the settings of a project: run it in the folder that contains "
            "flows/ and conf/.",
            file=sys.stderr,
        )
        return 1
    return subprocess.run([sys.executable, "-m", "flows.gc", *words], check=False).returncode


def _day(text: str) -> float:
    """Convert a day like "2026-01-31" to a Unix timestamp. argparse shows this name in errors."""
    return datetime.fromisoformat(text).timestamp()


def _run_command(options: argparse.Namespace) -> str:
    """Run the command that was chosen and return its output."""
    if options.command in _FOR_DATABASES and is_server(options.ledger):
        with open_store(options.ledger) as database:
            return _change_or_copy_calls(options, database)
    store = open_store(options.ledger)
    if not isinstance(store, SqliteStore):
        raise LedgerError(
            f"`winnow ledger {options.command}` is for files of SQLite; received {options.ledger}, "
            f"a database. Commands for databases: {', '.join(_FOR_DATABASES)}."
        )
    path = Path(store.path)
    if options.command != "import" and not path.is_file():
        raise LedgerError(
            f"There is no ledger at {path}. The sweeps of a project write to data/ledger.sqlite."
        )
    if options.command == "repair":
        return f"{tools.repair_ledger(path)} damaged calls set aside"
    with SqliteStore(path) as ledger:
        match options.command:
            case "size":
                lines = [
                    f"{summary.engine}  {summary.kind}: {summary.calls} calls, "
                    f"{summary.result_bytes / 1e6:.1f} MB, {summary.tokens_in} tokens in, "
                    f"{summary.tokens_out} out, {summary.seconds:.0f} s"
                    for summary in tools.summarize_calls(ledger)
                ]
                return "\n".join([*lines, f"{len(ledger)} calls in all"])
            case "check":
                return _check_ledger(ledger)
            case "prune":
                return _prune(options, ledger, list_ledgers(path.parent / "shards"))
            case _:
                return _change_or_copy_calls(options, ledger)


def _prune(
    options: argparse.Namespace, ledger: SqliteStore | PostgresStore, shards: Sequence[Path] = ()
) -> str:
    """Delete calls from a ledger and, with --shards, from those of the shards next to it."""
    conditions = {name: getattr(options, name) for name in ("before", "failed", "empty")}
    engines = [options.engine] if options.engine is not None else []
    text = f"{tools.prune_calls(ledger, engines=engines, **conditions)} calls deleted"
    if shards and not options.shards:
        return f"{text}. A sweep merges {shards[0].parent} again: --shards prunes it too."
    for path in shards:
        with SqliteStore(path) as shard:
            count = tools.prune_calls(shard, engines=engines, **conditions)
        text += f", {count} in {path}"
    return text


def _change_or_copy_calls(options: argparse.Namespace, ledger: SqliteStore | PostgresStore) -> str:
    """Run a command that deletes calls, or copies them from or to a ledger; return its output."""
    if options.command == "prune":
        return _prune(options, ledger)
    if options.command == "release":
        return (
            f"{ledger.release_lapsed_claims(elsewhere=True)} claims released; claims of living "
            "processes of this host are kept"
        )
    if options.command == "export":
        return f"{tools.export_calls(ledger, options.file)} calls written to {options.file}"
    if options.command == "import":
        return import_calls(ledger, options.file).describe()
    return merge_ledger(ledger, options.other).describe()


def _check_ledger(ledger: SqliteStore) -> str:
    """Return a message that a ledger is intact; raise LedgerError if it has damaged calls."""
    damaged_keys, set_aside = tools.find_damaged_calls(ledger), tools.count_set_aside_calls(ledger)
    if damaged_keys:
        keys = ", ".join(
            [key.hex()[:12] for key in damaged_keys[:5]] + ["..."] * (len(damaged_keys) > 5)
        )
        raise LedgerError(
            f"{len(damaged_keys)} of {len(ledger)} calls in {ledger.path} are damaged ({keys}). A "
            "run "
            "makes them again when it needs them; `winnow ledger repair` sets all of them aside "
            "now."
        )
    earlier = f"; {set_aside} damaged ones were set aside earlier" if set_aside else ""
    return f"{ledger.path} is intact: {len(ledger)} calls{earlier}"


if __name__ == "__main__":
    main()
