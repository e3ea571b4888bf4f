"""Names on the hub: their commits are recorded, keyed and loaded; one without a commit
is refused.
"""

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import Run, texts
from local_hub import serve_hub

from flows.project.artifacts import Project
from flows.project.cells import resolve_cell_artifact
from flows.project.models import resolve_reader_path
from flows.settings.commits import LOCK
from flows.settings.door import compose
from winnow.errors import ConfigError
from winnow.formats.hub import load_hub_rows
from winnow.testing import make_tiny_causal_lm, make_tiny_encoder

FIRST, SECOND = "1" * 40, "2" * 40


class _Hub(BaseHTTPRequestHandler):
    """Answers the hub's questions for the commit of a repository."""

    def do_GET(self) -> None:
        known = self.path.startswith(("/api/models/owner/lm", "/api/datasets/owner/set"))
        body = json.dumps(
            {"id": "owner/lm", "sha": SECOND} if known else {"error": "not found"}
        ).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def key(*words: str) -> str:
    cfg = compose(["sweep.closed_book_filter=false", "reader=folder", *words])
    return resolve_cell_artifact(Project(cfg)).key


def test_a_name_without_commit_is_refused_and_a_commit_is_part_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded commit has the same key as one written into the settings; another commit
    another.
    """
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError,
        match=r"owner/lm is a name on the Hugging Face hub without a commit.*flows.acquire",
    ):
        key("reader.base=owner/lm")
    with pytest.raises(ConfigError, match="owner/lm@main is a name"):
        key("reader.base=owner/lm@main")
    with pytest.raises(ConfigError, match="owner/set is a name"):
        key(f"reader.base=owner/lm@{FIRST}", "corpus=hub", "corpus.parser.path=owner/set")
    with pytest.raises(ConfigError, match="owner/encoder is a name"):
        key(
            f"reader.base=owner/lm@{FIRST}",
            "encoder=folder",
            "encoder.model.path=owner/encoder",
            "retriever=dense",
        )
    written = [key(f"reader.base=owner/lm@{commit}") for commit in (FIRST, SECOND)]
    LOCK.write_text(json.dumps({"owner/lm": FIRST}))
    assert key("reader.base=owner/lm") == written[0] != written[1]
    cfg = compose(["reader=folder", "reader.base=owner/lm"])
    assert resolve_reader_path(Project(cfg), cfg.reader, cfg.prompt) == f"owner/lm@{FIRST}"


def test_acquire_records_commits(run: Run, hub: str, tmp_path: Path) -> None:
    """Once: a second run leaves what is recorded; a repository that the hub does not
    have is named.
    """
    words = [
        "corpus=beir",
        "dataset=nq_open",
        "dataset.parser.path=own",
        "encoder=folder",
        "reader=folder",
        "reader.base=owner/lm",
    ]
    environment = {"HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0"}
    words += ["encoder.model.path=/nowhere"]
    assert f"commit {SECOND}" in run("acquire", *words, small=False, **environment).stdout
    assert json.loads((tmp_path / LOCK).read_text()) == {"owner/lm": SECOND}
    (tmp_path / LOCK).write_text(json.dumps({"owner/lm": FIRST}))
    run("acquire", *words, small=False, **environment)
    assert json.loads((tmp_path / LOCK).read_text()) == {"owner/lm": FIRST}
    failed = run(
        "acquire", *words, "reader.base=owner/none", small=False, check=False, **environment
    )
    assert "The hub does not give the commit of owner/none" in failed.stderr


def test_a_dry_run_asks_the_hub_for_sizes_and_for_weights_that_can_be_loaded(
    run: Run, tmp_path: Path
) -> None:
    """One model has safetensors, one pickles alone, and one is not there; nothing is recorded."""
    for name, file in (("lm", "model.safetensors"), ("old", "pytorch_model.bin")):
        folder = tmp_path / "hub" / "models" / "owner" / name
        folder.mkdir(parents=True)
        (folder / file).write_bytes(b"x" * 200_000_000 if name == "lm" else b"x")
    words = [
        "corpus=beir",
        "dataset=nq_open",
        "dataset.parser.path=own",
        "encoder=folder",
        "reader=folder",
        "dry_run=true",
    ]
    with serve_hub(tmp_path / "hub") as address:
        environment = {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0"}
        told = run(
            "acquire",
            *words,
            "reader.base=owner/lm",
            "encoder.model.path=owner/old",
            small=False,
            **environment,
        ).stdout
        unknown = run(
            "acquire",
            *words,
            "reader.base=owner/none",
            "encoder.model.path=x",
            small=False,
            **environment,
        ).stdout
    (lm,) = [line for line in told.splitlines() if "hub: owner/lm" in line]
    (old,) = [line for line in told.splitlines() if "hub: owner/old" in line]
    assert "0.2 GB" in lm
    assert "fetched when it is first used" in lm
    assert "no safetensors" in old
    assert "0.2 GB needed" in told
    assert "see the hub" in unknown
    assert not (tmp_path / LOCK).exists()


def test_weights_that_cannot_be_loaded_are_named_once_for_all_cells(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "hub" / "models" / "owner" / "old"
    folder.mkdir(parents=True)
    (folder / "pytorch_model.bin").write_bytes(b"x")
    words = [
        "corpus=beir",
        "dataset=nq_open",
        "dataset.parser.path=own",
        "reader=folder",
        "reader.base=/nowhere",
    ]
    words += ["encoder=folder", "encoder.model.path=owner/old", "grid={k:[1,2]}"]
    with serve_hub(tmp_path / "hub") as address:
        output = run("acquire", *words, small=False, HF_ENDPOINT=address, HF_HUB_OFFLINE="0").stdout
    assert output.count("no safetensors") == 1


def test_the_commit_is_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits of one repository in the hub's cache: each name loads its own weights."""
    import torch
    from huggingface_hub import constants

    from winnow.modeling.loading import load_causal_lm, load_encoder
    from winnow.modeling.sentence_encoder import SentenceEncoder
    from winnow.readers.local import LocalReader

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub.is_offline_mode", lambda: True)
    body = [text for _, text in texts()]
    for seed, commit in enumerate((FIRST, SECOND)):
        make_tiny_causal_lm(tmp_path / "models--owner--lm" / "snapshots" / commit, body, seed=seed)
        make_tiny_encoder(
            tmp_path / "models--owner--encoder" / "snapshots" / commit, body, seed=seed
        )
    names = [f"owner/lm@{commit}" for commit in (FIRST, SECOND)]
    first, second = (
        load_causal_lm(name, "float32", "cpu").model.get_input_embeddings().weight for name in names
    )
    assert not torch.equal(first, second)
    folder = tmp_path / "copy"
    shutil.copytree(tmp_path / "models--owner--lm" / "snapshots" / FIRST, folder)
    assert torch.equal(
        first, load_causal_lm(str(folder), "float32", "cpu").model.get_input_embeddings().weight
    )
    assert len({LocalReader(name, "x", dtype="float32").identity for name in names}) == 2
    encoders = [f"owner/encoder@{commit}" for commit in (FIRST, SECOND)]
    vectors = [
        SentenceEncoder(name, dtype="float32").encode_queries(["a town"]) for name in encoders
    ]
    assert abs(vectors[0] - vectors[1]).max() > 1e-3
    layers = [
        load_encoder(name, "float32", "cpu").model.get_input_embeddings().weight
        for name in encoders
    ]
    assert not torch.equal(*layers)


def test_data_files_are_part_of_the_key(tmp_path: Path) -> None:
    """A local file, one of several, and files that match a pattern; another content is another
    corpus.
    """
    (tmp_path / "a.jsonl").write_text('{"id": 1, "title": "t", "text": "x"}\n')
    words = ["corpus=hub", "corpus.parser.path=json"]
    for files in (
        f"{tmp_path}/a.jsonl",
        f"[{tmp_path}/a.jsonl]",
        f"{{train: '{tmp_path}/*.jsonl'}}",
    ):
        setting = f"+corpus.parser.options.data_files={files}"

        def corpus_key(setting: str = setting) -> str:
            return Project(compose([*words, setting])).corpus.key

        before = corpus_key()
        text = (tmp_path / "a.jsonl").read_text()
        (tmp_path / "a.jsonl").write_text(text.replace("x", "y"))
        assert corpus_key() != before
        (tmp_path / "a.jsonl").write_text(text)
        assert corpus_key() == before
    rows = list(load_hub_rows("json", "train", {"data_files": f"{tmp_path}/a.jsonl"}))
    assert rows == [{"id": 1, "title": "t", "text": "x"}]
