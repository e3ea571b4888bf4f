"""The command of a server: the files that it names, and its version."""

import sys
from pathlib import Path

import pytest

from winnow.errors import ConfigError
from winnow.readers.server_process import _digest_files, read_version


def test_a_version_that_cannot_be_read_is_an_error() -> None:
    """It names the command and what to do; a command that prints nothing has the version ""."""
    with pytest.raises(
        ConfigError, match=r"`no-such-server --version` failed .* Install the server"
    ):
        read_version(("no-such-server", "--version"))
    with pytest.raises(ConfigError, match="exit status 3"):
        read_version((sys.executable, "-c", "raise SystemExit(3)"))
    assert read_version((sys.executable, "-c", "")) == ""


def test_a_long_word_is_no_file() -> None:
    """Such as options in JSON, of more characters than a name may have."""
    word = "--options=" + "x" * 5000
    assert _digest_files(["serve", word]) == ["serve", word]


def test_files_and_models_of_a_command_are_read(tmp_path: Path) -> None:
    """A tokenizer, adapters by name and in a list, whatever their permissions; programs are not."""
    folder, first, second = tmp_path / "tokenizer", tmp_path / "a.gguf", tmp_path / "b.gguf"
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text("{}")
    for file in (first, second):
        file.write_text("weights")
    second.chmod(0o755)
    for words, changed in (
        (["serve", "--tokenizer", str(folder)], folder / "chat_template.jinja"),
        (["serve", "--lora-modules", f"sql={folder}"], folder / "tokenizer_config.json"),
        (["serve", "--lora", str(first)], first),
        (["serve", "--lora", str(second)], second),
        (["serve", "--lora", f"{first},{second}"], second),
    ):
        before = _digest_files(words)
        changed.write_text(f"other {words}")
        assert _digest_files(words) != before
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert _digest_files(["env", str(program), str(tmp_path)])[1:] == [str(program), str(tmp_path)]


def test_an_empty_word_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a part between commas the folder from which the command is started."""
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert _digest_files(["serve", "", "--x=a,"]) == ["serve", "", "--x=a,"]
