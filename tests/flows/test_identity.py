"""Components of one's own in keys: what is declared counts, what is not declared is refused, and
names do not count.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.project.engines import open_reader
from flows.settings import commits
from flows.settings.components import check_component
from flows.settings.door import compose
from flows.settings.identity import PinnedAssets
from flows.settings.sections import Reader
from winnow.artifacts.provenance import compute_key
from winnow.errors import ConfigError
from winnow.identity.code import get_ledger_identity
from winnow.predictions import Price

SOURCE = """
from dataclasses import dataclass
from typing import Annotated
from winnow.identity.markers import InputFile, SpeedOnly

@dataclass
class Mine:
    path: Annotated[str, InputFile]
    threads: Annotated[int, SpeedOnly("threads")] = 1
    column: str = "text"

    def __iter__(self):
        return iter(())
"""

READER = """
from typing import Annotated
from winnow.identity.markers import InputFile, ModelName

class Mine:
    def __init__(
        self,
        path: Annotated[str, ModelName],
        name: str,
        suffix: str,
        rules: Annotated[str, InputFile],
    ):
        self.identity = name

    def check(self):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules of one's own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("my_"):
            del sys.modules[name]


def identify(target: str, **settings: Any) -> Any:
    """The identity of a component."""
    return PinnedAssets({}).identify_settings({"_target_": target, **settings})


def test_files_count_by_content_and_modules_by_code(folder: Path) -> None:
    """Not by their names; a setting counts unless it changes only the speed."""
    (folder / "my_parser.py").write_text(SOURCE)
    (folder / "my_moved.py").write_text(SOURCE + "# moved\n")
    (folder / "my_other.py").write_text(SOURCE.replace("iter(())", "iter((1,))"))
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (folder / name).write_text(text)
    first = identify("my_parser.Mine", path=str(folder / "a"))
    assert first["_target_"] == "Mine"
    assert identify("my_parser.Mine", path=str(folder / "b"), threads=8) == first
    assert identify("my_moved.Mine", path=str(folder / "a")) == first
    assert identify("my_parser.Mine", path=str(folder / "c")) != first
    assert identify("my_other.Mine", path=str(folder / "a")) != first
    assert identify("my_parser.Mine", path=str(folder / "a"), column="body") != first


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            SOURCE.replace("Annotated[str, InputFile]", "str"),
            "the parameter 'path' looks like a path",
        ),
        (
            SOURCE.replace("    column: str", '    input_file = ("path",)\n    column: str'),
            "class attribute 'input_file' has no effect",
        ),
    ],
    ids=["no marker", "misspelled declaration"],
)
def test_what_declares_nothing_is_refused_wherever_it_is_opened(
    folder: Path, source: str, message: str
) -> None:
    """By the check of settings and by the identity."""
    name = f"my_wrong_{len(source)}"
    (folder / f"{name}.py").write_text(source)
    node = {"_target_": f"{name}.Mine", "path": "x"}
    for refuse in (
        lambda: check_component("dataset.parser", node),
        lambda: identify(f"{name}.Mine", path="x"),
    ):
        with pytest.raises(ConfigError, match=message):
            refuse()


def test_winnows_own_components_keep_their_full_names() -> None:
    """Their modules may not move without a note."""
    assert (
        identify("winnow.records.Decoding", max_new_tokens=3)["_target_"]
        == "winnow.records.Decoding"
    )


def test_a_file_at_its_default_counts_by_content(folder: Path) -> None:
    """As if the YAML named it."""
    file = folder / "default.txt"
    source = SOURCE.replace(
        "path: Annotated[str, InputFile]", f"path: Annotated[str, InputFile] = {str(file)!r}"
    )
    (folder / "my_default.py").write_text(source)
    file.write_text("x")
    first = identify("my_default.Mine")
    file.write_text("yy")
    assert identify("my_default.Mine") != first
    assert identify("my_default.Mine", path=str(file)) == identify("my_default.Mine")


def test_files_behind_symbolic_links_count(folder: Path) -> None:
    """A link to a folder is followed, as by a pattern of files; a circle of links ends."""
    (folder / "my_parser.py").write_text(SOURCE)
    corpus, one, two = folder / "corpus", folder / "one", folder / "two"
    for part, text in ((one, "x"), (two, "y")):
        part.mkdir()
        (part / "a.txt").write_text(text)
    corpus.mkdir()
    (corpus / "sub").symlink_to(one)
    (corpus / "circle").symlink_to(corpus)
    first = identify("my_parser.Mine", path=str(corpus))
    (corpus / "sub").unlink()
    (corpus / "sub").symlink_to(two)
    assert identify("my_parser.Mine", path=str(corpus)) != first


def test_settings_of_a_reader_of_one_s_own_are_in_the_ledgers_identity(folder: Path) -> None:
    """Whatever its author calls `identity`."""
    (folder / "my_reader.py").write_text(READER)
    (folder / "rules").write_text("x")
    names = set()
    for suffix in ("a", "b"):
        engine = {"_target_": "my_reader.Mine", "suffix": suffix, "rules": str(folder / "rules")}
        reader = Reader.model_validate(
            {"name": "mine", "tuned": False, "base": "", "engine": engine}
        )
        names.add(get_ledger_identity(open_reader(reader, "", price=Price())))
    (folder / "rules").write_text("other")
    names.add(get_ledger_identity(open_reader(reader, "", price=Price())))
    assert len(names) == 3
    assert all(name.startswith("mine/settings-") for name in names)


def test_addresses_of_files_are_refused_unless_they_are_pinned() -> None:
    """Their content may change, and the key would not."""
    pinned = PinnedAssets({})
    for address in ("https://example.org/train.jsonl", "hf://datasets/owner/name/train.jsonl"):
        with pytest.raises(ConfigError, match="is an address, whose content may change"):
            pinned.identify_files({"train": [address]})
    address = f"hf://datasets/owner/name@{'a' * 40}/train.jsonl"
    assert pinned.identify_files([address]) == [address]


def test_two_assets_in_one_folder_are_refused() -> None:
    """Both would have the identity of whichever lies there."""
    words = ["reader=smollm2", "reader@judge=smollm2"]
    compose(words)
    with pytest.raises(ConfigError, match=r"Two assets are unpacked to assets/smollm2"):
        PinnedAssets.from_settings(compose([*words, f"judge.asset.sha256={'0' * 64}"]).plain)


def test_cells_without_a_reader_filter_questions_by_the_reader_of_the_others() -> None:
    """With its training, which cells without a reader otherwise do not have."""
    words = ["reader=smollm2_tuned", "grid={strategy:[post_fusion,stored]}"]
    for is_filtered, num_trainings in ((True, 1), (False, 2)):
        settings = compose([*words, f"sweep.closed_book_filter={str(is_filtered).lower()}"])
        assert len({cell.training.name for cell in settings.cells}) == num_trainings


def test_a_teacher_of_replies_has_no_prompt_of_its_own() -> None:
    """It would be ignored: the teacher is asked with the prompt of the reader."""
    words = ["training=cite_synthetic", "prompt=rage", "+prompt@training.teacher.prompt=rage_short"]
    with pytest.raises(ConfigError, match="prompt"):
        compose(words)


def test_default_lists_of_files_count_by_content(folder: Path) -> None:
    """Which a dataclass makes with a function."""
    file = folder / "default.txt"
    file.write_text("one")
    source = SOURCE.replace("import dataclass", "import dataclass, field")
    listed = (
        f"path: Annotated[list[str], InputFile] = field(default_factory=lambda: [{str(file)!r}])"
    )
    source = source.replace("path: Annotated[str, InputFile]", listed)
    (folder / "my_listed.py").write_text(source)
    first = identify("my_listed.Mine")
    file.write_text("two")
    assert identify("my_listed.Mine") != first


def test_a_filter_with_a_reader_of_its_own_needs_no_training() -> None:
    """That of the reader does not affect it."""
    words = ["reader=smollm2_tuned", "grid={strategy:[post_fusion,stored]}"]
    more = ["sweep.closed_book_filter=true", "reader@closed_book.reader=smollm2"]
    assert len({cell.training.name for cell in compose([*words, *more]).cells}) == 2


def test_a_model_of_the_hub_is_pinned_without_a_checksum() -> None:
    """Its commit identifies it."""
    node = {"address": f"hf:owner/name@{'a' * 40}", "path": "assets/x", "size": 1}
    pinned = PinnedAssets.from_settings({"reader": {"asset": node}})
    assert pinned.covers("assets/x/config.json")


@pytest.mark.parametrize("commit", ["a" * 39, "a" * 7, "main", "a" * 41])
def test_a_short_commit_does_not_pin_a_file(commit: str) -> None:
    """It may be the beginning of several."""
    with pytest.raises(ConfigError, match="is an address"):
        PinnedAssets({}).identify_files(f"hf://datasets/owner/name@{commit}/train.jsonl")


def test_the_digest_of_an_asset_is_that_of_earlier_keys() -> None:
    """Another one would make all results again."""
    source = {"address": "https://example.org/x", "sha256": "0" * 64, "members": []}
    digest = PinnedAssets({Path("assets/none"): source}).compute_digest("assets/none/a.txt")
    assert digest == f"{compute_key([compute_key(source)])}/a.txt"


def test_a_lock_with_a_conflict_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version control leaves its marks in the file."""
    monkeypatch.setattr(commits, "LOCK", tmp_path / "lock.json")
    commits.LOCK.write_text("<<<<<<< HEAD\n{}\n")
    with pytest.raises(ConfigError, match=r"lock\.json is not valid JSON .*conflict"):
        commits._read_lock()
