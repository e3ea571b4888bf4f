"""Files by address, through the flow: a server on this machine has files of the papers' form."""

import gzip
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from flows.acquire import STAGE, acquire, iter_assets, plan_downloads
from flows.project.artifacts import Project
from flows.settings.composition import list_groups, list_options, load_option
from flows.settings.door import compose, reopen
from flows.settings.identity import iter_asset_nodes
from winnow.datasets.dpr_biencoder import DprBiencoder
from winnow.errors import AssetError

ROW = {
    "dataset": "nq_dev",
    "question": "who wrote emma",
    "answers": ["Jane Austen"],
    "positive_ctxs": [
        {"title": "Emma", "text": "Emma is a novel by Jane Austen.", "passage_id": "7"}
    ],
    "negative_ctxs": [],
    "hard_negative_ctxs": [],
}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it so)
        """Stay quiet."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which it is served; the working directory is another folder."""
    folder, work = tmp_path / "site", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    (folder / "biencoder-nq-dev.json.gz").write_bytes(gzip.compress(json.dumps([ROW]).encode()))
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def words(address: str) -> list[str]:
    """Settings of DPR's development questions from this address, with nothing else to fetch."""
    return [
        "dataset=dpr_biencoder", f"dataset.asset.address={address}/biencoder-nq-dev.json.gz",
        "corpus=fid_json", "corpus.parser.path=none", "encoder=folder", "encoder.model.path=none",
        "reader=openai", "reader.base=x", "reader@joint.teacher.reader=openai",
        "joint.teacher.reader.base=x",
    ]  # fmt: skip


def test_a_file_without_a_published_checksum_is_pinned_by_its_first_download(
    site: tuple[Path, str],
) -> None:
    """hub.lock.json records it; keys contain it; another file under the address is refused from
    then on.
    """
    folder, address = site
    cfg = compose(words(address))
    before = Project(reopen(cfg)).questions.key
    plan = plan_downloads([compose(words(address))])
    assert [row["checksum"] for row in plan.rows] == ["of the first download", "its content"]
    assert "2.0 GB needed" in plan.note
    assert not Path("assets").exists()
    acquire([cfg])
    assert [question.text for question in DprBiencoder(cfg.dataset.parser["path"], gold=True)] == [
        "who wrote emma"
    ]
    ((recorded, sha256),) = json.loads(Path("hub.lock.json").read_text()).items()
    assert cfg.dataset.asset is not None
    assert recorded == cfg.dataset.asset["address"]
    after = Project(reopen(cfg)).questions.key
    assert before != after
    assert acquire([reopen(cfg)]).rows[0][""] == "present already"
    (folder / "biencoder-nq-dev.json.gz").write_bytes(gzip.compress(b"[]"))
    shutil.rmtree("assets/dpr/biencoder-nq-dev")
    with pytest.raises(AssetError, match=f"expected {sha256}"):
        acquire([reopen(cfg)])


def test_a_file_of_one_s_own_takes_the_place_of_the_download() -> None:
    """Nothing is fetched for a group whose settings read another path."""
    assert (
        list(
            iter_assets(
                compose([*words("http://127.0.0.1:1"), "dataset.parser.path=/data/mine.json"])
            )
        )
        == []
    )


def test_what_nothing_can_fetch_is_named_before_the_first_download(
    site: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A download of hours would end with a model that is not there."""
    absent = {
        "asset": "no address",
        "folder": "/models/own",
        "": "missing: yours by reader.base=...",
    }
    rows = acquire([compose([*words(site[1]), "reader=folder", "reader.base=/models/own"])]).rows
    assert rows[-1] == absent
    assert (
        "/models/own has no address (missing: yours by reader.base=...); what has"
        in capsys.readouterr().err
    )


def test_a_goal_without_a_reader_fetches_none() -> None:
    """flows.pipeline needs only the assets of the groups that its goal reads; an encoder is read by
    an estimator, and by some retrievers.
    """
    words = ["reader=smollm2", "reader@joint.teacher.reader=openai", "joint.teacher.reader.base=x"]
    groups = ("corpus", "dataset", "retriever", "encoder")
    fetched = {
        retriever: [{asset.path for asset in iter_assets(cfg, some)} for some in ((), groups)]
        for retriever in ("bm25", "dense")
        for cfg in [compose([*words, f"retriever={retriever}"])]
    }
    for every, needed in fetched.values():
        assert every - needed >= {"assets/smollm2"}
        assert len(every) == 4
    assert fetched["dense"][1] - fetched["bm25"][1] == {"assets/minilm"}
    assert len(fetched["bm25"][1]) == 2


def test_every_file_of_the_papers_has_an_address() -> None:
    """Full-size experiments and data sets name what `acquire` fetches, with a size and a rule for
    the checksum.
    """
    full = [
        name
        for name in list_options("experiment")
        if name in {f"post_fusion/{part}_table1" for part in ("nq", "triviaqa", "squad")}
    ]
    assert len(full) == 3
    choices = [
        "corpus=psgs_w100",
        *(f"dataset={name}" for name in ("dpr_biencoder", "dpr_results", "nq_open", "triviaqa")),
    ]
    for word in [
        *choices,
        *(f"experiment=post_fusion/{name}_table1" for name in ("nq", "triviaqa", "squad")),
    ]:
        web = [asset for asset in iter_assets(compose([word])) if asset.scheme in ("http", "https")]
        assert web
        assert all(asset.is_unpinned and asset.size >= 10**7 for asset in web)


def test_a_dry_run_lists_what_has_no_address(site: tuple[Path, str]) -> None:
    """Files of one's own by their setting, names of the hub, and what only a cell of the grid
    reads.
    """
    settings = [
        "corpus=jsonl",
        "corpus.parser.path=mine.jsonl",
        "dataset=popqa_long_tail",
        "estimator=minilm_reranker",
    ]
    grid = ["+grid.retriever=[bm25,dense]", "encoder=e5", "reader=smollm2"]
    rows = plan_downloads([compose([*settings, *grid])]).rows
    by_folder = {str(row["folder"]): row for row in rows}
    assert by_folder["mine.jsonl"][""] == "missing: yours by corpus.parser.path=..."
    assert by_folder["assets/popqa/popqa.tsv"][""] == "missing: yours by dataset.parser.path=..."
    names = [row["asset"] for row in rows if str(row["asset"]).startswith("hub: ")]
    assert any("e5" in name for name in names)
    assert any("MiniLM" in name or "minilm" in name for name in names)
    Path("mine.jsonl").write_text("{}")
    assert "mine.jsonl" not in {row["folder"] for row in plan_downloads([compose(settings)]).rows}


def test_a_dry_run_lists_models_in_folders_that_are_not_there(site: tuple[Path, str]) -> None:
    """The evaluator of CRAG's authors, a reader and two encoders; a file is listed by the first
    setting that names it.
    """
    words = [
        "experiment=crag/published_popqa",
        "reader.base=/models/own",
        "corpus.parser.path=contexts.txt",
    ]
    encoders = [
        "encoder=dpr",
        "encoder.model.path=/models/c",
        "encoder.model.query_path=/models/q",
        "retriever=dense",
    ]
    crag = {row["folder"]: row[""] for row in plan_downloads([compose(words)]).rows}
    assert crag["assets/crag/evaluator"] == "missing: yours by estimator.base=..."
    assert crag["/models/own"] == "missing: yours by reader.base=..."
    assert crag["contexts.txt"] == "missing: yours by corpus.parser.path=..."
    dense = {
        row["folder"]
        for row in plan_downloads([compose([*encoders, "reader=openai", "reader.base=x"])]).rows
    }
    assert {"/models/c", "/models/q"} <= dense


def test_a_teacher_s_model_is_not_fetched_with_the_group_that_names_it() -> None:
    """It is that of a training, which may not be needed."""
    cfg = compose(["reader=openai", "reader.base=gpt-4o-mini"])
    assert "assets/smollm2" not in {asset.path for asset in iter_assets(cfg)}


def test_a_group_may_have_several_assets() -> None:
    """Those of the parts of a joined corpus; a part that is read from elsewhere needs none."""
    paths = {
        asset.path for asset in iter_assets(compose(["corpus=rage_beir", "dataset=rage_beir"]))
    }
    assert {"assets/beir/nq", "assets/beir/hotpotqa"} <= paths
    cfg = compose(
        ["corpus=rage_beir", "dataset=rage_beir", "corpus.parser.parts.nq.path=/mine.jsonl"]
    )
    assert "assets/beir/nq" not in {asset.path for asset in iter_assets(cfg)}


def test_every_section_with_an_asset_is_a_setting_of_the_stage() -> None:
    """DVC runs the stage again if one of them changes."""
    groups = [group for group in list_groups() if group not in ("experiment", "runner")]
    sections = {
        group.partition("/")[0]
        for group in groups
        for option in list_options(group)
        if list(iter_asset_nodes({group: load_option(group, option)}))
    }
    assert sections <= set(STAGE.settings)
    assert {"corpus", "dataset", "reader", "encoder"} <= sections
