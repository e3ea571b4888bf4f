"""Abbreviations, whose periods end no sentence."""

import re


def _forbid(abbreviations: str) -> str:
    """Return a pattern that is found unless one of the abbreviations comes before it."""
    return "".join(rf"(?<!\b{re.escape(one)}\.)" for one in abbreviations.split())


_TITLES = _forbid(
    "Dr Mr Mrs Ms Prof Sr Jr St Mt Ft Gen Col Lt Sgt Capt Sen Rep Gov Pres vs approx e.g i.e cf al"
)
_OTHERS = _forbid(
    "Inc Ltd Co Corp etc a.m p.m No ca c p pp vol Vol "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec"
)
"""These end a sentence at times: not before a lower-case letter or a digit."""
NOT_AN_END = rf"(?<!\b[A-Z]\.){_TITLES}(?:(?!\s*[a-z0-9])|{_OTHERS})"
"""Pattern that is found behind a period, unless the period ends no sentence."""
