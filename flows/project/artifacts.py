"""Artifacts of a configuration, each in a folder named after the hash of its settings and inputs.

Artifacts of different settings exist side by side. A finished artifact is recognized by its key
without reading it, and only artifacts that depend on a changed setting get a new key. A `Project`
is created once per configuration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from flows.settings.components import Component
from flows.settings.identity import PinnedAssets, divide_search_settings, slugify
from flows.settings.typed import Settings
from winnow.artifacts.provenance import (
    check_content,
    compute_key,
    is_done,
    read_content_digest,
    write_manifest,
)
from winnow.artifacts.tables import read_questions
from winnow.errors import MissingArtifactError
from winnow.protocols import Retriever
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact of one stage, such as an index or a cell's predictions; it need not exist yet.

    Attributes:
        folder: Folder of the artifact's files.
        key: Hash of the settings.
        settings: Stage, name, version and inputs of the artifact, from which the key is computed.
        stage: Name of the stage that writes the artifact, as in `python -m flows.<stage>`.
    """

    folder: Path
    key: str
    settings: Mapping[str, Any]
    stage: str

    @property
    def is_finished(self) -> bool:
        """Return whether the artifact is finished under this key."""
        return is_done(self.folder, self.key)

    def require(self) -> Path:
        """Check that the artifact is finished and unchanged, and return its folder.

        Raises:
            MissingArtifactError: If the artifact is not finished. The message names the command
                that writes it.
            ArtifactError: If one of its files was changed after the stage finished.
        """
        if not self.is_finished:
            raise MissingArtifactError(
                f"{self.folder} does not exist or is not finished. Run `python -m "
                f"flows.{self.stage}` with the same settings first (`python -m flows.pipeline` "
                "runs the stages that they need).",
                self.stage,
            )
        check_content(self.folder)
        return self.folder

    @property
    def identity(self) -> str:
        """Return the identity of the artifact as an input of other artifacts.

        The identity is the key and, once the artifact is finished, the digest of its content. A
        model that is trained again under the same key therefore counts as a different input.
        """
        return f"{self.key}:{read_content_digest(self.folder)}" if self.is_finished else self.key

    def finish(self, rows: int) -> None:
        """Mark the artifact as finished by writing its manifest with the number of rows written."""
        write_manifest(self.folder, key=self.key, settings=self.settings, rows=rows)


def get_version(stage: str) -> int:
    """Return the number of a stage's code, which the module of the stage declares."""
    version: int = import_module(f"flows.{stage}").STAGE.version
    return version


class Project:
    """Artifacts of one configuration.

    Attributes:
        settings: Settings of one cell, or of a job.
        pinned: Assets of the settings whose content is pinned by a checksum or a commit.
    """

    def __init__(self, settings: Settings) -> None:
        """Store the settings and collect their pinned assets."""
        self.settings = settings
        self.pinned = PinnedAssets.from_settings(settings.plain)

    def resolve_artifact(
        self,
        stage: str,
        kind: str,
        name: str,
        inputs: Mapping[str, Any],
        root: Literal["data", "models"] = "data",
    ) -> Artifact:
        """Return the artifact of a stage for the given inputs.

        Args:
            stage: Name of the stage that writes the artifact.
            kind: Name of the folder of all artifacts of this kind, such as "predictions".
            name: Readable first part of the name of the artifact's own folder.
            inputs: Settings and identities of other artifacts on which the content depends.
            root: Name in the settings `paths` of the parent folder.
        """
        identities = {
            label: self.pinned.identify_settings(value) for label, value in inputs.items()
        }
        settings = {
            "stage": stage,
            "name": name,
            "inputs": identities,
            "version": get_version(stage),
        }
        key = compute_key(settings)
        return Artifact(
            Path(getattr(self.settings.paths, root)) / kind / f"{slugify(name)}-{key}",
            key,
            settings,
            stage,
        )

    @cached_property
    def corpus(self) -> Artifact:
        """The corpus with all passages."""
        corpus = self.settings.corpus
        return self.resolve_artifact("corpus", "corpus", corpus.name, {"parser": corpus.parser})

    def resolve_index(self, retriever: Component[Retriever] | None = None) -> Artifact:
        """Return the index of the corpus for a retriever, by default for the configured one."""
        node = retriever or self.settings.retriever.engine
        name = node.target.rpartition(".")[2].lower()
        index_settings, _ = divide_search_settings(node)
        return self.resolve_artifact(
            "index", "index", name, {"corpus": self.corpus.identity, "retriever": index_settings}
        )

    def _identify_search(self, retriever: Component[Retriever] | None) -> dict[str, Any]:
        """Return the inputs that name a search: its index and any search-only settings."""
        _, search_settings = divide_search_settings(retriever or self.settings.retriever.engine)
        return {
            "index": self.resolve_index(retriever).identity,
            **({"search": search_settings} if search_settings else {}),
        }

    @cached_property
    def questions(self) -> Artifact:
        """The questions with their splits and answerability labels."""
        dataset, label = self.settings.dataset, self.settings.answerable
        inputs: dict[str, Any] = {"parser": dataset.parser, "split": dataset.split}
        if self.needs_labels:
            rule = {"depth": label.depth, "min_answer_chars": label.min_answer_chars}
            inputs |= {
                **self._identify_search(label.retriever),
                **rule,
                "required": sorted(label.required),
            }
        return self.resolve_artifact("questions", "questions", dataset.name, inputs)

    @property
    def needs_labels(self) -> bool:
        """Whether splits may keep only answerable questions, which needs the labeling retriever."""
        only_split, required = (
            self.settings.dataset.split.get("all"),
            self.settings.answerable.required,
        )
        return bool(required) and (not only_split or only_split in required)

    @property
    def questions_file(self) -> Path:
        """The parquet file of the questions; raises MissingArtifactError if it is unfinished."""
        return self.questions.require() / "questions.parquet"

    def read_questions(self, splits: Sequence[str], limit: int | None) -> list[Question]:
        """Read the first `limit` questions of each split, or all of them if it is None."""
        parts = [read_questions(self.questions_file, [split])[:limit] for split in splits]
        return list(chain(*parts))

    def resolve_retrieval(self, retriever: Component[Retriever] | None = None) -> Artifact:
        """Return the rankings and passage texts of a retriever, by default the configured one."""
        index = self.resolve_index(retriever).folder.name.partition("-")[0]
        name = f"{self.settings.dataset.name}-{index}"
        inputs = {
            **self._identify_search(retriever),
            "questions": self.questions.identity,
            "depth": self.settings.depth,
        }
        return self.resolve_artifact("retrieve", "retrieval", name, inputs)

    @cached_property
    def rankings(self) -> Artifact:
        """The rankings of the configured retriever."""
        return self.resolve_retrieval()
