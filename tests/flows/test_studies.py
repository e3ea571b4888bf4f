"""The Post-Fusion study through the flows: every experiment on the small world, and a reader behind
an API.
"""

import json
import re
from pathlib import Path

import pytest
from conftest import Run, overrides

from winnow.testing.chat_server import ChatServer

KEY = "sk-winnow-test-0123456789abcdef"
SMALLER = {
    "positions": ["k=2", "grid.placement.rule.order=[shuffled,1,2]"],
    "distractors": ["k=2", "depth=6", "corpus.name=long", "corpus.parser.path=long.jsonl"],
}
"""Grids that twelve towns can fill."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table1", "positions", "distractors"])
def test_an_experiment_renders_its_part_beside_the_paper(
    prepared: Run, world: Path, tmp_path: Path, name: str
) -> None:
    """Sweep and report by one file; what the paper does not state says so. test_full_size.py has
    the other tables.
    """
    rows = map(json.loads, (world / "corpus.jsonl").read_text().splitlines())
    long = [
        {**row, "text": " ".join([row["text"]] * 20)} for row in rows
    ]  # distractors have 60 words
    (tmp_path / "long.jsonl").write_text("\n".join(map(json.dumps, long)))
    words = [
        f"experiment=post_fusion/{name}",
        "sweep.limit=4",
        "decoding.max_new_tokens=4",
        *SMALLER.get(name, ["k=2"]),
    ]
    prepared("pipeline", *words)
    page = (tmp_path / f"reports/post_fusion/{name}/report.md").read_text()
    if name == "positions":
        assert "gold_at_1" in page
        assert "gold_at_2" in page
        assert "shuffled" in page
    elif name == "distractors":
        assert "distracting effect" in page
        assert all(
            f"distractors={kind}" in page for kind in ("retrieved", "hard", "easy", "random")
        )
    else:
        assert "## Beside the paper: Post-Fusion as Fallback" in page
        assert "not reported" in page


def api(url: str, *more: str) -> list[str]:
    """The settings that put the server in place of the local reader."""
    kept = [w for w in overrides(Path("x")) if w.startswith(("sweep", "depth", "closed_book"))]
    engine = [f"reader.engine.base_url={url}", "reader.engine.api_key_variable=OPENAI_API_KEY"]
    return ["reader=openai", "reader.base=gpt-4o-mini", *engine, *kept, *more]


def data(world: Path) -> list[str]:
    """The small world's corpus, questions and encoder."""
    return [
        w
        for w in overrides(world)
        if not w.startswith(("reader", "training", "sweep", "depth", "closed_book"))
    ]


def test_a_sweep_over_an_api_is_repeatable_and_never_shows_its_key(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """Closed book, dry run with its cost, sweep, report; the key is sent, and stands in no file and
    no output.
    """
    server = ChatServer(
        reply=lambda p: "unknown" if len(p) % 2 else "Mx Nelra",
        fault_rule=lambda _, n: "500" if n == 1 else None,
    )
    with server.serve() as url:
        words = [
            *data(world),
            *api(url, "strategy=concatenation,concat_pf", "k=2", "reader.engine.budget.money=1"),
        ]
        env = {"OPENAI_API_KEY": KEY}
        outputs = [prepared("closed_book", *data(world), *api(url), small=False, **env)]
        outputs.append(prepared("sweep", "-m", *words, "dry_run=true", small=False, **env))
        assert re.search(r"0\.000\d to 0\.000\d", outputs[-1].stdout)
        calls = server.calls
        rendered = [*data(world), *api(url, "k=2", "reader.engine.dialect=vllm", "dry_run=true")]
        outputs.append(prepared("sweep", *rendered, small=False, **env))
        assert "The first prompt of the reader, as its server renders it:" in outputs[-1].stdout
        assert "<assistant>" in outputs[-1].stdout
        assert server.calls == calls
        outputs.append(prepared("sweep", "-m", *words, small=False, **env))
        assert server.calls > calls
        assert "dollars" in outputs[-1].stdout
        calls = server.calls
        outputs.append(prepared("sweep", "-m", *words, small=False, **env))
        outputs.append(prepared("report", "-m", *words, small=False, **env))
        assert server.calls == calls
        server.fault_rule = lambda *_: "refuse"
        outputs.append(
            prepared("sweep", *data(world), *api(url, "k=3"), small=False, check=False, **env)
        )
    assert "HTTP 401" in outputs[-1].stderr
    assert f"Bearer {KEY}" in server.authorization_headers
    assert not [t for t in outputs if KEY in t.stdout + t.stderr]
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    cells = json.loads((tmp_path / "reports/towns/metrics.json").read_text())
    assert all(cell["money"][0] > 0 for cell in cells)


def test_empty_replies_are_shown_and_asked_again_on_request(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """A content filter stops half of the replies: a column and a note say so, and
    `sweep.retry_empty` requests only these.
    """
    server = ChatServer(
        reply=lambda _: "Mx Nelra",
        fault_rule=lambda prompt, _: "filter" if len(prompt) % 2 else None,
    )
    with server.serve() as url:
        words = [*data(world), *api(url, "k=2", "sweep.closed_book_filter=false")]
        prepared("sweep", *words, small=False, OPENAI_API_KEY=KEY)
        first = server.calls
        prepared("report", *words, small=False, OPENAI_API_KEY=KEY)
        report = (tmp_path / "reports/towns/report.md").read_text()
        (cell,) = json.loads((tmp_path / "reports/towns/metrics.json").read_text())
        assert 0 < cell["empty"][0] < 1
        assert "> empty: more than 2% in 1 of 1 cells" in report
        server.fault_rule = lambda *_: None
        prepared("sweep", *words, small=False, OPENAI_API_KEY=KEY)
        assert server.calls == first
        server.fault_rule = lambda prompt, _: "filter"
        other_words = [word.replace("k=2", "k=1") for word in words]
        prepared("sweep", *other_words, small=False, OPENAI_API_KEY=KEY)
        server.fault_rule, other_calls = lambda *_: None, server.calls - first
        assert other_calls == 10
        first += other_calls
        again = (*words, "sweep.retry_empty=true")
        done = prepared("sweep", *again, small=False, OPENAI_API_KEY=KEY)
        assert "1 other finished cells have replies without text" in done.stdout
        first -= other_calls
        assert server.calls - other_calls == first + round(cell["empty"][0] * first)
        prepared("report", *words, small=False, OPENAI_API_KEY=KEY)
        (cell,) = json.loads((tmp_path / "reports/towns/metrics.json").read_text())
        assert cell["empty"][0] == 0


def test_a_budget_ends_a_sweep_and_finished_cells_stay(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """Exit code 1 with a message; a rerun with more budget makes only the rest."""
    server = ChatServer(reply=lambda _: "x")
    with server.serve() as url:
        prepared("closed_book", *data(world), *api(url), small=False, OPENAI_API_KEY=KEY)
        before = dict(server.received)
        words = [*data(world), *api(url, "k=2")]
        done = prepared(
            "sweep",
            *words,
            "reader.engine.budget.tokens=350",
            small=False,
            check=False,
            OPENAI_API_KEY=KEY,
        )
        assert done.returncode == 1
        assert "raise reader.engine.budget" in done.stderr
        assert 0 < server.calls - sum(before.values()) < 10
        prepared("sweep", *words, small=False, OPENAI_API_KEY=KEY)
    assert set(server.received.values()) == {1}


def test_a_missing_key_and_a_missing_price_are_told_first(prepared: Run, world: Path) -> None:
    """Before anything is asked."""
    words = [*data(world), *api("https://example.org/v1"), "sweep.closed_book_filter=false"]
    done = prepared("sweep", *words, small=False, check=False, OPENAI_API_KEY="")
    assert "set the environment variable OPENAI_API_KEY" in done.stderr
    priced = [*words, "reader.base=unheard-of", "reader.engine.budget.money=1"]
    done = prepared("sweep", *priced, small=False, check=False, OPENAI_API_KEY=KEY)
    assert "has no price" in done.stderr
