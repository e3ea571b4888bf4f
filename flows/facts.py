"""Create a synthetic world of facts: questions with contexts as FiD files, a T5 with random weights, and its warm-up.

It tests RE-RAG's method in minutes, without downloaded weights: docs/re_rag.md.

    python -m flows.facts facts.world.seed=1
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows._build import build
from flows._entry import entry
from flows._summary import Summary
from flows._track import silent
from winnow.artifacts.provenance import compute_key, is_done, write_manifest
from winnow.errors import ConfigError
from winnow.formats.fid_json import write_fid
from winnow.records import Context, Question

_PARTS = {"questions", "base", "warm", "manifest"}
"""Files and folders of a world, by their names up to the first dot after a leading one, as in ".warm.checkpoint.partial"."""


def facts(configs: Sequence[DictConfig]) -> Summary:
    """Create the world of each job, unless it exists."""
    rows = []
    for cfg in configs:
        out = Path(cfg.facts.out)
        settings = {"world": asdict(build(cfg.facts.world)), "size": asdict(build(cfg.facts.size))}
        settings["warm_up"] = {"clozes": cfg.facts.clozes, **asdict(build(cfg.facts.warm_up))}
        key = compute_key(settings)
        if not is_done(out, key):
            _clear(out)
            write_manifest(out, key=key, settings=settings, rows=_create(cfg, out))
        report: dict[str, Any] = json.loads((out / "warm" / "training.json").read_text())
        rows.append({"world": out, "warm-up": f"{report['seconds']:.0f} s, {report['history'][-1]}"})
    return Summary("Facts", rows)


def _clear(out: Path) -> None:
    """Remove an older or unfinished world; refuse a folder that contains anything else."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    unexpected = {name for name in names if name.removeprefix(".").partition(".")[0] not in _PARTS}
    if unexpected:
        raise ConfigError(
            f"facts.out={out} contains {sorted(unexpected)[:3]}, which is not part of a world of facts. Choose another folder."
        )
    shutil.rmtree(out, ignore_errors=True)


def _create(cfg: DictConfig, out: Path) -> int:
    from winnow.synthetic.facts import Facts
    from winnow.synthetic.scratch_t5 import make_t5
    from winnow.training.generators import Seq2SeqGenerator
    from winnow.training.groups import Group
    from winnow.training.loop import fit
    from winnow.training.rag import Rag

    world = Facts(build(cfg.facts.world))
    cases = {split: list(world.split(split)) for split in ("train", "dev", "test")}
    rows = sum(write_fid(out / f"questions/{name}.json", ((c.question, c.contexts) for c in cases[name])) for name in cases)
    base = make_t5(out / "base", world.texts(), build(cfg.facts.size), cfg.facts.world.seed)
    clozes = [
        Group(Question(f"cloze-{n}", cloze.question, (cloze.answer,)), (Context(cloze.passage, 1, 0.0, True),))
        for n, cloze in enumerate(world.cloze(cfg.facts.clozes))
    ]
    dev = [Group(c.question, tuple(x for x in c.contexts if x.has_answer)) for c in cases["dev"]]
    fit(Rag(Seq2SeqGenerator(str(base), max_answer=4)), clozes, dev, build(cfg.facts.warm_up), out / "warm", silent)
    return rows


main = entry(facts)
if __name__ == "__main__":
    main()
