"""The artifacts of a configuration: each in a folder named by the hash of its settings and of its inputs.

Artifacts of different settings exist side by side, a finished one is recognised without reading it, and a changed key
rebuilds only what depends on it. A `Project` is made once per configuration; nothing behind the flows takes a configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows._identity import Pinned, slug
from winnow.artifacts.provenance import check_content, compute_key, content_digest, is_done, write_manifest
from winnow.errors import MissingArtifactError


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact: its folder, its key, the stage that makes it, and the settings that the key is computed from."""

    folder: Path
    key: str
    settings: Mapping[str, Any]
    stage: str

    @property
    def done(self) -> bool:
        """Return whether it is finished."""
        return is_done(self.folder, self.key)

    def require(self) -> Path:
        """Return its folder, after checking its content.

        Raises:
            MissingArtifactError: unless it is finished; the message names the command that makes it.
            ArtifactError: if a file of it was changed since.

        """
        if not self.done:
            raise MissingArtifactError(
                f"There is no finished {self.folder}. Run `python -m flows.{self.stage}` with the same settings first "
                "(`dvc repro` runs every stage that is due)."
            )
        check_content(self.folder)
        return self.folder

    @property
    def identity(self) -> str:
        """Return what identifies it as an input of others: its key and, once it is finished, the digest of its content.

        A model that is trained again under the same key is another input.
        """
        return f"{self.key}:{content_digest(self.folder)}" if self.done else self.key

    def finish(self, rows: int) -> None:
        """Mark it as finished."""
        write_manifest(self.folder, key=self.key, settings=self.settings, rows=rows)


class Project:
    """The artifacts of one configuration; each is resolved once."""

    def __init__(self, cfg: DictConfig) -> None:
        """Keep the configuration."""
        self.cfg = cfg
        self.pinned = Pinned.of(cfg)

    def artifact(self, stage: str, kind: str, name: str, inputs: Mapping[str, Any], root: str = "data") -> Artifact:
        """Return an artifact by its stage, its folder's name, and everything that it depends on."""
        identified = {label: self.pinned.settings(value) for label, value in inputs.items()}
        settings = {"stage": stage, "name": name, "inputs": identified, "version": self.cfg.stage_versions[stage]}
        key = compute_key(settings)
        return Artifact(Path(self.cfg.paths[root]) / kind / f"{slug(name)}-{key}", key, settings, stage)

    @cached_property
    def corpus(self) -> Artifact:
        """The passages."""
        cfg = self.cfg.corpus
        return self.artifact("corpus", "corpus", cfg.name, {"parser": cfg.parser})

    def index(self, retriever: DictConfig | None = None) -> Artifact:
        """Return a retriever's index of the corpus; the configured one's by default."""
        node = self.cfg.retriever.engine if retriever is None else retriever
        name = str(node._target_).rpartition(".")[2].lower()
        return self.artifact("index", "index", name, {"corpus": self.corpus.identity, "retriever": node})

    @cached_property
    def questions(self) -> Artifact:
        """The questions with their splits and labels."""
        cfg, label = self.cfg.dataset, self.cfg.answerable
        inputs = {
            "parser": cfg.parser,
            "split": cfg.split,
            "index": self.index(label.retriever).identity,
            "depth": label.depth,
            "min_answer_chars": label.min_answer_chars,
            "required": sorted(label.required),
        }
        return self.artifact("questions", "questions", cfg.name, inputs)

    @property
    def questions_file(self) -> Path:
        """The finished questions artifact's file."""
        return self.questions.require() / "questions.parquet"

    def retrieval(self, retriever: DictConfig | None = None) -> Artifact:
        """Return the rankings of a retriever, the configured one by default, with the texts of their passages."""
        index = self.index(retriever)
        name = f"{self.cfg.dataset.name}-{index.folder.name.partition('-')[0]}"
        inputs = {"index": index.identity, "questions": self.questions.identity, "depth": self.cfg.depth}
        return self.artifact("retrieve", "retrieval", name, inputs)

    @cached_property
    def rankings(self) -> Artifact:
        """The configured retriever's rankings."""
        return self.retrieval()
