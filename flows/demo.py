"""Run the quick start from raw text to the report with `dvc repro`, under a temporary Prefect
server.

make demo
python -m flows.demo
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.tools.servers import run_server
from winnow.errors import WinnowError
from winnow.readers.child_processes import find_free_port


def main() -> None:
    """Run all stages that are out of date, and print where the results are."""
    if {"--help", "-h"} & set(sys.argv):
        print(__doc__ or "")
        return
    start_time = time.monotonic()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    try:
        if _run_dvc(["status", "--quiet", "dvc.yaml"], environment) == 0:
            print("All stages are up to date; nothing was run.")
        else:
            with prefect_server(environment) as url:
                print(f"Prefect server at {url}", flush=True)
                if _run_dvc(["repro"], {**environment, "PREFECT_API_URL": f"{url}/api"}):
                    sys.exit(
                        "The run failed; see the message above. Run `make demo` again to continue "
                        "from the failed stage."
                    )
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    _print_summary(time.monotonic() - start_time)


def _run_dvc(arguments: list[str], environment: dict[str, str]) -> int:
    """Run a DVC command and return its exit status."""
    return subprocess.run(
        [sys.executable, "-m", "dvc", *arguments], env=environment, check=False
    ).returncode


@contextmanager
def prefect_server(environment: dict[str, str]) -> Iterator[str]:
    """Start a Prefect server on a free port of 127.0.0.1 and stop it at the end.

    Yields:
        The address of the server.
    """
    home = Path(".prefect").resolve()
    home.mkdir(exist_ok=True)
    port = find_free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    variables = {**environment, "PREFECT_HOME": str(home)}
    with run_server("Prefect", command, f"{url}/api/health", home / "server.log", variables):
        yield url


def _print_summary(seconds: float) -> None:
    """Print where the results are and what comes next. The report stage has printed the table."""
    print(f"Done in {seconds / 60:.1f} minutes.\n")
    print(
        "1. Open reports/dvc/index.html: what the sweep found, with every chart, table, prompt and "
        "vote."
    )
    print("2. Read docs/tutorial/1_quick_start.md, which explains the page.")
    print("3. Ask about your own texts: docs/tutorial/2_your_data.md.\n")
    print(
        "`make ui` opens one page with links to this one and to MLflow's runs; `make prefect-ui` "
        "shows the flows."
    )


if __name__ == "__main__":
    main()
