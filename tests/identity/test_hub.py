"""Names of repositories on the hub."""

from pathlib import Path

import pytest

from winnow.identity.hub import HubName, parse_dataset_name, parse_model_name

NAME = "owner/name"


@pytest.mark.parametrize(
    ("path", "model", "dataset"),
    [
        (NAME, HubName(NAME), HubName(NAME)),
        (f"{NAME}@main", HubName(NAME, "main"), HubName(NAME, "main")),
        ("name", None, HubName("name")),
        ("a/b/c", None, None),
        ("./a", None, None),
        ("/a", None, None),
        (f"{NAME}.gguf", None, HubName(f"{NAME}.gguf")),
        ("json", None, None),
        ("here/folder", None, None),
        ("here", None, None),
    ],
)
def test_paths_and_formats_are_no_names_on_the_hub(
    path: str,
    model: HubName | None,
    dataset: HubName | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A dataset may be a single word; what lies on the disk is a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here" / "folder").mkdir(parents=True)
    assert (parse_model_name(path), parse_dataset_name(path)) == (model, dataset)


def test_a_name_is_pinned_by_a_whole_commit() -> None:
    """Branches, tags and shortened commits may move."""
    assert HubName(NAME, "a" * 40).is_pinned
    assert not any(
        HubName(NAME, revision).is_pinned for revision in ("", "a" * 39, "a" * 41, "A" * 40, "main")
    )
    assert [str(HubName(NAME)), str(HubName(NAME, "main"))] == [NAME, f"{NAME}@main"]
