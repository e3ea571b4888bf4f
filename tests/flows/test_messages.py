"""Mistakes on the command line: one line that names the setting, the value received and what is
expected.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import Run

from flows import evaluate_estimator
from flows.project import metrics as project_metrics
from flows.project.artifacts import Project
from flows.project.cells import _validate
from flows.project.engines import open_engines, open_reader, resolve_engine_spec
from flows.project.metrics import build_metrics
from flows.project.searched import resolve_search_spec
from flows.report import _count_filtered
from flows.settings import composition
from flows.settings.components import Component, check_component
from flows.settings.door import compose
from flows.settings.typed import Settings
from flows.stages.errors import exit_on_errors
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import read_questions
from winnow.errors import ConfigError
from winnow.identity.code import declare_settings
from winnow.predictions import Price
from winnow.readers.openai_chat import OpenAIReader
from winnow.requests import Generate
from winnow.sweeps.spec import EngineSpec, QuestionSelection
from winnow.testing import ScriptedServer


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": "hot"}, "Decoding.temperature='hot': expected a valid number."),
        ({"max_new_tokens": 1.5}, "Decoding.max_new_tokens=1.5: expected a valid integer."),
        ({"max_new_tokens": True}, "Decoding.max_new_tokens=True: expected a valid integer."),
        ({"logprobs": "yes"}, "Decoding.logprobs='yes': expected a valid boolean."),
    ],
)
def test_settings_of_components_are_checked_by_their_annotations(
    settings: dict[str, object], message: str
) -> None:
    """Before the class computes with them."""
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        check_component("Decoding", {"_target_": "winnow.records.Decoding", **settings})


def test_whole_numbers_serve_as_floats_and_null_where_it_is_allowed() -> None:
    """A check that is too strict would refuse good settings."""
    assert (
        Component({"_target_": "winnow.records.Decoding", "temperature": 1, "samples": 2})
        .build()
        .temperature
        == 1
    )
    assert (
        Component({"_target_": "winnow.readers.budget.Budget", "money": None, "tokens": 3})
        .build()
        .tokens
        == 3
    )


def test_a_multirun_reports_a_mistake_in_one_line(run: Run) -> None:
    """As a single run does, without a stack trace."""
    failed = run("sweep", "-m", "k=five,2", check=False)
    assert failed.returncode
    assert failed.stderr.strip() == "ConfigError: k='five': expected a valid integer."


def test_an_empty_questions_file_is_named(prepared: Run, tmp_path: Path) -> None:
    """Instead of a sweep over nothing."""
    (tmp_path / "empty.jsonl").write_text("")
    failed = prepared("questions", f"dataset.parser.path={tmp_path}/empty.jsonl", check=False)
    assert f"{tmp_path}/empty.jsonl contains no question" in failed.stderr


def test_a_ranking_of_another_corpus_is_named(prepared: Run, tmp_path: Path) -> None:
    """With the number of its passages that the corpus lacks."""
    questions = read_questions(next(tmp_path.glob("data/questions/*/questions.parquet")))
    lines = [
        f"{question.question_id} Q0 {'zyx'[n % 2]} 1 1.0 x" for n, question in enumerate(questions)
    ]
    (tmp_path / "run.trec").write_text("\n".join(lines))
    words = ["retriever=trec_run", f"retriever.engine.path={tmp_path}/run.trec"]
    prepared("index", *words)
    failed = prepared("retrieve", *words, check=False)
    assert failed.returncode
    assert (
        "2 of 2 passages of the rankings are not in the corpus towns, such as 'y'." in failed.stderr
    )


def test_an_interrupt_says_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, with the exit status of an interrupted process."""
    with pytest.raises(SystemExit) as raised, exit_on_errors():
        raise KeyboardInterrupt
    assert raised.value.code == 130
    assert (
        capsys.readouterr().err.strip()
        == "Interrupted. Finished calls and artifacts are kept; the same command continues."
    )


def test_a_page_of_one_training_refuses_several_seeds(run: Run) -> None:
    """It would show one of them under the names of all."""
    done = run("show", "question=x", "seeds=[1,2]", check=False)
    assert (
        "seeds=[1, 2]: flows.show shows one training. Name one, such as seeds=[1]." in done.stderr
    )


def test_roles_that_share_a_model_share_its_budget() -> None:
    """Two budgets for one model would leave one of them without effect."""
    words = [
        "reader=openai", "reader.base=m", "reader@judge=openai", "judge.base=m",
        "reader.engine.budget.tokens=1", "judge.engine.budget.tokens=2",
    ]  # fmt: skip
    project = Project(compose(words))
    specs = [resolve_engine_spec(project, role) for role in ("reader", "judge")]
    with pytest.raises(
        ConfigError, match=r"The roles reader and judge use the same model, which has one budget"
    ):
        open_engines(specs, check=False)
    same = Project(compose([*words, "judge.engine.budget.tokens=1"]))
    engines = open_engines(
        [resolve_engine_spec(same, role) for role in ("reader", "judge")], check=False
    )
    assert engines[Generate, "reader"] is engines[Generate, "judge"]


@pytest.mark.parametrize("name", ["reader", "other"])
def test_roles_that_share_an_engine_have_the_same_settings(name: str) -> None:
    """Those of the first role would count for the second one."""
    words = ["reader=openai", "reader.base=m", "reader@judge=openai", "judge.base=m"]
    project = Project(compose([*words, f"judge.name={name}", "judge.engine.dialect=vllm"]))
    specs = [resolve_engine_spec(project, role) for role in ("reader", "judge")]
    message = (
        r"one dialect, but reader\.engine\.dialect is openai and judge\.engine\.dialect is vllm"
    )
    with pytest.raises(ConfigError, match=message):
        open_engines(specs, check=False)


def test_metrics_with_one_heading_are_refused() -> None:
    """A table would show the second of them alone."""
    message = r"accuracy and choice have the same heading 'Acc'\. Set metric\.choice\.title"
    with pytest.raises(ConfigError, match=message):
        build_metrics(compose(["metric=[accuracy,choice]"]))
    metrics = build_metrics(compose(["metric=[accuracy,choice]", "metric.choice.title=choice"]))
    assert [metric.heading for metric in metrics] == ["Acc", "choice"]


def test_a_metric_has_the_name_of_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copied file of settings would put its values in the column of another metric."""
    with pytest.raises(ConfigError, match=r"metric\.accuracy\.name='em': a metric has the name"):
        build_metrics(compose(["metric=[em,accuracy]", "metric.accuracy.name=em"]))
    settings = compose(["metric=[em]"])
    (tmp_path / "metric").mkdir()
    for name in ("em", "brevity"):
        shutil.copy(composition.CONF / "metric/em.yaml", tmp_path / f"metric/{name}.yaml")
    for module in (project_metrics, composition):
        monkeypatch.setattr(module, "CONF", tmp_path)
    project_metrics._check_packages.cache_clear()
    with pytest.raises(ConfigError, match=r"conf/metric/brevity\.yaml must be '# @package metric"):
        build_metrics(settings)


def test_a_group_for_each_sample_is_expected() -> None:
    """Of a breakdown of one's own, too."""
    breakdown = SimpleNamespace(assign_groups=lambda _: ["a"])
    with pytest.raises(ConfigError, match=r"assign_groups: expected 0 groups, one for each sample"):
        project_metrics._assign_groups(cast("Any", breakdown), [])


def test_roles_share_the_engine_of_a_server_whose_model_they_name_differently() -> None:
    """Two queues of one model in one process would each send what the other one waits for."""
    words = ["reader=openai", "reader.base=m", "reader@judge=openai", "judge.base=m"]
    project = Project(compose([*words, "judge.name=other"]))
    specs = [resolve_engine_spec(project, role) for role in ("reader", "judge")]
    assert specs[0].key != specs[1].key
    engines = open_engines(specs, check=False)
    assert engines[Generate, "reader"] is engines[Generate, "judge"]


def test_engines_with_other_settings_under_one_name_stay_apart() -> None:
    """The identity of a class outside of Winnow is a name; its settings are declared."""

    class Mine(ScriptedServer):
        """A class that is not Winnow's."""

    servers = [Mine(identity="mine") for _ in range(2)]
    for number, server in enumerate(servers):
        declare_settings(server, f"{number}")
    specs = [
        EngineSpec(role, role, lambda _, server=server: server)  # type: ignore[misc]
        for role, server in zip(("reader", "judge"), servers, strict=True)
    ]
    engines = open_engines(specs)
    assert engines[Generate, "reader"] is servers[0]
    assert engines[Generate, "judge"] is servers[1]


def test_readers_that_are_opened_apart_share_one_budget() -> None:
    """Those of a process with the same identity and budget; another budget is one of its own."""
    cfg = compose(["reader=openai", "reader.base=m", "reader.engine.budget.tokens=5"])
    first, second = (open_reader(cfg.reader, "m", price=Price(), check=False) for _ in range(2))
    assert isinstance(first, OpenAIReader)
    assert isinstance(second, OpenAIReader)
    assert first.spending is second.spending
    cfg = compose(["reader=openai", "reader.base=m", "reader.engine.budget.tokens=6"])
    other = open_reader(cfg.reader, "m", price=Price(), check=False)
    assert isinstance(other, OpenAIReader)
    assert other.spending is not first.spending


def test_changed_passages_are_not_weighted_by_scores_of_the_true_ones() -> None:
    """Nobody has scored them."""
    words = ["placement=counterfactual", "k=2"]
    _validate(compose(words))
    with pytest.raises(ConfigError, match=r"weighting\.by=retriever weights passages by their"):
        _validate(compose([*words, "weighting.by=retriever"]))


def test_a_reader_of_batches_is_not_that_of_single_calls() -> None:
    """Although replies to both are the same."""
    words = ["reader=openai", "reader.base=m", "reader@judge=openai_batch", "judge.base=m"]
    project = Project(compose(words))
    specs = [resolve_engine_spec(project, role) for role in ("reader", "judge")]
    engines = open_engines(specs, check=False)
    one, two = engines[Generate, "reader"], engines[Generate, "judge"]
    assert one.identity == two.identity
    assert type(one) is not type(two)


def test_each_closed_book_filter_is_counted_once(tmp_path: Path) -> None:
    """Each reader has its own."""
    selections = []
    for name, num_kept in (("a", 7), ("b", 5)):
        file = tmp_path / f"{name}.parquet"
        rows = (
            {"question_id": f"q{n}", "answer": "x", "em": 0.0, "f1": 0.0, "kept": n < num_kept}
            for n in range(9)
        )
        parquet.write(file, contracts.CLOSED_BOOK, rows)
        selections += [QuestionSelection(tmp_path, "test", closed_book=file)] * 2
    selections.append(QuestionSelection(tmp_path, "test"))
    assert _count_filtered(selections) == [(9, 7), (9, 5)]


def test_a_default_that_is_given_is_no_other_setting() -> None:
    """The YAML of one role may leave out what that of the other one says."""
    words = ["reader=openai", "reader.base=m", "reader@judge=openai", "judge.base=m"]
    for value, is_alike in (("mark", True), ("stop", False)):
        project = Project(compose([*words, f"+reader.engine.model_change={value}"]))
        specs = [resolve_engine_spec(project, role) for role in ("reader", "judge")]
        if is_alike:
            open_engines(specs, check=False)
        else:
            with pytest.raises(ConfigError, match=r"one model_change, but .*judge.* is mark"):
                open_engines(specs, check=False)


@pytest.mark.parametrize("own", ["reader", "judge"])
def test_a_setting_that_one_role_lacks_is_a_difference(own: str) -> None:
    """In whichever of the two it is."""
    words = ["reader=openai", "reader.base=m", "reader@judge=openai", "judge.base=m"]
    project = Project(compose([*words, "judge.name=other"]))
    specs = [resolve_engine_spec(project, role) for role in ("reader", "judge")]
    specs = [
        replace(one, settings={**one.settings, "mine": 1}) if one.role == own else one
        for one in specs
    ]
    with pytest.raises(ConfigError, match="one mine, but"):
        open_engines(specs, check=False)


def test_a_reader_of_batches_has_the_budget_of_single_calls() -> None:
    """They are two engines of one model."""
    words = [
        "reader=openai", "reader.base=m", "reader@judge=openai_batch", "judge.base=m",
        "reader.engine.budget.tokens=1", "judge.engine.budget.tokens=2",
    ]  # fmt: skip
    project = Project(compose(words))
    specs = [resolve_engine_spec(project, role) for role in ("reader", "judge")]
    with pytest.raises(ConfigError, match="which has one budget"):
        open_engines(specs, check=False)


@pytest.mark.parametrize(
    ("check", "words", "message"),
    [
        (_validate, ["estimator=t5_regression", "weighting.by=estimator"], "set weighting.by=none"),
        (
            evaluate_estimator._validate,
            ["estimator=t5_regression", "score.splits=[dev,test]"],
            r"set evaluate_estimator.show=\[table2\]",
        ),
        (
            lambda settings: resolve_search_spec(Project(settings)),
            ["search=poisoned", "search.rules.placed=true"],
            "would insert the true gold passage next to the poisoned one",
        ),
    ],
)
def test_what_would_be_computed_of_the_wrong_scores_or_passages_is_refused(
    check: Callable[[Settings], object], words: list[str], message: str
) -> None:
    """A regression's scores are no log-odds, and a gold passage is not inserted for a poisoned
    one.
    """
    with pytest.raises(ConfigError, match=message):
        check(compose(words))
