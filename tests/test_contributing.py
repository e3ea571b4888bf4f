"""The examples of CONTRIBUTING.md work as they stand."""

import dataclasses
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
ROUNDS = (Path(__file__).parents[1] / "docs/rounds.md").read_text()
TUTORIAL = (Path(__file__).parents[1] / "docs/tutorial/4_your_strategy.md").read_text()
BLOCKS = {
    **dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", TEXT + ROUNDS, flags=re.DOTALL)),
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
    settings = yaml.safe_load(BLOCKS["conf/metric/words.yaml"])
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
