"""The registry of stages: what follows from the description in each stage's module."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Run

from flows import compose as composing
from flows.pipeline import _run_missing, pipeline
from flows.project.artifacts import Project, get_version
from flows.project.models import resolve_joint_models
from flows.settings.door import compose
from flows.shards import shards
from flows.stages.command import execute
from flows.stages.registry import (
    _DEFINITION,
    Stage,
    _check_names,
    get_stage,
    iter_artifacts,
    list_ancestors,
    list_needed,
    list_stages,
)
from flows.tools.summary import Summary
from winnow.errors import ConfigError


def test_every_command_with_settings_is_a_stage_of_its_module() -> None:
    """One a module, named as it is, with a summary; each reads stages that there are, and comes
    after them.
    """
    stages = list_stages()
    names = [stage.name for stage in stages]
    assert len(set(names)) == len(names) > 20
    for stage in stages:
        assert stage.run.__module__ == f"flows.{stage.name}"
        assert re.match(r"[A-Z].*[^.]$", stage.summary), stage.name
        assert all(names.index(read) < names.index(stage.name) for read in stage.reads)
        assert get_stage(stage.name) is stage
    modules = {
        file.stem for file in (ROOT / "flows").glob("[a-z]*.py") if "make_main(" in file.read_text()
    }
    assert modules == set(names)


def test_a_stage_that_makes_artifacts_says_which() -> None:
    """It has a number, which their keys have; the calls of several cells are no artifact of one."""
    words = [
        "rank_by=estimator",
        "reader=smollm2_tuned",
        "estimator=cross_encoder",
        "retriever=rank_gpt",
    ]
    project = Project(compose(words))
    for stage in list_stages():
        made = list(stage.resolve(project)) if stage.version else []
        assert bool(made) == bool(stage.version and stage.name != "calls"), stage.name
        assert {artifact.stage for artifact in made} <= {stage.name}
        assert {artifact.settings["version"] for artifact in made} <= {stage.version}
        assert get_version(stage.name) == stage.version


def test_another_number_changes_the_keys_of_a_stage_and_of_those_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But of none before it."""
    words = ["rank_by=estimator", "reader=smollm2_tuned", "estimator=cross_encoder"]
    before = {artifact.stage: artifact.key for artifact in iter_artifacts(Project(compose(words)))}
    monkeypatch.setattr(
        "flows.project.artifacts.get_version",
        lambda name: get_version(name) + (name == "retrieve"),
    )
    after = {artifact.stage: artifact.key for artifact in iter_artifacts(Project(compose(words)))}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"retrieve", "train_joint", "score", "train_reader", "closed_book", "sweep"}
    assert {"retrieve", *changed} >= {
        name for name in changed if "retrieve" in map(_name, list_ancestors(name))
    }


def _name(stage: Stage) -> str:
    return stage.name


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["reader=smollm2", "sweep.closed_book_filter=false"], set()),
        (["reader=smollm2"], {"closed_book"}),
        (["reader=smollm2_tuned"], {"closed_book", "train_reader"}),
        (["reader=smollm2_tuned", "training=none"], {"closed_book"}),
        (["reader=smollm2", "rank_by=estimator"], {"closed_book", "score"}),
        (
            ["reader=smollm2", "rank_by=estimator", "estimator=cross_encoder"],
            {"closed_book", "score", "train_joint", "train_reader"},
        ),
        (["reader=smollm2", "+grid.rank_by=[retriever,estimator]"], {"closed_book", "score"}),
        (["reader=joint", "joint=rag", "reader.base=x"], {"closed_book", "train_joint"}),
        (["reader=smollm2", "retriever=hyde"], {"closed_book", "rank"}),
        (
            ["reader=smollm2", "retriever=rank_gpt", "reader@reranker=smollm2_tuned"],
            {"closed_book", "rank", "train_reader"},
        ),
        (
            ["reader=smollm2", "+grid.retriever=[bm25,rank_gpt]", "rank_by=estimator"],
            {"closed_book", "rank", "score"},
        ),
    ],
)
def test_a_sweep_needs_what_its_settings_read(words: list[str], needed: set[str]) -> None:
    """And each stage that every sweep needs; one cell of a grid is enough."""
    always = {"acquire", "corpus", "index", "questions", "retrieve"}
    cells = compose(words).cells
    found = set().union(*(list_needed("sweep", cell) for cell in cells))
    assert found == always | needed


@pytest.mark.parametrize(
    ("goal", "words", "needed"),
    [
        (
            "score",
            ["estimator=cross_encoder", "reader=smollm2"],
            {"retrieve", "train_joint", "train_reader"},
        ),
        ("score", ["reader=smollm2"], {"retrieve"}),
        ("closed_book", ["reader=smollm2"], set()),
        ("closed_book", ["reader=smollm2_tuned"], {"retrieve", "train_reader"}),
        ("train_joint", ["reader=smollm2"], {"retrieve", "train_reader"}),
        ("train_joint", ["reader=smollm2", "joint=rag"], {"retrieve"}),
        ("train_reader", ["reader=smollm2"], {"retrieve"}),
    ],
)
def test_another_goal_needs_what_it_reads_itself(
    goal: str, words: list[str], needed: set[str]
) -> None:
    """A trained estimator to score, although no cell ranks by it; the training of a teacher before
    that of its pupil.
    """
    always = {"acquire", "corpus", "index", "questions"}
    assert list_needed(goal, compose(words)) == always | needed


def test_the_pipeline_trains_a_teacher_before_its_pupil(monkeypatch: pytest.MonkeyPatch) -> None:
    """As RE-RAG's experiment needs it; what a shard makes is what its stage makes."""
    names = [stage.name for stage in list_stages()]
    assert names.index("train_reader") < names.index("train_joint") < names.index("score")
    ran: list[str] = []
    monkeypatch.setattr(
        "flows.pipeline._run",
        lambda stage, configs, stages_run: ran.append(stage.name) or Summary("x"),
    )
    paths = [f"paths.{name}={ROOT / 'none'}" for name in ("data", "models")]
    _run_missing("sweep", [compose(["experiment=re_rag/table7", *paths])], [])
    assert ran == [
        "corpus",
        "index",
        "questions",
        "retrieve",
        "train_reader",
        "train_joint",
        "score",
    ]
    project = Project(compose(["estimator=cross_encoder"]))
    assert get_stage("train_joint").resolve_made(project).key == resolve_joint_models(project).key


def _run(_: object) -> Summary:
    """Run nothing."""
    return Summary("", [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shards": "parts"}, r"run_shard and shards belong together; received None and 'parts'"),
        ({"run_shard": print}, "run_shard and shards belong together; received .* and ''"),
        ({"shards": "part"}, r"Stage\(_run\): shards must be one of .*; received 'part'"),
        ({"seeds": "eech"}, "seeds must be one of"),
        ({"last_sweep": "use"}, "last_sweep must be one of"),
        ({"reads": "corpus"}, "reads must be a tuple of names"),
        ({"version": "1"}, "version a whole number; received .* '1'"),
    ],
)
def test_an_option_of_a_stage_is_checked(options: dict[str, object], message: str) -> None:
    """Where the stage is defined."""
    with pytest.raises(ConfigError, match=message):
        Stage(_run, **options)  # type: ignore[arg-type]


def test_what_a_stage_runs_follows_from_the_settings() -> None:
    """A stage without a dry run or shards runs itself."""

    def name(title: str) -> Callable[..., Summary]:
        return lambda jobs, shard=None: Summary(f"{title} {shard.name if shard else ''}".strip())

    stage = Stage(name("run"), dry_run=name("dry run"), run_shard=name("shard"), shards="calls")
    for words, title in (
        ([], "run"),
        (["shard=2/3"], "shard 2-of-3"),
        (["dry_run=true"], "dry run"),
    ):
        assert stage.start([compose(words)]).title == title
    assert Stage(name("run")).start([compose(["dry_run=true", "shard=1/2"])]).title == "run"


def test_names_of_a_stage_are_checked() -> None:
    """Its own, which is the module's, and those of the stages that it reads."""
    with pytest.raises(ConfigError, match=r"flows/run\.py: the function of its stage is .*'_run'"):
        _check_names("run", Stage(_run), ["corpus"])
    with pytest.raises(
        ConfigError, match=r"'corpis', which is not a stage\. Did you mean 'corpus'"
    ):
        _check_names("_run", Stage(_run, reads=("corpis",)), ["_run", "corpus"])
    assert _DEFINITION.search("import x\nSTAGE: Stage = Stage(run)\n")
    assert not _DEFINITION.search("STAGES = [Stage(run)]")


def test_a_stage_names_the_artifacts_that_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise DVC would track an empty folder. A stage that made none has none to name."""
    monkeypatch.chdir(tmp_path)
    stage, settings = Stage(_run, resolve=lambda project: [project.corpus]), compose([])
    assert execute(stage, [settings], "tracked/run").rows == []
    artifact = Project(settings).corpus
    artifact.folder.mkdir(parents=True)
    artifact.finish(0)
    with pytest.raises(ConfigError, match=r"flows\._run names no artifact.*track data/corpus/"):
        execute(stage, [settings], "tracked/run")
    assert execute(stage, [settings.replace(dry_run=True)], "tracked/run").rows == []


def test_ancestors_are_in_their_order() -> None:
    """Of a report all stages up to the sweep, of a corpus the downloads."""
    assert [stage.name for stage in list_ancestors("corpus")] == ["acquire"]
    names = [stage.name for stage in list_ancestors("report")]
    assert names[0] == "acquire"
    assert names[-1] == "sweep"
    assert names.index("train_joint") < names.index("score") < names.index("sweep")


def test_choices_of_settings_are_those_of_the_registry() -> None:
    """With the list in the message."""
    with pytest.raises(
        ConfigError, match=r"pipeline.goal='acquire': expected one of .*closed_book.*report"
    ):
        pipeline([compose(["pipeline.goal=acquire"])])
    with pytest.raises(
        ConfigError,
        match=r"shards.stage='report': expected one of index, .*retrieve, train_joint, .*sweep",
    ):
        shards([compose(["shards.stage=report"])])
    with pytest.raises(ConfigError, match="There is no stage 'scores'"):
        get_stage("scores")


def test_dvc_yaml_is_what_the_stages_say() -> None:
    """Each depends on its module, on the stages that it reads, and on their settings; hand-written
    parts are kept.
    """
    text = (ROOT / "dvc.yaml").read_text()
    assert composing.write_stages(text) == text
    stages = yaml.safe_load(text)["stages"]
    for name, described in stages.items():
        if name in ("compose", "report"):
            continue
        stage = get_stage(name)
        assert f"flows/{name}.py" in described["deps"]
        written = [read for read in stage.reads if read in stages]
        assert {f"tracked/{read}" for read in written} <= set(described["deps"])
        assert set(stage.settings) <= set(described["params"])
        assert all(
            set(get_stage(read).settings) <= set(described["params"])
            for read in written
            if read != "acquire"
        )
    spoiled = text.replace("tracked/index, tracked/questions", "tracked/index")
    assert spoiled != text
    assert composing.write_stages(spoiled) == text
    with pytest.raises(ConfigError, match=r"dvc.yaml lacks the lines"):
        composing.write_stages("stages: {}\n")


def test_dvc_keeps_the_folders_of_reports_in_which_people_label() -> None:
    """DVC removes outputs without `persist` before a stage runs, and labels.jsonl with them."""
    files = [ROOT / "dvc.yaml", *sorted(ROOT.glob("studies/*/dvc.yaml"))]
    assert len(files) > 4
    for file in files:
        stages = yaml.safe_load(file.read_text())["stages"].values()
        outputs = [out for stage in stages for out in stage.get("do", stage).get("outs", [])]
        named = [out if isinstance(out, dict) else {out: {}} for out in outputs]
        reports = [out for out in named if next(iter(out)).startswith("reports/")]
        assert reports, file
        assert all(kept.get("persist") for out in reports for kept in out.values()), file


def test_dvc_yaml_has_the_stage_of_a_plan_where_the_settings_have_one() -> None:
    """Between the stages that it reads and those that read it; without a plan, no stage depends on
    the models of its roles.

    A stage of DVC runs the settings without their grid, of which another retriever is no part.
    """
    text = (ROOT / "dvc.yaml").read_text()
    assert (
        composing.list_written_stages(["retriever=bm25"])
        == list(yaml.safe_load(text)["stages"])[1:-1]
    )
    assert "rank" not in composing.list_written_stages(["+grid.retriever=[bm25,hyde]"])
    names = composing.list_written_stages(["retriever=hyde"])
    stages = yaml.safe_load(composing.write_stages(text, names))["stages"]
    order = list(stages)
    assert (
        order.index("retrieve") < order.index("rank") < order.index("score") < order.index("sweep")
    )
    assert "tracked/rank" in stages["score"]["deps"]
    assert "reranker" in stages["score"]["params"]
    assert "reranker" not in yaml.safe_load(text)["stages"]["score"]["params"]


def test_compose_notices_a_dvc_yaml_that_is_out_of_date(run: Run, tmp_path: Path) -> None:
    """And writes it; without the file, only the settings are written."""
    file = tmp_path / "dvc.yaml"
    text = (ROOT / "dvc.yaml").read_text()
    file.write_text(text.replace("flows/score.py", "flows/scores.py"))
    (tmp_path / "overrides.yaml").write_text("{}\n")
    assert "dvc.yaml: written" in run("compose").stdout
    assert file.read_text() == text
    file.write_text(text.replace("flows/score.py", "flows/scores.py"))
    done = run("compose", "--check", check=False)
    assert done.returncode == 1
    assert "dvc.yaml is out of date" in done.stderr
