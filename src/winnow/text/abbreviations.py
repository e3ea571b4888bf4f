"""Abbreviations, whose periods end no sentence."""

import re

_ABBREVIATIONS = (
    "Dr",
    "Mr",
    "Mrs",
    "Ms",
    "Prof",
    "Sr",
    "Jr",
    "St",
    "No",
    "vs",
    "approx",
    "e.g",
    "i.e",
    "cf",
    "al",
)


NOT_AN_END = r"(?<!\b[A-Z]\.)" + "".join(rf"(?<!\b{re.escape(one)}\.)" for one in _ABBREVIATIONS)
