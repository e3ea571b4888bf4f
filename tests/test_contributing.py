"""The examples of CONTRIBUTING.md work as they stand."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TEXT, ROUNDS, CONTEXT, TUTORIAL = (
    (ROOT / name).read_text()
    for name in (
        "CONTRIBUTING.md",
        "docs/rounds.md",
        "docs/context.md",
        "docs/tutorial/4_your_strategy.md",
    )
)
BLOCKS = {
    **dict(
        re.findall(
            r"```(?:python|yaml)\n# (\S+)\n(.*?)```", TEXT + ROUNDS + CONTEXT, flags=re.DOTALL
        )
    ),
    **dict(
        re.findall(
            r"^cat > (\S+) <<'(?:PYTHON|YAML)'\n(.*?)^(?:PYTHON|YAML)$",
            TUTORIAL,
            flags=re.DOTALL | re.MULTILINE,
        )
    ),
}


def _module(path: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Run a block as the module that its first line names."""
    name = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(BLOCKS[path], path, "exec"), module.__dict__)  # noqa: S102 (the page's own code)
    return module


@pytest.mark.parametrize("path", BLOCKS)
def test_a_block_is_a_new_file_in_the_project_s_style(path: str) -> None:
    """It replaces nothing, and passes the first commands of the page."""
    assert not (ROOT / path).exists()
    own = """lint.isort.known-first-party=["flows", "tests", "winnow"]"""  # some are not there yet
    checks = (["format", "--check"], ["check", "--config", own])
    for words in checks if path.endswith(".py") else ():
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", path, "-"]
        done = subprocess.run(
            command, input=BLOCKS[path], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its YAML's settings build it, and it keeps the first words."""
    from winnow.testing import make_context, make_question, run_scripted_plan

    path = "src/winnow/strategies/processing/first_words.py"
    module = _module(path, monkeypatch)
    settings = yaml.safe_load(BLOCKS["conf/context/first_words.yaml"])["plan"]
    assert settings.pop("_target_") == f"{path[4:-3].replace('/', '.')}.FirstWords"
    processor = dataclasses.replace(module.FirstWords(**settings), num_words=2)
    plan = processor.process(make_question(), [make_context(1, "a b c")])
    contexts, _ = run_scripted_plan(plan, [])
    assert [context.passage.text for context in contexts] == ["a b"]


def test_the_strategy_and_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of the page passes on the strategy of the page."""
    strategy = _module("src/winnow/strategies/second_opinion.py", monkeypatch)
    page = vars(_module("tests/strategies/test_second_opinion.py", monkeypatch))
    tests = [value for name, value in page.items() if name.startswith("test_")]
    for test in tests:
        test()
    target = yaml.safe_load(BLOCKS["conf/strategy/second_opinion.yaml"])["plan"]["_target_"]
    assert (target, len(tests)) == (
        f"winnow.strategies.second_opinion.{strategy.SecondOpinion.__name__}",
        1,
    )


def test_the_agent_and_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of docs/rounds.md passes on its agent, which its YAML names."""
    agent = _module("src/winnow/strategies/rounds/search_again.py", monkeypatch).SearchAgain
    vars(_module("tests/strategies/rounds/test_search_again.py", monkeypatch))[
        "test_the_query_is_the_readers"
    ]()
    settings = yaml.safe_load(BLOCKS["conf/strategy/search_again.yaml"])
    assert settings["plan"]["_target_"] == f"winnow.strategies.rounds.search_again.{agent.__name__}"
    assert BLOCKS["src/winnow/strategies/rounds/search_again.py"].count("\n") <= 45


def test_the_retriever_and_its_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The test of the page passes on the retriever of the page, which its YAML names."""
    module = _module("src/winnow/retrievers/titles.py", monkeypatch)
    vars(_module("tests/retrievers/test_titles.py", monkeypatch))[
        "test_shared_words_rank_passages"
    ](tmp_path)
    settings = yaml.safe_load(BLOCKS["conf/retriever/titles.yaml"])
    assert settings["engine"]["_target_"] == f"winnow.retrievers.titles.{module.Titles.__name__}"


def test_the_breakdown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its YAML's settings build it, and it groups samples."""
    from winnow.testing import make_sample

    module = _module("src/winnow/metrics/answer_length.py", monkeypatch)
    settings = yaml.safe_load(BLOCKS["conf/breakdown/answer_length.yaml"])
    assert settings.pop("_target_") == "winnow.metrics.answer_length.AnswerLength"
    samples = [make_sample("x", 0, ("Paris",)), make_sample("x", 0, ("Jane Austen",))]
    assert module.AnswerLength(**settings).assign_groups(samples) == ["one word", "several words"]


def test_the_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its YAML's settings build it."""
    from winnow.testing import make_sample

    module = _module("src/winnow/metrics/brevity.py", monkeypatch)
    settings = yaml.safe_load(BLOCKS["conf/metric/brevity.yaml"])
    assert settings.pop("_target_") == "winnow.metrics.brevity.Words"
    metric = module.Words(**settings)
    assert metric.score(make_sample("the Jane Austen")) == 3
    assert metric.score(make_sample("unknown", unknown=True)) is None


def test_the_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It writes its artifact once, under a key that its version and its inputs name, and says what
    it is.
    """
    import flows
    from flows.corpus import corpus
    from flows.project.artifacts import Project
    from flows.settings.door import compose

    module = _module("flows/lengths.py", monkeypatch)
    monkeypatch.setattr(flows, "lengths", module, raising=False)
    passages = tmp_path / "passages.jsonl"
    passages.write_text('{"id": "a", "text": "one two"}\n{"id": "b", "text": "one"}\n')
    paths = [f"paths.{name}={tmp_path / name}" for name in ("data", "models")]
    cfg = compose(["corpus=jsonl", "corpus.name=mine", f"corpus.parser.path={passages}", *paths])
    corpus([cfg])
    summary = module.STAGE.run([cfg])
    artifact = module.STAGE.resolve_made(Project(cfg))
    assert list(summary.artifacts) == [artifact.folder]
    lines = [
        json.loads(line) for line in (artifact.folder / "lengths.jsonl").read_text().splitlines()
    ]
    assert lines == [{"id": "a", "words": 2}, {"id": "b", "words": 1}]
    written = (artifact.folder / "manifest.json").stat().st_mtime_ns
    module.STAGE.run([cfg])
    assert (artifact.folder / "manifest.json").stat().st_mtime_ns == written
    monkeypatch.setattr(module, "STAGE", dataclasses.replace(module.STAGE, version=2))
    assert module.STAGE.resolve_made(Project(cfg)).key != artifact.key
    assert (module.STAGE.name, module.STAGE.reads) == ("lengths", ("corpus",))
