"""The quick start as a user runs it, cut down to 6 questions: real DVC, Prefect server, MLflow,
data and weights.
"""

import json
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from conftest import ROOT, environment
from mlflow import MlflowClient
from pages import copy_project, read_all, read_blocks, run_script

from flows.demo import prefect_server
from flows.tools.servers import run_server
from winnow.artifacts.tables import read_predictions
from winnow.modeling.chat import render_chat
from winnow.modeling.devices import resolve_dtype
from winnow.modeling.loading import load_text_interface
from winnow.modeling.openvino_conversions import find_converted
from winnow.readers.child_processes import find_free_port
from winnow.readers.local import LocalReader
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message
from winnow.strategies.unknown import is_unknown

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
SMALL = """
groups: {experiment: quick_start}
set:
  sweep.limit: 6
  closed_book.limit: 10
  score.splits: [dev]
  dataset.split.dev: 10
  training.mix.answered: 6
  training.mix.unknown: 1
  training.mix.crowded: 1
  training.evaluation.limit: 2
  grid.k: [1, 2]
  grid.placement: [retrieved, gold_last]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the small settings; assets that lie here are taken along, else
    they are fetched.
    """
    folder = tmp_path_factory.mktemp("project")
    copy_project(folder)
    if (ROOT / "assets").is_dir():
        shutil.copytree(ROOT / "assets", folder / "assets")
    (folder / "overrides.yaml").write_text(SMALL)
    return folder


@pytest.mark.slow
def test_the_quick_start_end_to_end(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages are flow runs with artifacts, cells are runs to compare, the report is there; then
    nothing is left to do.
    """
    monkeypatch.chdir(project)
    with prefect_server(environment()) as url:
        run_script("dvc repro", project, PREFECT_API_URL=f"{url}/api")
        flows = read_all(f"{url}/api", "flow_runs")
        artifacts = read_all(f"{url}/api", "artifacts")
    assert {run["state_type"] for run in flows} == {"COMPLETED"}
    assert len(flows) == 10  # no cell reads scores, so that their stage is no run
    assert {"sweep", "report", "train-reader", "retrieve"} <= {
        artifact["key"] for artifact in artifacts
    }

    client = MlflowClient(f"sqlite:///{project / 'mlflow.db'}")
    runs = client.search_runs(
        [client.get_experiment_by_name("quick_start").experiment_id], "tags.stage = 'sweep'"
    )  # type: ignore[union-attr]
    assert len(runs) == 1 + 4 * 2 * 2
    cells = json.loads((project / "reports/dvc/metrics.json").read_text())
    assert {(c["strategy"], c["k"], c["gold"]) for c in cells} == {
        (r.data.params["strategy"], int(r.data.params["k"]), r.data.params["gold"]) for r in runs
    }
    for path in (project / "data/predictions").glob("*/predictions.parquet"):
        predictions = read_predictions(path)
        assert len(predictions) == 6
        assert all(one.unknown == is_unknown(one.answer) for one in predictions)
        assert all(one.usage[0].role == "reader" for one in predictions)

    output = run_script("dvc repro", project)
    assert "up to date" in output
    assert "Running stage" not in output


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_mlflows_pages_show_the_sweep(project: Path) -> None:
    """In a real browser: `make ui` names a page with EM, %Unk, strategy, k and gold in view; six
    runs stand side by side.
    """
    client = MlflowClient(f"sqlite:///{project / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("quick_start").experiment_id  # type: ignore[union-attr]
    results = client.search_runs([experiment], "tags.stage = 'sweep' and params.k = '2'")
    compared, golds = ("concatenation", "post_fusion", "concat_pf"), ("retrieved", "gold_last")
    cells = {
        (run.data.params["strategy"], run.data.params["gold"]): run.info.run_id for run in results
    }
    runs = [cells[strategy, gold] for strategy in compared for gold in golds]
    port = find_free_port()
    command = [sys.executable, "-m", "flows.ui", "--port", str(port)]
    with subprocess.Popen(
        command,
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            assert f"MLflow at http://127.0.0.1:{port}" in server.stdout.readline()
            name, _, address = server.stdout.readline().strip().partition(": ")
            assert name == "quick_start"
            listed = browse(address, project)
            compared_page = f"http://127.0.0.1:{port}/#/compare-runs?runs={json.dumps(runs)}&experiments={json.dumps([experiment])}"
            page = browse(compared_page, project)
            key = next(
                run.data.tags["config_hash"] for run in results if run.info.run_id == runs[0]
            )
            with urllib.request.urlopen(f"http://127.0.0.1:{port + 1}/run/{key}") as found:
                assert found.url.endswith(f"/#/experiments/{experiment}/runs/{runs[0]}")
            with urllib.request.urlopen(f"http://127.0.0.1:{port + 1}/cell/{key}") as found:
                assert "dvc/index.html#view=questions&a=concatenation" in found.url
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(timeout=60)
            except (
                subprocess.TimeoutExpired
            ):  # SIGINT is ignored below a shell that started the tests in the background
                server.terminate()
    assert [
        name
        for name in ("em_percent", "unk_percent", "strategy", "k", "gold")
        if f">{name}<" not in listed
    ] == []
    assert "gold_last" in listed
    assert "retrieve k=" not in listed
    assert "Comparing 6 Runs" in page
    assert [word for word in ("strategy", "gold", "em_low", *compared) if word not in page] == []


def browse(address: str, project: Path) -> str:
    """Return a page as Chromium shows it."""
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += [
        f"--user-data-dir={project / 'profile'}",
        "--window-size=1800,1800",
        "--virtual-time-budget=60000",
    ]
    assert CHROMIUM is not None
    command = [CHROMIUM, *flags, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout


@pytest.mark.slow
def test_a_foreign_server_of_the_protocol(project: Path) -> None:
    """`transformers serve` with the tuned reader: over HTTP come the greedy texts and token counts
    of the local reader.
    """
    (folder,) = (project / "models/reader").glob("smollm2_tuned-*")
    port = str(find_free_port())
    url = f"http://127.0.0.1:{port}"
    words = [
        "serve",
        str(folder),
        "--host",
        "127.0.0.1",
        "--port",
        port,
        "--device",
        "cpu",
        "--dtype",
        "float32",
    ]
    command = [str(Path(sys.executable).parent / "transformers"), *words]
    texts = [
        f"Answer with one word. What is the capital of {land}?"
        for land in ("France", "Japan", "Peru", "Kenya")
    ]
    requests = [Generate((Message("user", text),), Decoding(8)) for text in texts]
    results = []
    with run_server("transformers", command, f"{url}/health", project / "serve.log", environment()):
        for reader in (
            OpenAIReader(str(folder), "served", f"{url}/v1", pacing=Pacing(max_concurrency=2)),
            LocalReader(str(folder), "local", "float32", batch_size=1),
        ):
            reader.submit(requests)
            done: dict[object, Generation] = {}
            while batch := reader.collect(60.0):
                done.update(batch)  # type: ignore[arg-type]
            reader.close()
            results.append([(done[q].text, done[q].usage.tokens_in) for q in requests])
    assert results[0] == results[1]
    assert all(text for text, _ in results[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["2_your_data", "3_your_reader", "4_your_strategy", "5_your_table"]
)
def test_the_tutorial_runs_as_it_stands(project: Path, page: str) -> None:
    """After the runs above: each page in turn, but for the blocks that say why not."""
    output = run_script("\n".join(read_blocks(f"tutorial/{page}.md", all_blocks=False)), project)
    assert "95 % intervals" in output


@pytest.mark.slow
def test_a_converted_gguf_file_keeps_its_tokenizer(project: Path) -> None:
    """After the tutorial, whose reader it is: tokens, template and end tokens are those that the
    file itself has.
    """
    (file,) = (project / "assets/smollm2").glob("*.gguf")
    converted = find_converted(
        str(file), project / "assets/openvino", dtype=resolve_dtype("auto", "cpu")
    )
    assert converted is not None
    own, kept = load_text_interface(str(file)), load_text_interface(str(file), converted)
    for text in (
        "Who wrote Emma? I don't know!",
        "日本 élan\n\n  x\t1234567",
        "<|im_start|>user\nhello<|im_end|>\n",
    ):
        assert own.tokenizer(text)["input_ids"] == kept.tokenizer(text)["input_ids"]
        prompts = [render_chat(lm.tokenizer, (Message("user", text),), {}) for lm in (own, kept)]
        assert prompts[0] == prompts[1]
    assert (own.end_token_ids, own.context_length) == (kept.end_token_ids, kept.context_length)
