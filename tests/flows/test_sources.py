"""What a report says of where its numbers come from: judges, filters, inputs, and how many
questions a mean is over.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from flows.project.engines import find_price
from flows.project.inputs import ArtifactIndex
from flows.project.metrics import _check_one_judge, _name_judge, check_common_settings
from flows.project.runs import count_models_of
from flows.report import _compute_headline_values
from flows.settings.door import compose
from winnow.artifacts.steps import count_models, write_models
from winnow.errors import ConfigError
from winnow.metrics.base import MeanMetric, Sample
from winnow.metrics.correctness import ExactMatch
from winnow.predictions import Price
from winnow.reports.cells import CellResult
from winnow.steps import Outcome, Step
from winnow.sweeps.labels import CellLabels
from winnow.testing import make_sample


def test_replies_are_counted_by_role_and_model(tmp_path: Path) -> None:
    """Those of a judge and of the closed-book filter, whose artifacts have no steps."""
    steps = (
        Step(1, "generate", "judge", model="j-1", calls=2),
        Step(1, "generate", "judge", model="j-2"),
        Step(1, "search", "search"),
    )
    models: Counter[tuple[str, str]] = Counter()
    outcomes = [Outcome(n, n, steps=steps) for n in range(3)]
    assert list(count_models_of(outcomes, models)) == outcomes
    assert models == {("judge", "j-1"): 6, ("judge", "j-2"): 3}
    write_models(tmp_path, models)
    assert count_models(tmp_path) == models


def test_several_judges_end_a_report_that_forbids_it() -> None:
    """One model, or leave to change, is fine."""
    words = ["reader@judge=openai", "judge.base=m", "++judge.engine.model_change=stop"]
    models = {("judge", "j-1"): 6, ("judge", "j-2"): 3, ("reader", "r"): 1}
    with pytest.raises(ConfigError, match="Several models judged the answers: j-1, j-2"):
        _check_one_judge(compose(words), models)
    _check_one_judge(compose(words), {("judge", "j-1"): 6, ("reader", "r"): 1})
    _check_one_judge(compose(words[:2]), models)


def test_a_judge_of_this_machine_has_the_name_of_its_reader() -> None:
    """Beside the library that ran it; a server's is what the server reports. Without a judge, the
    reader judges itself.
    """
    reader = {"name": "smollm2", "engine": {"runtime": "openvino"}}
    served = {"name": "openai", "engine": {"base_url": "https://api"}}
    assert (
        _name_judge({"reader": reader, "judge": served}, "judge", "gpt-4o-mini-2024-07-18")
        == "gpt-4o-mini-2024-07-18"
    )
    assert (
        _name_judge({"reader": reader, "judge": None}, "judge", "openvino-genai 1")
        == "smollm2 by openvino-genai 1"
    )


@pytest.mark.parametrize("word", ["metric=[em]", "breakdown=sufficiency", "judge.base=other"])
def test_jobs_of_one_table_have_one_judge_and_the_same_metrics(word: str) -> None:
    """Settings that are no part of a cell's key: the first job's would serve all."""
    first = ["reader@judge=openai", "judge.base=m"]
    check_common_settings([compose(first), compose([*first, "k=3"])])
    with pytest.raises(
        ConfigError, match=rf"The cells differ in {word.partition('=')[0].partition('.')[0]}"
    ):
        check_common_settings([compose(first), compose([*first, word])])
    if word.startswith("judge"):
        with pytest.raises(ConfigError, match="The cells differ in judge"):
            check_common_settings([compose([*first, "grid={judge.base:[m,other]}"])])
    checked = ["strategy=sure", "reader@verifier=openai", "grid={verifier.base:[m,other]}"]
    check_common_settings([compose(checked)])  # the strategy asks it


def test_a_price_is_that_of_the_model_whatever_its_commit() -> None:
    """A hub name has one as soon as flows.acquire has recorded it."""
    table = "prices.table=[{model: org/m, input: 1.0, output: 2.0}]"
    for base in ("org/m", "org/m@0123"):
        settings = compose([table, f"reader.base={base}"])
        assert find_price(settings, settings.reader) == Price(1.0, 2.0)


def test_inputs_are_found_through_manifests(tmp_path: Path) -> None:
    """Those of inputs too, each once; a key with other content is another artifact."""
    keys = {"corpus": "0" * 12, "index": "1" * 12, "cell": "2" * 12}
    inputs = {"corpus": {}, "index": {"corpus": f"{keys['corpus']}:{'c' * 12}"}}
    inputs["cell"] = {
        "a": {"b": f"{keys['index']}:{'c' * 12}"},
        **inputs["index"],
        "x": f"{keys['index']}:{'d' * 12}",
    }
    folders = {}
    for kind, key in keys.items():
        folders[kind] = tmp_path / kind / f"name-{key}"
        folders[kind].mkdir(parents=True)
        manifest = {"content": "c" * 12, "settings": {"inputs": inputs[kind]}}
        (folders[kind] / "manifest.json").write_text(json.dumps(manifest))
    found = ArtifactIndex([tmp_path]).collect([folders["cell"]])
    assert sorted(found) == sorted(folders.values())


@dataclass(frozen=True)
class Half(MeanMetric):
    """Defined for every other question."""

    revision: ClassVar[int] = 1

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 or None."""
        return 1.0 if int(sample.question.question_id[-1]) % 2 else None


def test_a_mean_over_a_part_has_its_number_beside_it() -> None:
    """In the files of the cells, as in tables."""
    samples = [make_sample("x", n) for n in range(10)]
    values = _compute_headline_values(
        CellResult(CellLabels("s", 1, "g"), samples, [Half("half", "Half")])
    )
    assert values["half_n"] == 5
    whole = _compute_headline_values(
        CellResult(CellLabels("s", 1, "g"), samples, [ExactMatch("em", "EM")])
    )
    assert "em_n" not in whole
