"""Pages of the site that are made from other files: README, CONTRIBUTING and CHANGELOG, docstrings
and comments of conf/.

MkDocs calls `on_config` when it starts, and `on_files` before it reads the pages (mkdocs.yml,
"hooks").
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from winnow.identity.markers import describe_parameters

ROOT = Path(__file__).parents[1]
_PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
_COMMAND = re.compile(r" *(?:#|python -m|make|torchrun|winnow) ")


def on_config(config: Any) -> Any:
    """Add a page per package or module to the contents, below "Reference"."""
    reference = next(entry["Reference"] for entry in config["nav"] if "Reference" in entry)
    reference.append({"Python": [{name: f"reference/python/{name}.md"} for name in list_modules()]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from other files."""
    pages = {name: _adapt_links((ROOT / source).read_text()) for name, source in _PAGES.items()}
    pages |= {
        "reference/commands.md": build_commands_page(),
        "reference/settings.md": build_settings_page(),
        **{
            f"reference/python/{name}.md": f"# winnow.{name}\n\n::: winnow.{name}\n"
            for name in list_modules()
        },
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def _adapt_links(text: str) -> str:
    """Make links of a file of the root folder those of a page of the site; links to other files
    become text.
    """
    for name, source in _PAGES.items():
        text = text.replace(f"]({source})", f"]({name})")
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\[([^\]]+)\]\((NOTICE|LICENSE|[\w/]+\.py)\)", r"\1", text)


def build_commands_page() -> str:
    """Build the page with the docstring of every command."""
    parts = [
        "# Commands\n\nEvery command takes settings as `name=value` words "
        "([settings](settings.md)), and `--help`.\n"
    ]
    for path in sorted((ROOT / "flows").glob("[a-z]*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        parts.append(f"## flows.{path.stem}\n\n{_fence_commands(docstring)}\n")
    return "\n".join(parts)


def _fence_commands(docstring: str) -> str:
    """Put paragraphs of commands into blocks of code."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(
        f"```sh\n{textwrap.dedent(text)}\n```" if _COMMAND.match(text) else text
        for text in paragraphs
    )


def build_settings_page() -> str:
    """Build the page with every choice of every group, and the settings that belong to no group."""
    config = (ROOT / "conf/config.yaml").read_text()
    parts = [
        (
            "# Settings\n\nA group has choices: `retriever=dense` takes "
            "`conf/retriever/dense.yaml`, and `retriever.engine.gpu=true` sets one of its "
            "settings. `python -m flows.sweep --help` lists the same; with `--cfg job`, a command "
            "prints its settings.\n"
        ),
        (
            "## Settings of no group\n\n```yaml\n"
            f"{config[config.index(chr(10) + '# Contexts per prompt') + 1 :].rstrip()}\n```\n"
        ),
    ]
    for group in sorted(path for path in (ROOT / "conf").iterdir() if path.is_dir()):
        parts.append(f"## {group.name}\n\n| choice | what | example |\n|---|---|---|")
        for path in sorted(group.rglob("*.yaml")):
            command, text = _read_comment(path)
            name = path.relative_to(group).with_suffix("").as_posix()
            parts.append(f"| `{group.name}={name}` | {_escape(text)} | `{_escape(command)}` |")
        parts.append("")
    return "\n".join([*parts, *_iter_component_tables()])


def _iter_component_tables() -> Iterator[str]:
    """Yield a table of the settings of each component that a choice names, from the annotations of
    its class.
    """
    texts = [path.read_text() for path in sorted((ROOT / "conf").rglob("*.yaml"))]
    targets = sorted(
        {target for text in texts for target in re.findall(r"_target_:\s*(winnow[\w.]+)", text)}
    )
    yield (
        "## Components\n\nWhat the settings of each component are, and which of them do not count "
        "in keys."
    )
    for target in targets:
        module, _, name = target.rpartition(".")
        yield f"\n### {name}\n\n`{target}`\n\n| setting | type | meaning |\n|---|---|---|"
        for setting, kind, meaning in describe_parameters(getattr(import_module(module), name)):
            yield f"| `{setting}` | {_escape(kind)} | {_escape(meaning)} |"


def _read_comment(path: Path) -> tuple[str, str]:
    """Return the command and the text of the comment with which a file of conf/ begins."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line.removeprefix("#").strip())
    return (lines[0], " ".join(lines[1:])) if lines else ("", "")


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def list_modules() -> list[str]:
    """Return the names of the packages and modules of `winnow`."""
    paths = (ROOT / "src/winnow").iterdir()
    return sorted(
        path.stem
        for path in paths
        if not path.name.startswith("_")
        and (path.suffix == ".py" or (path / "__init__.py").is_file())
    )
