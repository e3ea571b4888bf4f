"""Scripts whose words no spaces divide."""

import pytest

from winnow.formats.scripts import count_unspaced, is_unspaced


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京", True),
        ("กรุงเทพ", True),
        ("ビートルズ 1962", True),
        ("Tokyo (東京)", False),
        ("서울", False),
        ("", False),
        ("1962", False),
    ],
)
def test_most_letters_decide(text: str, expected: bool) -> None:
    """A foreign name in another script's text does not; Korean has spaces."""
    assert is_unspaced(text) is expected


def test_texts_are_counted() -> None:
    """Each once."""
    assert count_unspaced(["東京", "Tokyo", "大阪"]) == 2
