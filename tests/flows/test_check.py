"""What later stages need is checked before a call is paid or a step is trained."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from conftest import Run

from flows.project import checks
from flows.project.checks import check_engines, check_memory, check_splits, check_trainings
from flows.settings.door import compose
from winnow.errors import ConfigError
from winnow.modeling.weights import count_weight_bytes
from winnow.readers.local import LocalReader
from winnow.testing import make_tiny_causal_lm
from winnow.testing.chat_server import ChatServer


def test_a_split_that_a_later_stage_reads_is_missed_before_any_call(
    prepared: Run, tmp_path: Path
) -> None:
    """By the command that only checks, and by the stage that would pay."""
    done = prepared("check", "closed_book.split=nope", check=False)
    assert done.returncode == 1
    assert (
        "closed_book.split=nope: the questions of dataset=towns have the splits dev, test, train."
        in " ".join(done.stdout.replace("│", " ").split())
    )
    assert "1 of 9 checks failed. Nothing was run." in done.stderr
    before = (tmp_path / "data/ledger.sqlite").exists()
    training = ["reader.tuned=true", "training.evaluation.split=nope"]
    done = prepared("train_reader", *training, check=False)
    assert "training.evaluation.split=nope: the questions" in done.stderr
    done = prepared("closed_book", "closed_book.limit=1", *training, check=False)
    assert "training.evaluation.split=nope: the questions" in done.stderr
    assert (tmp_path / "data/ledger.sqlite").exists() is before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["reader=folder", "reader.base=owner/name"],
            "reader.base=owner/name stands for one of yours",
        ),
        (["report.paper={name:rage,part:table9,dataset:NQ,model:NQ}"], "table9"),
        (["metric=[judged]", "reader@judge=openai", "judge.base=gpt-4o-mini"], "OPENAI_API_KEY"),
    ],
)
def test_names_tables_and_keys_are_missed_first(run: Run, words: list[str], message: str) -> None:
    """A judge's key, a paper's table and a placeholder, although only the report reads some of
    them.
    """
    done = run("check", *words, check=False, OPENAI_API_KEY="")
    assert done.returncode == 1
    assert message.replace(" ", "") in "".join(done.stdout.replace("│", "").split())


def test_an_experiment_that_has_all_is_said_so(run: Run) -> None:
    """Before anything was made."""
    assert run("check").stdout.count("ok") == 9


def test_a_server_that_does_not_reply_is_missed_first(run: Run) -> None:
    """It is not asked for a reply; one that runs is enough, whatever it says."""
    words = ["metric=[judged]", "reader@judge=openai", "judge.base=m"]
    done = run("check", *words, "judge.engine.base_url=http://127.0.0.1:9/v1", check=False)
    assert done.returncode == 1
    assert "Noserverrepliesathttp://127.0.0.1:9/v1(ConnectError" in "".join(
        done.stdout.replace("│", "").split()
    )
    server = ChatServer()
    with server.serve() as url:
        run("check", *words, f"judge.engine.base_url={url}")
    assert server.calls == 0


def test_weights_that_do_not_fit_into_memory_are_missed_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those of all local readers together, each once."""
    folders = [make_tiny_causal_lm(tmp_path / name, ["a b c"]) for name in ("lm1", "lm2")]
    engines = [LocalReader(str(folder), "tiny", device="cpu") for folder in (*folders, folders[0])]
    size = count_weight_bytes(str(folders[0]))
    assert size > 0
    assert count_weight_bytes("owner/name") == 0
    monkeypatch.setattr("flows.project.checks._iter_engines", lambda _: iter(engines))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=2 * size))
    check_memory([])
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=2 * size - 1))
    with pytest.raises(ConfigError, match=r"lm1 \(0.0 GiB\), .*lm2 .* do not fit"):
        check_memory([])


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (["training=cite_synthetic", "training.settings.quantize=4bit"], "training.settings"),
        (["training=cite_rewarded", "method.quantize=4bit"], "method"),
        (
            [
                "training=cite_sft_rewarded",
                "training@training.start=cite_synthetic",
                "training.start.settings.quantize=4bit",
            ],
            "training.start.settings",
        ),
    ],
)
def test_a_training_in_4_bits_needs_a_gpu(words: list[str], setting: str) -> None:
    """By the setting that asks for it, before a teacher is paid; a reader as it is needs none."""
    words = ["reader=folder", f"reader.base=one/model@{40 * '0'}", *words]
    cell = compose(["reader.tuned=true", *words])
    with pytest.raises(ConfigError, match=rf"^{setting}.quantize=4bit needs a GPU.*is cpu\. Set"):
        check_trainings([cell])
    check_trainings([compose(["reader.tuned=false", *words])])


def test_a_teacher_s_key_is_missed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the questions that it would be asked are retrieved."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    words = ["training=cite_synthetic", "training.teacher.reader.base=gpt-4o-mini"]
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        check_engines([compose(["strategy=cite", "reader.tuned=true", *words])])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dataset=nq_open", "+dataset.split.test=14"], "dataset.split needs either"),
        (
            ["dataset=nq_open", "dataset.split.all=other"],
            r"sweep.split=test: the questions of dataset=.* have the splits other",
        ),
    ],
)
def test_a_split_that_will_not_be_made_is_missed_before_anything_is_built(
    words: list[str], message: str
) -> None:
    """An index of millions of passages would be built first."""
    with pytest.raises(ConfigError, match=message):
        check_splits([compose(["reader=smollm2", *words])])
    check_splits([compose(["reader=smollm2", *words[:1], "dataset.split.all=test"])])


def test_splits_of_finished_questions_are_those_of_their_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the settings give other names, as with `given`."""
    questions = SimpleNamespace(folder=Path("questions"), is_finished=True)
    project = SimpleNamespace(questions=questions, questions_file=Path("questions.parquet"))
    monkeypatch.setattr(checks, "Project", lambda _: project)
    table = pa.table({"split": ["dev", "train", "dev"]})
    monkeypatch.setattr(checks.parquet, "read", lambda *_, **__: table)
    cell = compose(["reader=smollm2", "dataset=nq_open", "dataset.split.all=test"])
    with pytest.raises(ConfigError, match="have the splits dev, train"):
        checks.check_splits([cell])


def test_splits_that_only_the_files_know_are_not_missed() -> None:
    """Before the questions are read."""
    words = [
        "reader=smollm2",
        "dataset=nq_open",
        "dataset.split.all=''",
        "+dataset.split.given=true",
    ]
    check_splits([compose(words)])
