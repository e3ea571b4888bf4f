"""The page from which all others are opened: those of the sweeps, MLflow's and Prefect's."""

import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from winnow.artifacts.files import write_texts
from winnow.errors import ConfigError
from winnow.reports.owner import OWNER, read_owner

MLFLOW_PORT = 5000
"""Port of MLflow's pages, unless another one is chosen; the sweeps' pages have the next one."""

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Winnow</title>
<style>
  :root { color-scheme: light dark; }
  body { font: 16px/1.6 system-ui, sans-serif; margin: 2rem auto; max-width: 52rem;
         padding: 0 1rem; }
  td { padding: .2rem 1.2rem .2rem 0; }
</style>
</head>
<body>
<h1>Winnow</h1>
<h2>Pages of sweeps</h2>
{% if sweeps %}
<table>
{% for sweep in sweeps %}
<tr><td><a href="{{ sweep.address }}">{{ sweep.name }}</a></td>
<td>{{ sweep.of }}</td><td>{{ sweep.written }}</td></tr>
{% endfor %}
</table>
{% else %}
<p>None has been written yet: <code>python -m flows.report</code> with the settings of a sweep.</p>
{% endif %}
<h2>MLflow: compare runs</h2>
<ul>
<li><a href="{{ server }}">{{ server }}</a></li>
{% for name, address in views.items() %}
<li><a href="{{ address }}">{{ name }}</a></li>
{% endfor %}
</ul>
<h2>Prefect: what ran when</h2>
<p><a href="http://127.0.0.1:4200">http://127.0.0.1:4200</a>,
while <code>make prefect-ui</code> runs</p>
</body>
</html>
"""


def format_cell_address(key: str, port: int = MLFLOW_PORT + 1) -> str:
    """Return the `flows.tools.page_server` address that leads to the newest page with a cell."""
    return f"http://127.0.0.1:{port}/cell/{key}"


def write_start_page(reports: Path, server: str, views: Mapping[str, str]) -> Path:
    """Write the start page into the folder of the reports, and return its path.

    Args:
        reports: Folder in which the sweeps' pages are, at any depth; they are listed newest first.
        server: Address of MLflow's server.
        views: Address of the page of each sweep in MLflow, by the name of the sweep.
    """
    from jinja2 import Environment

    pages = [
        page
        for page in reports.rglob("index.html")
        if page.parent != reports and (page.parent / OWNER).is_file()
    ]
    sweeps = []
    for page in sorted(pages, key=lambda page: -page.stat().st_mtime):
        try:
            owner = read_owner(page.parent / OWNER)
        except ConfigError:
            continue  # a page of another program
        timestamp = time.strftime("%Y-%m-%d %H:%M", time.localtime(page.stat().st_mtime))
        name = f"{owner['sweep']} ({page.parent.relative_to(reports)})"
        of = f"{owner['dataset']}, {owner['corpus']}"
        sweeps.append(
            {
                "address": quote(page.relative_to(reports).as_posix()),
                "name": name,
                "of": of,
                "written": timestamp,
            }
        )
    text = Environment(autoescape=True, trim_blocks=True).from_string(_TEMPLATE)
    write_texts(reports, {"index.html": text.render(sweeps=sweeps, server=server, views=views)})
    return reports / "index.html"
