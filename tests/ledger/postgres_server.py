"""A PostgreSQL server of this machine's packages, in a folder of its own, on the loopback
interface.
"""

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest


class PostgresServer:
    """A server that can be stopped and started again.

    Attributes:
        url: Address of its database, without a password.
    """

    def __init__(self) -> None:
        """Make an empty database in a temporary folder, owned by another user than root, as whom
        PostgreSQL refuses to run.
        """
        programs = [shutil.which("initdb"), *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))]
        found = next((program for program in programs if program), None)
        if found is None:
            pytest.skip("PostgreSQL's server (initdb) is not installed")
        self._programs = Path(found).resolve().parent
        self._user = _find_other_user() if os.getuid() == 0 else None
        self._temporary = tempfile.TemporaryDirectory(prefix="winnow-postgres-")
        self._folder = Path(self._temporary.name)
        if self._user:
            shutil.chown(self._folder, self._user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"postgresql://winnow@127.0.0.1:{self._port}/postgres"
        self._run("initdb", "-D", str(self._folder), "-U", "winnow", "--auth=trust", "--no-sync")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = (
            f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c "
            "fsync=off"
        )
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._folder), "-l", log, "-o", options, "-w", "start")

    def stop(self) -> None:
        """Stop the server at once; connections break."""
        self._run("pg_ctl", "-D", str(self._folder), "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self._programs / program), *words],
            user=self._user,
            cwd=self._folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )


def _find_other_user() -> str:
    names = [entry.pw_name for entry in pwd.getpwall()]
    return "postgres" if "postgres" in names else "nobody"
