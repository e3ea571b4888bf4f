"""A key on the command line or in a YAML is refused, and its value is never printed."""

from pathlib import Path

import pytest
from conftest import Run

from flows.compose import compose_params
from flows.corpus import STAGE as CORPUS
from flows.settings.door import compose
from flows.settings.overrides import complete_overrides
from flows.settings.secrets import check_secrets
from flows.stages.command import run as run_stage
from winnow.errors import ConfigError

KEY = "sk-test-0123456789abcdefghij"
ENVIRONMENT = {
    "SOME_API_KEY": "a1b2c3d4e5f6",
    "SHORT_TOKEN": "test",
    "HOME": "/home/someone",
    "TOKEN_FILE_KEY": __file__,
}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "reader.engine.extra={token:a1b2c3d4e5f6}",
            "the value of the environment variable SOME_API_KEY",
        ),
        ("http://host/a1b2c3d4e5f6/v1", "the value of the environment variable SOME_API_KEY"),
        (f"http://host/{KEY}/v1", "contains a key"),
        ("hf_" + "a" * 34, "contains a key"),
    ],
)
def test_a_secret_is_refused_by_its_setting(text: str, message: str) -> None:
    """In whatever part of a value; the message does not repeat it."""
    with pytest.raises(
        ConfigError, match=rf"reader\.engine\.extra contains .*{message.removeprefix('contains ')}"
    ) as raised:
        check_secrets([("reader.engine.extra", text)], ENVIRONMENT)
    assert text not in str(raised.value)
    assert "a1b2c3d4e5f6" not in str(raised.value)


def test_other_values_pass() -> None:
    """Short words, paths, names of models and checksums."""
    texts = [
        "test",
        __file__,
        "/home/someone",
        "gpt-4o-mini",
        "ask-me-anything-with-long-words",
        "0" * 64,
        "models/sk-learn-based-classifier-v2",
        "hf_internal_testing_tiny_random_llama",
    ]
    check_secrets([("x", text) for text in texts], ENVIRONMENT)


def test_a_reference_to_a_key_in_a_grid_reaches_no_composed_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """References in options of a grid are resolved when params.yaml is written, and in
    the cells.
    """
    monkeypatch.setenv("SOME_API_KEY", "a1b2c3d4e5f6")
    for words in (
        ["grid.reader.base=['${oc.env:SOME_API_KEY}']"],
        ["grid={k:[5],sweep:{split:['${oc.env:SOME_API_KEY}']}}"],
    ):
        with pytest.raises(ConfigError, match="the value of the environment variable SOME_API_KEY"):
            compose_params(words)
        with pytest.raises(ConfigError, match="the value of the environment variable SOME_API_KEY"):
            _ = compose(complete_overrides(words)).cells


def test_a_key_reaches_no_file(run: Run, tmp_path: Path) -> None:
    """Neither as an override nor in a composed file, in whatever setting."""
    (tmp_path / "params.yaml").write_text(
        f"k: 5\nreader: {{name: x, tuned: false, base: {KEY}, engine: {{}}}}\n"
    )
    for words in ([f"+reader.engine.extra.key={KEY}"], ["--params", "params.yaml"]):
        failed = run("sweep", *words, check=False, small=False)
        assert failed.returncode
        assert "contains a key" in failed.stderr
        assert KEY not in failed.stderr + failed.stdout
    assert not [
        p
        for p in tmp_path.rglob("*")
        if p.is_file() and p.name != "params.yaml" and KEY.encode() in p.read_bytes()
    ]


@pytest.mark.parametrize(
    "address",
    [
        "http://me:hunter2@127.0.0.1:5000",
        "postgresql://me:hunter2@db/x",
        "https://:hunter2@host/a",
        "postgresql://host/db?user=u&password=hunter2",
    ],
)
def test_a_password_in_an_address_is_refused(address: str) -> None:
    """It would be in every manifest and MLflow run; PostgreSQL's variable counts as well."""
    with pytest.raises(ConfigError, match="an address with a password") as raised:
        check_secrets([("tracking.uri", address)], {})
    assert "hunter2" not in str(raised.value)
    for plain in ("http://me@host:5000/a:b@c", "['http://h:80','a@b.c']", "http://h:80?q=a@b"):
        check_secrets([("tracking.uri", plain)], {})
    with pytest.raises(ConfigError, match="PGPASSWORD"):
        check_secrets([("paths.ledger", "x-a1b2c3d4e5f6")], {"PGPASSWORD": "a1b2c3d4e5f6"})


def test_a_key_that_is_no_setting_is_not_shown() -> None:
    """It is named by its place."""
    with pytest.raises(ConfigError, match="word 2 of the command contains a key") as raised:
        run_stage(CORPUS, ["k=1", KEY])
    assert KEY not in str(raised.value)
