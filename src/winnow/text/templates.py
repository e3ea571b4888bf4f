"""Templates of a passage, from which an empty title is left out."""

import re
from functools import lru_cache

_TITLE = re.compile(
    r"(?:^|(?<=[\]}).:-] )|(?<=[>\n]))(?<!\w: )(?<!\w - )\{title\}[\s|:;,.–—-]*(?=\{)"
)
"""An unlabeled title in a template and its separator (no words or brackets) from the next field."""


def fill_passage(template: str, title: str, text: str, **fields: object) -> str:
    """Fill the template of a passage.

    Without a title, {title} is left out with the separator behind it, unless it has a label or
    brackets: "[{number}] {title} | {text}" becomes "[{number}] {text}".

    Args:
        template: Template with {text}, and usually {title}.
        title: Title of the passage, which may be empty.
        text: Text of the passage.
        fields: Values of the template's other fields.
    """
    own = template if title else _remove_title(template)
    return own.format(title=title, text=text, **fields)


@lru_cache(maxsize=100)
def _remove_title(template: str) -> str:
    return _TITLE.sub("", template)
