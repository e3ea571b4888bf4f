"""Templates of a passage with and without a title."""

import pytest

from winnow.text.templates import fill_passage


@pytest.mark.parametrize(
    ("template", "untitled"),
    [
        ("[{number}] {title} | {text}", "[1] text"),
        ("{number}) {title}: {text}", "1) text"),
        ("- {title}: {text}", "- text"),
        ("Passage {number}\n{title}: {text}", "Passage 1\ntext"),
        ("[{number}]\n{title}\n{text}", "[1]\ntext"),
        ("{title}: {text}", "text"),
        ("[{number}] {title} {text}", "[1] text"),
        ("Title: {title}\n{text}", "Title: \ntext"),
        ("Title - {title}: {text}", "Title - : text"),
        ("({title}) {text}", "() text"),
    ],
)
def test_a_passage_without_a_title_has_no_separator(template: str, untitled: str) -> None:
    """A title with a label or brackets stays empty."""
    assert fill_passage(template, "", "text", number=1) == untitled
    titled = fill_passage(template, "T", "text", number=1)
    assert titled == template.format(title="T", text="text", number=1)
