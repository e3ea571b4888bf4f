"""The `winnow` command: tools for use between runs. Stages are `python -m flows.<stage>`."""

import argparse
import sqlite3
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from winnow.errors import LedgerError, WinnowError
from winnow.ledger import tools
from winnow.ledger.sqlite import SqliteStore


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `winnow ledger <command> <file>`; errors go to stderr with exit code 1."""
    chosen = _parser().parse_args(arguments)
    try:
        print(_run(chosen))
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except sqlite3.Error as error:
        sys.exit(f"The ledger {chosen.ledger} could not be read or written ({error}). Stop what else uses it, and run again.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="winnow", description=__doc__)
    ledger = parser.add_subparsers(required=True, metavar="ledger").add_parser("ledger", help="look after a ledger file")
    commands = ledger.add_subparsers(dest="command", required=True)
    for name, text in (
        ("size", "calls, bytes, tokens and seconds, by engine"),
        ("prune", "delete the calls of an engine, those before a day, recorded failures, or replies without text"),
        ("export", "write every call as JSON lines"),
        ("import", "add the calls of an exported file"),
        ("merge", "add the calls of another ledger, such as another machine's"),
        ("check", "read every call, and count those that are damaged"),
        ("repair", "set the damaged calls aside, so that they are made again"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("ledger", type=Path, help="the ledger file, for example data/ledger.sqlite")
        if name in ("export", "import", "merge"):
            command.add_argument("file", type=Path)
        if name == "prune":
            command.add_argument("--engine", help="as `size` prints it")
            command.add_argument("--before", type=_day, help="a day, as 2026-01-31")
            command.add_argument("--failed", action="store_true", help="recorded failures only, so that they are tried again")
            command.add_argument(
                "--empty", action="store_true", help="replies without text only, so that they are tried again"
            )
    return parser


def _day(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _run(chosen: argparse.Namespace) -> str:
    if chosen.command != "import" and not chosen.ledger.is_file():
        raise LedgerError(f"There is no ledger at {chosen.ledger}. The sweeps of a project keep theirs in data/ledger.sqlite.")
    if chosen.command == "repair":
        return f"{tools.repair(chosen.ledger)} damaged calls set aside"
    with SqliteStore(chosen.ledger) as ledger:
        match chosen.command:
            case "size":
                lines = [
                    f"{s.engine}  {s.kind}: {s.calls} calls, {s.result_bytes / 1e6:.1f} MB, {s.tokens_in} tokens in, "
                    f"{s.tokens_out} out, {s.seconds:.0f} s"
                    for s in tools.summarize_calls(ledger)
                ]
                return "\n".join([*lines, f"{len(ledger)} calls in all"])
            case "prune":
                conditions = {name: getattr(chosen, name) for name in ("engine", "before", "failed", "empty")}
                return f"{tools.prune(ledger, **conditions)} calls deleted"
            case "export":
                return f"{tools.export_calls(ledger, chosen.file)} calls written to {chosen.file}"
            case "import":
                return f"{tools.import_calls(ledger, chosen.file)} calls added"
            case "merge":
                return f"{tools.merge(ledger, chosen.file)} calls added"
            case _:
                return _check(ledger)


def _check(ledger: SqliteStore) -> str:
    damaged, set_aside = tools.damaged_calls(ledger), tools.calls_set_aside(ledger)
    if damaged:
        keys = ", ".join([key.hex()[:12] for key in damaged[:5]] + ["..."] * (len(damaged) > 5))
        raise LedgerError(
            f"{len(damaged)} of {len(ledger)} calls in {ledger.path} are damaged ({keys}). Runs make them again; "
            "`winnow ledger repair` sets them aside at once."
        )
    former = f"; {set_aside} damaged ones were set aside earlier" if set_aside else ""
    return f"{ledger.path} is intact: {len(ledger)} calls{former}"


if __name__ == "__main__":
    main()
