"""A sweep in one archive: tables and answers are computed again without the models, and what
differs is found.
"""

import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run, environment, overrides
from stage_process import run_stage

from winnow.artifacts import contracts, parquet
from winnow.artifacts.provenance import describe_files
from winnow.artifacts.tables import build_prediction_row, read_predictions, read_questions
from winnow.cli import main

WORDS = (
    "grid={strategy:[closed_book,post_fusion],k:[1,2]}",
    "metric=[em,unk,judged]",
    "breakdown=gold_rank",
)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def archive(
    world: Path, template: Path, store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The archive of a sweep with a judge, whose corpus, questions and models were
    deleted since.
    """
    folder = tmp_path_factory.mktemp("author")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    shutil.copytree(world, folder / "world")
    for stage, *words in (
        ["sweep"],
        ["report"],
        ["export", "export.format=replay", "tracking.uri=sqlite:///other.db"],
    ):
        run_stage(
            stage, [*overrides(folder / "world"), *WORDS, *words], folder, environment()
        ).check_returncode()
    file = tmp_path_factory.mktemp("archive") / "towns.zip"
    shutil.move(folder / "exports/replay/towns.zip", file)
    shutil.move(folder / "reports/towns/report.md", file.parent)
    shutil.rmtree(folder)
    return file


def test_a_sweep_is_repeated_without_its_models(run: Run, archive: Path, tmp_path: Path) -> None:
    """All 30 answers and four files of tables are the same, those of the author's report; a second
    time in place, too.
    """
    done = run("replay", str(archive), small=False).stdout
    assert "30 answers of 3 cells were replayed" in done
    assert "4 files of tables are the same, byte by byte: cells.csv, metrics.json" in done
    folder = tmp_path / "replays/towns"
    assert (folder / "report/report.md").read_text() == (archive.parent / "report.md").read_text()
    assert "Judged" in (folder / "report/report.md").read_text()
    assert (folder / "report/index.html").is_file()
    assert not list(folder.glob("models/*/*.safetensors"))
    (words,) = (
        line.partition("winnow ")[2].split()
        for line in done.splitlines()
        if "winnow ledger import" in line
    )
    assert words == ["ledger", "import", "data/ledger.sqlite", "replays/towns/calls.jsonl.gz"]
    main([*words[:2], str(tmp_path / "own.sqlite"), str(tmp_path / words[3])])
    assert "'grid={strategy:[closed_book,post_fusion],k:[1,2]}'" in done
    assert "export.format" not in done.partition("Command of the sweep")[2]
    assert "30 answers" in run("replay", str(archive), small=False).stdout
    other = tmp_path / "replays/mine"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    refused = run("replay", f"--out={other}", str(archive), small=False, check=False)
    assert "has files already, of another archive or of yours" in refused.stderr


def test_equal_sweeps_make_equal_archives(archive: Path) -> None:
    """No time, order or name of a machine is in an archive's entries; files that tables do not read
    are not there.
    """
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
        assert {entry.date_time for entry in opened.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert names[1:] == sorted(names[1:])
    assert {name.split("/")[1] for name in names if name.startswith("data/")} == {
        "closed_book", "code", "corpus", "index", "predictions", "questions", "retrieval",
    }  # fmt: skip
    assert [
        name.rpartition("/")[2] for name in names if name.startswith(("data/corpus", "data/index"))
    ] == ["manifest.json"] * 2


def test_the_places_of_a_machine_are_left_out(archive: Path) -> None:
    """Folders, databases and servers, whose addresses may have passwords; what names a number
    stays.
    """
    record = json.loads(zipfile.ZipFile(archive).read("replay.json"))
    settings = [record["settings"], *(cell["settings"] for cell in record["cells"])]
    assert {one["paths"]["ledger"] for one in settings} == {"ledger.sqlite"}
    assert {one["tracking"]["uri"] for one in settings} == {""}
    (words,) = record["words"]
    assert not [word for word in words.split() if word.startswith(("paths", "tracking", "export"))]
    assert "k:[1,2]" in words


def _change(archive: Path, target: Path, **changed: str) -> Path:
    """Copy an archive, with a text replaced by another in files whose names end so: {"end of the
    name": "old|new"}.
    """
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            content = source.read(name)
            for end, texts in changed.items():
                if name.endswith(end.replace("_", ".", 1)):
                    old, _, new = texts.partition("|")
                    assert old.encode() in content, f"{name} lacks {old}"
                    content = content.replace(old.encode(), new.encode())
            copy.writestr(name, content)
    return target


def test_what_differs_is_found(run: Run, archive: Path, tmp_path: Path) -> None:
    """A changed table, record, path or component, a damaged file, and no archive: each has its
    message.
    """

    def refuse(file: Path) -> str:
        done = run(
            "replay", f"--out={tmp_path}/out/{file.stem}", str(file), small=False, check=False
        )
        assert done.returncode == 1
        return done.stderr

    text = refuse(_change(archive, tmp_path / "table.zip", report_md="95 %|94 %"))
    assert "1 of 4 files of tables differ" in text
    assert re.search(r"^- .*94 %", text, re.MULTILINE)
    note = (
        "> 1 of 3 artifacts behind these cells were computed by other code: flows.sweep changed "
        "since."
    )
    invented = "| mine (artifacts behind these cells were computed by other code) | 99.0 |"
    for name, line, is_same in (
        ("note", note, True),
        ("row", invented, False),
        ("notes", f"{note}\n\n{note}", False),
    ):
        first = zipfile.ZipFile(archive).read("tables/report.md").decode().partition("\n")[0]
        file = _change(archive, tmp_path / f"{name}.zip", report_md=f"{first}|{first}\n\n{line}")
        done = run("replay", f"--out={tmp_path}/out/{name}", str(file), small=False, check=False)
        assert done.returncode == (not is_same), done.stdout + done.stderr
        assert not is_same or "are the same, but for the note on changed code" in done.stdout
    text = refuse(_change(archive, tmp_path / "value.zip", metrics_json='"unk": [|"unk": [0.125, '))
    assert re.search(r"post_fusion \d \w+, unk: \[0\.125.* in the archive, \[.* here", text)
    for content in ("[]", '{"version": 1}', '{"version": 1'):
        with (
            zipfile.ZipFile(archive) as source,
            zipfile.ZipFile(tmp_path / "record.zip", "w") as copy,
        ):
            for name in source.namelist():
                copy.writestr(name, content if name == "replay.json" else source.read(name))
        shutil.rmtree(tmp_path / "out/record", ignore_errors=True)
        assert "replay.json is not the record of an archive" in refuse(tmp_path / "record.zip")
    record = json.loads(zipfile.ZipFile(archive).read("replay.json"))
    first = record["cells"][0]["folder"]
    text = refuse(
        _change(
            archive,
            tmp_path / "path.zip",
            replay_json=f'"folder": "{first}"|"folder": "../../etc"',
        )
    )
    assert "outside the archive" in text
    text = refuse(
        _change(
            archive, tmp_path / "code.zip", replay_json="winnow.strategies.post_fusion|subprocess"
        )
    )
    assert "subprocess.PostFusion, which is not part of Winnow" in text
    assert "--allow subprocess" in text
    hidden = "winnow.readers.child_processes.subprocess.Popen"
    text = refuse(
        _change(
            archive,
            tmp_path / "hidden.zip",
            replay_json=f"winnow.strategies.post_fusion.PostFusion|{hidden}",
        )
    )
    assert f"{hidden}, which is not part of Winnow" in text
    text = refuse(
        _change(archive, tmp_path / "version.zip", replay_json='"version": 1|"version": 9')
    )
    assert "has version 9; expected 1" in text
    (tmp_path / "cut.zip").write_bytes(archive.read_bytes()[:2000])
    assert "is damaged or is not an archive" in refuse(tmp_path / "cut.zip")
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(tmp_path / "few.zip", "w") as copy:
        for name in source.namelist():
            if name != "tables/metrics.json":
                copy.writestr(name, source.read(name))
    assert "lacks cells or tables; expected report.md" in refuse(tmp_path / "few.zip")
    (tmp_path / "out/few/replay.json").write_text("{}")
    assert "is not as in the archive any more" in refuse(tmp_path / "few.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("a.txt", "a")
    assert "has no replay.json" in refuse(tmp_path / "other.zip")
    assert "There is no archive" in refuse(tmp_path / "none.zip")


def test_an_answer_that_its_calls_do_not_give_is_found(
    run: Run, archive: Path, tmp_path: Path
) -> None:
    """The record says k=2 where the predictions are of k=1: the calls of other prompts
    are missing.
    """
    record = json.loads(zipfile.ZipFile(archive).read("replay.json"))
    cells = {(cell["labels"]["strategy"], cell["labels"]["k"]): cell for cell in record["cells"]}
    one, two = cells["post_fusion", 1], cells["post_fusion", 2]
    for name in ("key", "folder"):
        one[name], two[name] = two[name], one[name]
    file = tmp_path / "swapped.zip"
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(file, "w") as copy:
        for name in source.namelist():
            copy.writestr(name, json.dumps(record) if name == "replay.json" else source.read(name))
    done = run("replay", str(file), small=False, check=False)
    assert done.returncode == 1
    assert "20 of 30 answers are not those that the recorded calls give." in done.stderr
    assert re.search(r"^post_fusion k=\d \w+, question '[^']+': ", done.stderr, re.MULTILINE)


def test_counts_that_the_calls_do_not_have_are_found(
    run: Run, archive: Path, tmp_path: Path
) -> None:
    """No reply is said to be cut, and the digest of the file is made to fit; some of the recorded
    calls were cut.
    """
    with zipfile.ZipFile(archive) as source:
        contents = {name: source.read(name) for name in source.namelist()}
    name = next(
        one for one in contents if one.endswith("predictions.parquet") and "post_fusion" in one
    )
    (tmp_path / "one.parquet").write_bytes(contents[name])
    predictions = read_predictions(tmp_path / "one.parquet")
    changed = [
        replace(one, usage=tuple(replace(used, cut=0) for used in one.usage)) for one in predictions
    ]
    (tmp_path / "one.parquet").unlink()
    parquet.write(
        tmp_path / "one.parquet", contracts.PREDICTIONS, map(build_prediction_row, changed)
    )
    manifest = json.loads(contents[name.replace("predictions.parquet", "manifest.json")])
    manifest["files"]["predictions.parquet"] |= describe_files(tmp_path)["one.parquet"]
    contents |= {name: (tmp_path / "one.parquet").read_bytes()}
    contents |= {
        name.replace("predictions.parquet", "manifest.json"): json.dumps(manifest).encode()
    }
    with zipfile.ZipFile(tmp_path / "counts.zip", "w") as copy:
        for one, content in contents.items():
            copy.writestr(one, content)
    done = run("replay", str(tmp_path / "counts.zip"), small=False, check=False)
    assert done.returncode == 1
    assert re.search(r"usage .*cut=0.* in the archive, .*cut=[12].* by the calls", done.stderr)


def test_what_cannot_be_packed_is_refused(prepared: Run, tmp_path: Path) -> None:
    """Cells that are not finished, answers that stand in a file, and an archive of other cells in
    the way.
    """
    words = ("export", "export.format=replay", "sweep.closed_book_filter=false")
    done = prepared(*words, "k=1", check=False)
    assert "1 of 1 cells are not finished" in done.stderr
    answers = tmp_path / "answers.jsonl"
    (file,) = tmp_path.glob("data/questions/*/questions.parquet")
    ids = [question.question_id for question in read_questions(file, ["test"])]
    answers.write_text(
        "".join(
            json.dumps({"question_id": question_id, "answer": "x"}) + "\n" for question_id in ids
        )
    )
    stored = (
        "strategy=stored",
        "strategy.name=mine",
        f"strategy.plan.path={answers}",
        "sweep.closed_book_filter=false",
    )
    prepared("sweep", *stored)
    done = prepared("export", "export.format=replay", *stored, check=False)
    assert (
        f"strategy.plan.path={answers} is a file or a model that is read while cells are replayed"
        in done.stderr
    )
    judged = [*words, "strategy=closed_book", "metric=[em,ragas_answer_relevancy]"]
    prepared("sweep", "strategy=closed_book", "sweep.closed_book_filter=false")
    (tmp_path / "exports/replay").mkdir(parents=True)
    (tmp_path / "exports/replay/towns.zip").write_text("mine")
    done = prepared(*words, "strategy=closed_book", check=False)
    assert "towns.zip has other cells" in done.stderr
    done = prepared(*judged, check=False)
    assert "metric.ragas_answer_relevancy.encoder.path=" in done.stderr
    assert (tmp_path / "exports/replay/towns.zip").read_text() == "mine"
