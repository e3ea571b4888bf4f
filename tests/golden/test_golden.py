"""Revisions are true: no component's output changes without a new number, and code without a number
is known by its source.
"""

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from outputs import GOLDEN, GOLDENS, Golden, differs, made, stored

from winnow.errors import ConfigError
from winnow.identity import code
from winnow.testing import ScriptedReader

CONF = Path(__file__).resolve().parents[2] / "conf"
SETTINGS_ONLY = {
    "winnow.modeling.pair_inputs.PairTemplate": (
        "templates; the estimators and generators that use them have outputs"
    ),
    "winnow.readers.budget.Budget": "limits of a run",
    "winnow.readers.pacing.Pacing": "limits of a server",
    "winnow.readers.server_process.ServerProcess": "how a server is started",
    "winnow.searchers.web.engine.WebSearch": (
        "what it finds is on the web; the APIs and the reader of pages have outputs"
    ),
    "winnow.records.Decoding": "the readers that decode have outputs",
    "winnow.strategies.corrective.actions.Thresholds": "the strategy crag has an output",
    "winnow.strategies.corrective.crag.CorrectiveRetrieval": "the strategy crag has an output",
    "winnow.strategies.corrective.evaluators.EstimatedRelevance": (
        "the strategy crag has an output"
    ),
    "winnow.strategies.corrective.refinement.Refinement": "the strategy crag has an output",
    "winnow.strategies.corrective.searching.KnowledgeSearch": "the strategy crag has an output",
    "winnow.strategies.corrective.segments.SentenceGroups": "the strategy crag has an output",
    "winnow.strategies.self_rag.reflection.SegmentScore": (
        "the strategies of self_rag have outputs"
    ),
    "winnow.strategies.self_rag.segments.Retrieval": "the strategies of self_rag have outputs",
    "winnow.synthetic.facts.FactsSettings": "the stage facts has its own tests of equal worlds",
    "winnow.synthetic.scratch_t5.ScratchT5": "the size of a model",
    "winnow.training.settings.LoopSettings": "the stage version of train_joint covers the loop",
    "winnow.training.settings.SftSettings": "the stage version of train_reader covers the loop",
}
"""Components without an output of their own, with the reason."""


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.component.__name__)
def test_an_output_changes_only_with_its_revision(golden: Golden) -> None:
    """If this fails, the numbers of the former code are not those of this one: raise the revision
    that the message names.
    """
    recorded = json.loads(GOLDEN.read_text()).get(golden.name)
    now = stored(golden, made(golden))
    assert recorded is not None, (
        f"{golden.name} is new: record it with `PYTHONPATH=. python tests/golden/outputs.py`."
    )
    assert recorded["revision"] == now["revision"], (
        f"Record {golden.name} with `PYTHONPATH=. python tests/golden/outputs.py`."
    )
    if differs(recorded, now, golden.tolerance):
        raised = now["revision"] + 1
        command = "PYTHONPATH=. python tests/golden/outputs.py"
        pytest.fail(
            f"The output of {golden.name} changed: set its `revision` to {raised}, then run "
            f"`{command}`."
        )


def test_a_declared_revision_has_an_output_that_guards_it() -> None:
    """Whatever a YAML names; settings without an output say why. A class without a revision is
    known by its source.
    """
    text = "\n".join(file.read_text() for file in CONF.rglob("*.yaml"))
    targets = set(re.findall(r"_target_: (winnow[\w.]+)", text))
    assert len(targets) > 60
    components = {
        target: getattr(import_module(target.rpartition(".")[0]), target.rpartition(".")[2])
        for target in targets
    }
    numbered = {
        target
        for target, component in components.items()
        if isinstance(code.get_revision(component), int)
    }
    assert numbered - {golden.name for golden in GOLDENS} == set(SETTINGS_ONLY)


def module_of(folder: Path, source: str) -> ModuleType:
    """A user's module, loaded again."""
    (folder / "mine.py").write_text(source)
    sys.modules.pop("mine", None)
    return import_module("mine")


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


SOURCE = '''
from winnow.strategies.post_fusion import PostFusion

def helper():
    return 1

class Mine(PostFusion):
    revision = 1

    def answer(self):
        """Doc."""
        return helper()
'''


def test_code_outside_is_identified_by_its_source(on_path: Path) -> None:
    """Also with a declared number, and also where a function beside the class changed; comments do
    not count.
    """
    revisions = []
    for source in (
        SOURCE,
        SOURCE + "\n# a comment\n",
        SOURCE.replace('"""Doc."""', '"""Other."""'),
        SOURCE.replace("return 1", "return 2"),
    ):
        revisions.append(code.get_revision(module_of(on_path, source).Mine))
        assert str(revisions[-1]).startswith("source-")
    assert revisions[0] == revisions[1] == revisions[2] != revisions[3]


def test_a_base_classs_revision_counts(on_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subclass of a repaired class is repaired too."""
    before = code.get_revision(module_of(on_path, SOURCE).Mine)
    monkeypatch.setattr("winnow.strategies.post_fusion.PostFusion.revision", 99)
    assert code.get_revision(sys.modules["mine"].Mine) != before


def test_a_subclass_within_winnow_does_not_inherit_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may compute something else."""
    from winnow.strategies.post_fusion import PostFusion

    monkeypatch.delattr(PostFusion, "revision")
    assert str(code.get_revision(PostFusion)).startswith("source-")


def test_a_class_without_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code cannot be identified."""
    monkeypatch.setitem(sys.modules, "notebook", ModuleType("notebook"))
    with pytest.raises(ConfigError, match=r"notebook.Typed is in no file"):
        code.get_revision(type("Typed", (), {"__module__": "notebook"}))


def test_a_repaired_engine_does_not_get_its_former_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ledger files by identity and revision; the first revision adds nothing, so that former
    ledgers stay valid.
    """
    assert code.get_ledger_identity(ScriptedReader(identity="x")) == "x"
    monkeypatch.setattr(ScriptedReader, "revision", 2)
    assert code.get_ledger_identity(ScriptedReader(identity="x")) == "x/revision-2"
