"""Worlds of facts: what they depend on, and that each has a folder of its own."""

from pathlib import Path

import pytest

from flows.facts import _identify_world, facts
from flows.settings.door import compose
from winnow.errors import ConfigError
from winnow.synthetic.facts import FactsSettings
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.rag import Rag

WORDS = ["experiment=re_rag/from_scratch"]


def test_a_world_depends_on_settings_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on the code of its model's training; not on what affects the speed alone."""
    before = _identify_world(compose(WORDS))
    assert _identify_world(compose([*WORDS, "facts.warm_up.save_steps=500"])) == before
    assert _identify_world(compose([*WORDS, "facts.world.contexts=4"])) != before
    assert _identify_world(compose([*WORDS, "facts.clozes=64"])) != before
    for code in (FactsSettings, Seq2SeqGenerator):
        monkeypatch.setattr(code, "revision", 99)
        assert _identify_world(compose(WORDS)) != before
        monkeypatch.undo()
    assert _identify_world(compose(WORDS)) == before


def test_two_worlds_of_one_folder_are_refused(tmp_path: Path) -> None:
    """The last would remain, and nothing of the first."""
    out = f"facts.out={tmp_path / 'world'}"
    jobs = [compose([*WORDS, out, f"facts.world.contexts={number}"]) for number in (4, 6)]
    with pytest.raises(ConfigError, match=r"folder of 2 jobs.*\$\{facts.world.seed\}"):
        facts(jobs)
    assert not (tmp_path / "world").exists()


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    """In the folder and below it; the message names them."""
    world = tmp_path / "world"
    for name in ("notes.txt", "questions/mine.json"):
        file = world / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
        with pytest.raises(ConfigError, match=f"contains .*{name}.*did not write"):
            facts([compose([*WORDS, f"facts.out={world}"])])
        assert file.read_text() == "mine"
        file.unlink()


def test_a_world_depends_on_size_warm_up_and_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of another size, or that was trained otherwise, would count as finished."""
    before = _identify_world(compose(WORDS))
    for word in ("facts.size.layers=1", "facts.warm_up.learning_rate=0.5"):
        assert _identify_world(compose([*WORDS, word])) != before
    monkeypatch.setattr(Rag, "revision", 99)
    assert _identify_world(compose(WORDS)) != before
