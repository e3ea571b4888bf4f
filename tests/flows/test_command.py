"""Stages run from Python, as their commands run them."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import overrides

from flows import closed_book, rank
from flows.calibrate_judge import STAGE as CALIBRATE_JUDGE
from flows.corpus import STAGE as CORPUS
from flows.report import STAGE as REPORT
from flows.score import STAGE as SCORE
from flows.settings import composition
from flows.settings.composition import compose_config
from flows.settings.door import compose
from flows.settings.overrides import complete_overrides, load_params
from flows.settings.typed import Settings
from flows.show import STAGE as SHOW
from flows.stages.command import execute, is_needed, open_jobs, run
from flows.stages.last_sweep import Recall, recall_sweep, remember_sweep
from flows.stages.registry import Stage
from flows.sweep import STAGE as SWEEP
from flows.tools.summary import Summary
from flows.watch import STAGE as WATCH
from winnow.errors import ConfigError


def test_a_stage_runs_from_python(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all jobs of a multirun, with the words of a command line, which it leaves as they are."""
    monkeypatch.chdir(tmp_path)
    before = list(sys.argv)
    words = [word for word in overrides(world) if not word.startswith("corpus.name=")]
    summary = run(CORPUS, ["-m", *words, "corpus.name=one,two"])
    assert [row["passages"] for row in summary.rows] == [36, 36]
    assert len({row["corpus"] for row in summary.rows}) == 2
    assert sys.argv == before
    again = run(CORPUS, [*words, "corpus.name=one"])
    assert [row["passages"] for row in again.rows] == ["finished already"]


def test_a_changed_yaml_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook runs stages of one process between edits of conf/."""
    shutil.copytree(composition.CONF, tmp_path / "conf")
    monkeypatch.setattr(composition, "CONF", tmp_path / "conf")
    seen: list[int] = []

    def watch(jobs: Sequence[Settings]) -> Summary:
        seen.append(jobs[0].decoding["max_new_tokens"])
        return Summary("Seen")

    for number in (3, 4):
        (tmp_path / "conf/decoding/mine.yaml").write_text(
            f"_target_: winnow.records.Decoding\nmax_new_tokens: {number}\ntemperature: 0.0\n"
        )
        run(Stage(watch), ["decoding=mine"])
    assert seen == [3, 4]


@pytest.mark.parametrize(
    ("stage", "words", "message"),
    [
        (SWEEP, ["k=five"], "k='five': expected a valid integer"),
        (SWEEP, ["kk=5"], "There is no setting 'kk'"),
        (CORPUS, ["dry_run=true"], "flows.corpus has no dry run; only .*sweep.* have one"),
        (SHOW, ["seeds=[1,2]"], r"seeds=\[1, 2\]: flows.show shows one training"),
        (SWEEP, ["--cfg", "job"], "--cfg job: .*its flags but -m, .*need the command line"),
        (SWEEP, ["-m", "k=1,2", "runner=joblib"], "runner=shared, and --track need"),
    ],
)
def test_what_a_command_refuses_is_an_exception(
    stage: object, words: list[str], message: str
) -> None:
    """With the same message, and without leaving the interpreter."""
    with pytest.raises(ConfigError, match=message):
        run(stage, words)  # type: ignore[arg-type]


def test_a_command_ends_without_a_search_for_cycles() -> None:
    """Python would search all objects of MLflow and transformers, which takes a second."""
    code = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 1000)); "
        "from flows.index import main; import sys; sys.argv = ['index', '--help']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"


def test_a_sweep_is_shown_by_its_name_or_as_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of its command are recalled; those of a dry run are not, and words that are given
    count.
    """
    monkeypatch.chdir(tmp_path)
    settings = open_jobs(SWEEP, [compose_config([])])
    first, second = ["--params", "params.yaml"], ["-m", "k=1,2", "sweep.name=mine"]
    assert recall_sweep([]) == Recall([])
    remember_sweep(second, [replace_plain(settings[0], "mine")])
    remember_sweep(first, settings)
    remember_sweep(["dry_run=true"], [settings[0].replace(dry_run=True)])
    remember_sweep(["pipeline.goal=retrieve"], [settings[0].replace(pipeline={"goal": "retrieve"})])
    assert recall_sweep([]).words == first
    assert "Settings of the last sweep: --params params.yaml" in capsys.readouterr().out
    assert recall_sweep(["sweep.name=mine"]).words == second
    assert "Settings of the sweep of this name: -m k=1,2 sweep.name=mine" in capsys.readouterr().out
    for words in (["k=7"], ["sweep.name=mine", "k=7"], ["export.sweep.name=mine"]):
        assert recall_sweep(words) == Recall(words)
    views = ["metric=[em]", "report.out=x", "sweep.name=mine"]
    assert recall_sweep(views).words == [*second, *views[:2]]
    with pytest.raises(
        ConfigError,
        match=r"no sweep of the name other here, but there were mine, trivia\. Give all",
    ):
        recall_sweep(["sweep.name=other"])
    remember_sweep(
        ["-m", "k=1", "shard=2/4", "metric=[f1]"],
        [replace_plain(settings[0], name) for name in ("one", "two")],
    )
    assert recall_sweep(["sweep.name=one"]) == recall_sweep(["sweep.name=two"]) == recall_sweep([])
    assert recall_sweep([]).words == ["-m", "k=1", "metric=[f1]"]
    assert recall_sweep(["metric=[em]"]).words == ["-m", "k=1", "metric=[em]"]
    remember_sweep(second, [replace_plain(settings[0], "mine")])
    assert recall_sweep([]).words == second, "one that runs again is the last"
    for text in ("{", "[1]", '{"mine": []}'):
        Path("data/sweeps.json").write_text(text)
        assert recall_sweep([]) == Recall([]), "a damaged file is none"


def test_words_that_give_other_cells_since_are_no_longer_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another sweep would be shown as the last one; what is shown of it may differ."""
    monkeypatch.chdir(tmp_path)
    params = tmp_path / "params.yaml"
    shutil.copy(Path(composition.CONF).parent / "params.yaml", params)
    words = ["--params", str(params)]
    (settings,) = open_jobs(SWEEP, [load_params(params, [], grid=True)])
    remember_sweep(words, [settings])
    recall_sweep([]).check(open_jobs(SWEEP, [load_params(params, ["report.out=x"], grid=True)]))
    with pytest.raises(ConfigError, match="now give other settings, because params"):
        recall_sweep([]).check([settings.replace(depth=99)])
    text = params.read_text()
    params.write_text(text.replace("\ndepth: 100", "\ndepth: 90"))
    assert params.read_text() != text
    with pytest.raises(ConfigError, match="now give other settings"):
        run(REPORT)


def replace_plain(settings: Settings, name: str) -> Settings:
    """The settings under another name of the sweep."""
    return settings.replace(sweep={**settings.plain["sweep"], "name": name})


def test_what_no_cell_reads_is_left_out_of_a_pipeline() -> None:
    """Scores are needed where a cell ranks or weights by them, also one of the grid; other stages
    are always needed.
    """
    for words, expected in (
        (["reader=smollm2"], False),
        (["reader=smollm2", "rank_by=estimator"], True),
        (["reader=smollm2", "+grid.rank_by=[retriever,estimator]"], True),
        (["reader=smollm2", "+grid.k=[1,2]"], False),
    ):
        jobs = open_jobs(SWEEP, [compose_config(complete_overrides(words))])
        assert is_needed(SCORE, jobs) == expected
        assert is_needed(CORPUS, jobs)


def test_a_stage_without_a_summary_is_named() -> None:
    """As one whose `return` was forgotten."""
    with pytest.raises(ConfigError, match=r"flows\.forget must return a Summary; it returned None"):

        def forget(jobs: Sequence[Settings]) -> Summary: ...  # type: ignore[empty-body]

        execute(Stage(forget), [compose([])])


def test_rows_that_jobs_share_are_shown_once() -> None:
    """Cells of a sweep may have equal rows, and each is shown."""

    def summarize(jobs: Sequence[Settings]) -> Summary:
        return Summary("Title", [{"artifact": "a"} for _ in jobs])

    jobs = [compose(["k=1"]), compose(["k=2"])]
    assert len(execute(Stage(summarize), jobs).rows) == 1
    assert len(execute(Stage(summarize, grid=True), jobs).rows) == 2


def test_settings_of_the_sweep_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the number of questions, which the words may leave to params.yaml."""
    monkeypatch.chdir(tmp_path)
    first, other = (open_jobs(SWEEP, [compose_config(w)]) for w in ([], ["sweep.limit=3"]))
    remember_sweep(["-m"], first)
    recall_sweep([]).check(first)
    with pytest.raises(ConfigError, match="now give other settings"):
        recall_sweep([]).check(other)


def test_words_that_say_what_to_show_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With or without a plus; two names of sweeps are not."""
    monkeypatch.chdir(tmp_path)
    remember_sweep(["-m", "k=1", "+report.x=1"], open_jobs(SWEEP, [compose_config([])]))
    for view in (
        "report.out=x", "metric=[em]", "breakdown=none", "watch.x=1", "power.x=1",
        "calibrate_judge.most=5", "+metric.x=1", "~breakdown",
    ):  # fmt: skip
        assert recall_sweep([view]).words == ["-m", "k=1", "+report.x=1", view]
    assert recall_sweep(["report.x=2"]).words == ["-m", "k=1", "report.x=2"]
    name = open_jobs(SWEEP, [compose_config([])])[0].sweep.name
    twice = [f"sweep.name={name}", f"sweep.name={name}"]
    assert recall_sweep(twice) == Recall(twice)


@pytest.mark.parametrize(
    ("stage", "jobs", "name"),
    [
        (SWEEP, [["dry_run=false"], ["dry_run=true"]], "dry_run"),
        (SWEEP, [["shard=1/2"], ["shard=2/2"]], "shard"),
        (REPORT, [["report.out=reports/a"], ["report.out=reports/b"]], "report.out"),
        (REPORT, [["sweep.name=a"], ["sweep.name=b"]], "report.out"),
    ],
)
def test_jobs_cannot_differ_in_what_a_command_has_once(
    stage: Stage, jobs: list[list[str]], name: str
) -> None:
    """The value of the first job would count for all: calls in a dry run, or a missing report."""
    with pytest.raises(ConfigError, match=f"^The jobs differ in {name}, of which a command has"):
        open_jobs(stage, [compose_config(words) for words in jobs])
    assert len(open_jobs(stage, [compose_config([f"k={k}"]) for k in (1, 2)])) == 2
    datasets = [compose_config([f"dataset.name={name}"]) for name in ("a", "b")]
    assert len(open_jobs(WATCH, datasets)) == 2


@pytest.mark.parametrize("axis", ["dry_run", "report.out", "seeds", "paths.data"])
def test_settings_of_a_command_are_no_axis(axis: str) -> None:
    """It would have no effect."""
    with pytest.raises(ConfigError, match=f"grid.{axis}: a command has one {axis} for all cells"):
        list(compose([f"grid={{{axis}:[a,b]}}"]).cells)


def test_words_of_metrics_that_are_not_shown_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would be settings of what is not there; words are printed as a shell reads them."""
    monkeypatch.chdir(tmp_path)
    words = ["metric=[em,accuracy]", "metric.accuracy.dialect=crag", "metric.em.dialect=crag"]
    words += ["breakdown=meta", "breakdown.field=type", "sweep.name=a b"]
    remember_sweep(words, open_jobs(SWEEP, [compose_config([])]))
    recalled = recall_sweep(["metric=[em, f1]", "breakdown=gold_rank"]).words
    assert recalled == [
        "metric.em.dialect=crag", "sweep.name=a b", "metric=[em, f1]", "breakdown=gold_rank"
    ]  # fmt: skip
    printed = capsys.readouterr().out.partition(": ")[2]
    assert shlex.split(printed) == words


@pytest.mark.parametrize("module", [rank, closed_book])
def test_a_dry_run_counts_a_call_of_several_jobs_once(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the calls that finished shards have made."""
    received: list[tuple[Any, Any]] = []

    def build_rows(settings: Any, specs: Any, build: Any, counted: Any, ledgers: Any = ()) -> Any:
        received.append((counted, ledgers))
        return []

    monkeypatch.setattr(module, "build_dry_run_rows", build_rows)
    monkeypatch.setattr(module, "list_ledgers_to_merge", lambda *_: [Path("shard.sqlite")])
    monkeypatch.setattr(module, "_read_questions", lambda _: [])
    for name in ("resolve_planned_rankings", "resolve_ranking_engines"):
        monkeypatch.setattr(rank, name, lambda _: [])
    for name in ("resolve_closed_book_artifact", "resolve_closed_book_spec"):
        monkeypatch.setattr(closed_book, name, lambda _: [])
    module._dry_run([compose([f"k={k}"]) for k in (1, 2)])
    (first, ledgers), (second, _) = received
    assert first is second
    assert first is not None
    assert ledgers == [Path("shard.sqlite")]


@pytest.mark.parametrize(
    ("stage", "setting", "values"),
    [(CALIBRATE_JUDGE, "calibrate_judge.sample", (5, 6)), (SWEEP, "shards.count", (2, 3))],
)
def test_jobs_do_not_differ_in_the_settings_of_their_stage(
    stage: Stage, setting: str, values: tuple[int, int]
) -> None:
    """Those of the first job would count for all."""
    jobs = [compose_config([f"{setting}={value}"]) for value in values]
    with pytest.raises(ConfigError, match=f"^The jobs differ in {setting}, of"):
        open_jobs(stage, jobs)
