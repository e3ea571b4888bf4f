"""Open one page from which all others are reached: those of the sweeps, MLflow's over the runs, and
Prefect's.

All are served on 127.0.0.1 until Ctrl-C. A cell in a sweep's page leads to its MLflow run, and the
run's description back.

python -m flows.ui
python -m flows.ui --port 5001 tracking.uri=sqlite:////data/mlflow.db
"""

import argparse
import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from flows.settings.door import compose
from flows.settings.overrides import complete_overrides
from flows.stages.tracking import VIEW, resolve_uri
from flows.tools.page_server import serve_pages
from flows.tools.servers import is_port_free, run_server
from flows.tools.start_page import MLFLOW_PORT, write_start_page
from winnow.errors import ConfigError, WinnowError
from winnow.tracking.stores import find_cell_run, find_views

_LOG = Path(".mlflow/server.log")


def main() -> None:
    """Start the server, print the page addresses, and open the start page if a browser exists."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.ui",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port",
        type=int,
        default=MLFLOW_PORT,
        help=f"port of MLflow on 127.0.0.1 ({MLFLOW_PORT}); the sweeps' pages have the next one",
    )
    parser.add_argument(
        "settings",
        nargs="*",
        help="settings of the store, such as tracking.uri=sqlite:////data/mlflow.db",
    )
    options = parser.parse_args()
    try:
        _serve(options.port, options.settings)
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")


def _serve(port: int, overrides: list[str]) -> None:
    """Serve the pages until Ctrl-C.

    Raises:
        ConfigError: If the port is taken, or if the store cannot be opened.
    """
    tracking = compose(complete_overrides(overrides)).tracking
    uri = resolve_uri(str(tracking.uri))
    views = find_views(uri, VIEW)
    if uri.startswith(("http://", "https://")):
        print(_format_pages(uri.rstrip("/"), views))
        return
    for one in (port, port + 1):
        if not is_port_free(one):
            raise ConfigError(
                f"Port {one} is taken, perhaps by pages that are open already. Choose another with "
                "--port."
            )
    server_url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
        "--workers", "1", "--backend-store-uri", uri, "--artifacts-destination",
        str(Path(tracking.artifacts).resolve()),
    ]  # fmt: skip
    # Winnow uses none of the server's background jobs, for which it would start ten processes.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    reports, start = Path("reports"), f"http://127.0.0.1:{port + 1}"
    addresses = {
        name: _format_address(server_url, experiment_id) for name, experiment_id in views.items()
    }
    write_start_page(reports, server_url, addresses)

    def find_run(key: str) -> str | None:
        run = find_cell_run(uri, key)
        return f"{server_url}/#/experiments/{run[0]}/runs/{run[1]}" if run else None

    with (
        run_server("MLflow", command, f"{server_url}/health", _LOG, environment) as server,
        serve_pages(reports, port + 1, find_run),
        suppress(KeyboardInterrupt),
    ):
        print(f"{_format_pages(server_url, views)}\nAll pages: {start}", flush=True)
        if (
            sys.platform == "darwin"
            or os.environ.get("DISPLAY")
            or os.environ.get("WAYLAND_DISPLAY")
        ):
            webbrowser.open(start)
        server.wait()


def _format_pages(server_url: str, views: Mapping[str, str]) -> str:
    """Return a line with the address of the page of each sweep."""
    lines = [
        f"{name}: {_format_address(server_url, experiment_id)}"
        for name, experiment_id in views.items()
    ]
    return "\n".join(
        [f"MLflow at {server_url} (Ctrl-C ends it)", *(lines or ["No sweep has been run yet."])]
    )


def _format_address(server_url: str, experiment_id: str) -> str:
    return f"{server_url}/#/experiments/{experiment_id}/runs?viewStateShareKey={VIEW}"


if __name__ == "__main__":
    main()
