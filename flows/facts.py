"""Create a synthetic world of facts: questions with contexts in FiD's format, and a small T5 that
is trained from scratch.

With it the method of RE-RAG can be tested in minutes, without downloaded weights; see
docs/re_rag.md.

    python -m flows.facts facts.world.seed=1
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.settings.identity import PinnedAssets
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.outputs import check_outputs
from flows.stages.registry import Stage
from flows.stages.tracking import discard_metrics
from flows.tools.summary import Summary
from winnow.artifacts.provenance import compute_key, is_done, write_manifest
from winnow.errors import ConfigError
from winnow.formats.fid_json import write_fid
from winnow.records import Context, Question

_RAG, _GENERATOR = "winnow.training.rag.Rag", "winnow.training.generators.Seq2SeqGenerator"
_STEMS = {"questions", "base", "warm", "manifest"}
"""Stems of a world's files and folders, such as "warm" for ".warm.checkpoint.partial"."""


def facts(jobs: Sequence[Settings]) -> Summary:
    """Create the world of each job unless it is finished."""
    check_outputs("facts.out", [(settings.facts.out,) for settings in jobs], "facts.world.seed")
    rows = []
    for settings in jobs:
        out = Path(settings.facts.out)
        manifest_settings = _identify_world(settings)
        key = compute_key(manifest_settings)
        if not is_done(out, key):
            _remove_world(out)
            write_manifest(
                out, key=key, settings=manifest_settings, rows=_create_world(settings, out)
            )
        report: dict[str, Any] = json.loads((out / "warm" / "training.json").read_text())
        rows.append(
            {"world": out, "warm-up": f"{report['seconds']:.0f} s, {report['history'][-1]}"}
        )
    return Summary("Facts", rows)


def _identify_world(settings: Settings) -> dict[str, Any]:
    """Return all that a world depends on: the settings, and the code of what trains its model."""
    facts = settings.facts
    parts = {"world": facts.world, "size": facts.size, "warm_up": facts.warm_up}
    training = {"_target_": _RAG, "generator": {"_target_": _GENERATOR}}
    identified: dict[str, Any] = PinnedAssets({}).identify_settings({**parts, "training": training})
    return {**identified, "clozes": facts.clozes}


def _remove_world(out: Path) -> None:
    """Remove an older or unfinished world.

    Raises:
        ConfigError: If the folder contains anything that is not part of a world.
    """
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    unexpected = {name for name in names if name.removeprefix(".").partition(".")[0] not in _STEMS}
    questions = out / "questions"
    unexpected |= {
        f"questions/{path.name}"
        for path in (questions.iterdir() if questions.is_dir() else ())
        if path.name.removeprefix(".").partition(".")[0] not in ("train", "dev", "test")
    }
    if unexpected:
        raise ConfigError(
            f"facts.out={out} contains {sorted(unexpected)[:3]}, which this stage did not write. "
            "Choose another folder."
        )
    shutil.rmtree(out, ignore_errors=True)


def _create_world(settings: Settings, out: Path) -> int:
    """Write the questions, the base model and its warm-up, and return the number of questions."""
    from winnow.synthetic.facts import Facts
    from winnow.synthetic.scratch_t5 import make_t5
    from winnow.training.generators import Seq2SeqGenerator
    from winnow.training.groups import Group
    from winnow.training.loop import fit
    from winnow.training.rag import Rag

    facts = settings.facts.world.build()
    world = Facts(facts)
    cases = {split: list(world.generate_cases(split)) for split in ("train", "dev", "test")}
    rows = 0
    for split, split_cases in cases.items():
        rows += write_fid(
            out / f"questions/{split}.json",
            ((case.question, case.contexts) for case in split_cases),
        )
    base = make_t5(
        out / "base", world.list_vocabulary_texts(), settings.facts.size.build(), facts.seed
    )
    clozes = [
        Group(
            Question(f"cloze-{n}", cloze.question, (cloze.answer,)),
            (Context(cloze.passage, 1, 0.0, True),),
        )
        for n, cloze in enumerate(world.generate_clozes(settings.facts.clozes))
    ]
    dev = [
        Group(case.question, tuple(c for c in case.contexts if c.has_answer))
        for case in cases["dev"]
    ]
    fit(
        Rag(Seq2SeqGenerator(str(base), max_answer=4)),
        clozes,
        dev,
        settings.facts.warm_up.build(),
        out / "warm",
        discard_metrics,
    )
    return rows


STAGE = Stage(facts)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
