"""Reading of choices: which option of a multiple-choice question a reply names.

The rules were written against the development part of tests/data/verdicts.jsonl, and measured on
the other part.
"""

import re
from collections.abc import Mapping

from winnow.text.claims import CONCESSION, cut_middle
from winnow.text.final import extract_final_text
from winnow.text.normalization import normalize

_MOST_WORDS = 4
"""Number of words up to which a reply may be a part of the text of a choice."""
_STEM, _STEM_SHARE = 5, 0.6
"""Least number and share of the first letters that inflections of a word have in common."""
_LETTERS = r"[A-H]"
_OPTION_LINE = re.compile(rf"^\W*\(?({_LETTERS})[).:]\s*(.+?)\s*$", re.MULTILINE)
_WHOLE_LETTER = re.compile(rf"[\W_]*(?:the )?\(?({_LETTERS})(?:[\W_]+\1)*[\W_]*", re.IGNORECASE)
_LEADING_LETTER = re.compile(
    rf"[\W_]*\(?({_LETTERS})(?:\s*\)|\s*[.:!](?=\s|$)|\s*[–—-]+>?\s|\s*\n(?!\s*[A-H]\W*(?:\n|$))|"
    rf",\s+(?![A-H]\b)|\s+(?:because|since)\b)",
    re.IGNORECASE,
)
_LIST_LINE = re.compile(
    rf"^\W*(?:option |choice )?\(?({_LETTERS})\)?\s*(?:[).:]|\s[–—-]|[–—]|\s(?=is\b))(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_RIGHT_LINE = re.compile(r"(?<!not )(?<!n't )\b(?:correct|right|yes|true)\b|[✅✓✔]", re.IGNORECASE)
_WRONG_LINE = re.compile(r"\b(?:incorrect|wrong|no|not|false)\b|n't\b|[❌✗✘]", re.IGNORECASE)
_CALLED = r"(?:answer|option|choice|alternative|letter|selection|pick|response)"
_NAMED = (
    r"(?i:'s|\s+(?:is(?: indeed| therefore| thus)?|was|should be|would be|must be|has to "
    rf"be))?[\s:=\"'*(\[–—-]*({_LETTERS}|(?<=[:(\s])[a-h])\b(?!\)?(?:,? (?:or|and) |\s?[/&]\s?|"
    rf", )\(?[A-H]\b(?! (?:is|"
    r"was)))(?![\w'’]|\s+(?!is\b|because\b|since\b|as\b|and\b|or\b|for\b|\(|[-–—])[a-z])"
)
_ANSWER_LETTER = re.compile(rf"\b(?i:answer){_NAMED}")
_NAMED_LETTER = re.compile(rf"\b(?i:{_CALLED}){_NAMED}")
_CHOSEN_LETTER = re.compile(
    r"(?i:\b(?:(?:go|going) with|choose|pick|select|say|vote for|it's|it is|it must be|that's|so|"
    r"therefore|thus|hence|leaves|leaving|(?:leaves|leaving) us with|is|be|to|boxed|probably|"
    r"likely|definitely|surely|clearly|"
    rf"elimination)\b),?\s*[:\"'*(\[]*({_LETTERS})\b(?=[\s\"'*)\]]*(?:[.,;!:)]|$)|\s+(?:because|"
    rf"since|it is|on|as|"
    r"for)\b)(?!\)?,? (?:or|and) \(?[A-H]\b)"
)
_REJECTED_LETTER = re.compile(
    r"\b(?:(?:and not|not|isn't|can't be|cannot be|never|neither|nor|(?:rul|eliminat|exclud)(?:e|"
    r"es|ed|ing)(?: out)?|"
    rf"except|unlike|than|do|while|although) (?:(?:option|choice|"
    rf"answer)s? )?\(?{_LETTERS}\b\)?(?:(?:, and|, or|,| and| or|"
    rf" nor) \(?{_LETTERS}\b\)?)*(?:,? but\b)?|between \(?{_LETTERS}\)? and \(?{_LETTERS}\b\)?|"
    rf"\(?{_LETTERS}\b\)? (?:could|might|may|would(?= be (?:\w+ ){{1,4}}if)) be\b|"
    rf"(?:\(?{_LETTERS}\b\)?,? ){{1,7}}and \(?{_LETTERS}\b\)? (?:can be|are) (?:eliminated|"
    rf"ruled out|excluded|wrong|incorrect|out)\b|(?i:{_CALLED}) \(?{_LETTERS}\)? is (?:wrong|"
    rf"incorrect|not|false|out)\b|\(?{_LETTERS}\)? is (?:wrong|incorrect|not|false|out)\b)"
)
_RIGHT_LETTER = re.compile(
    rf"(?<![°º])(?<![°º] )\b({_LETTERS})\)?\s+(?:is|seems|looks|must be|fits|works|matches|makes|"
    rf"would be)\s+(?:(?:the|my)\s+(?!wrong|"
    r"incorrect|only (?:wrong|incorrect)|least|second|next)|(?:clearly |therefore |thus |"
    r"actually )?(?:correct|right|best|true|better|more (?:accurate|likely|appropriate|precise)))"
)
_SEVERAL = re.compile(
    rf"\b(?:both|either|neither|all of (?:them|the above|these))\b|\b({_LETTERS})\)?(?:,? (?:or|"
    rf"and) |\s?[/&]\s?|, )\(?({_LETTERS})\b"
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_ORDINAL = re.compile(
    rf"(?:\bthe|^\W*) ?({'|'.join(_ORDINALS)}|last) (?:option|choice|answer|alternative|one)\b",
    re.IGNORECASE,
)
_BOTH_LETTERS = re.compile(r"both \(?[A-H]\)? and \(?[A-H]\)?\.?", re.IGNORECASE)
_NEITHER = re.compile(r"\bneither [A-H] nor [A-H]\b", re.IGNORECASE)
_FINAL_CHOICE = re.compile(
    r"\b(?:final answer|answer|correct (?:choice|option)|therefore|thus|hence|so|that leaves|"
    r"leaves|leaving|looking for|is called|but|equals)\b|=",
    re.IGNORECASE,
)
_JSON_ANSWER = re.compile(
    rf"[\"'](?:\w+_)?(?:answer|choice|option|label|"
    rf"letter)(?:_\w+)?[\"']\s*:\s*[\"']\(?({_LETTERS})\)?[\"'.:) ]",
    re.IGNORECASE,
)
_REJECTION = (
    r"not|isnt|arent|cant be|cannot be|not because|not because it|rather than|unlike|instead of|"
    r"neither|nor|than|except|(?:opposite|reverse) of"
)
_BACKGROUND = re.compile(r"\b(?:because|since|as|whereas|when|if)\b[^.,;\n]*", re.IGNORECASE)
_LONE_LETTER = re.compile(
    rf"(?<![\w'’.°º-])(?<![°º] )({_LETTERS})"
    r"(?=[.,;:!)>]*(?:\s*$|\s(?:is|fits|it|would|has|because|since|seems|must|best)\b))"
)
_ENDING_LETTER = re.compile(
    rf"(?:^|[.!?:]\s+|\b(?:it is|it's|think) )[\s\"'(]*({_LETTERS})[\s\"').]*$", re.IGNORECASE
)
_OTHER_LETTER = re.compile(r"(?<![\w'’.°º-])(?<![°º] )[B-H]\b(?!['’-])")
_DESIGNATION = re.compile(
    r"\b(?:vitamin|hepatitis|type|group|plan|class|factor|figure|grade|statement|point|part|"
    r"step) [A-H]\b",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?<!\w)[-−](?=\d)")
_DEGREE = re.compile(r"\s*[°º]\s*")
_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_DOUBT = re.compile(r"\b(?:not|can't|cannot|unsure|possibl[ey]|depends?|could|might)\b")
_NEXT_QUESTION = re.compile(r"\n\s*question\s*:", re.IGNORECASE)
_MARKUP = re.compile(r"[*_`$]|</?\w+>|\\textbf|\\text|\\mathrm|[{}\\](?=.)|[{}]$")
_LEAD = re.compile(
    r"^\W*(?:(?:so|therefore|thus),? )?(?:i think (?=it is|the))?"
    r"(?:it is |(?:the )?(?:correct |right |best )?answer(?: is|:)\s+)",
    re.IGNORECASE,
)
"""What comes before the text of a choice in a reply that says no more."""


def parse_choice(reply: str, choices: Mapping[str, str]) -> str | None:
    """Return the letter of the choice that a reply names, or None if it names none or several.

    A reply that is the text of one choice, perhaps behind "the answer is", names it. Else the
    letter behind the last "answer" counts, or one alone or at the beginning ("B", "(b)", "B:
    text"), the only one that a list calls right, or the last one called right, chosen, or an
    "option"; rejected letters ("not A") do not. Otherwise the text of one choice, inflected or not,
    must be in the reply; among several, one in the first sentence alone, one not rejected, or the
    one in the last conclusion ("so", "that leaves") counts. A letter next to the text of another
    choice names none.

    Args:
        reply: Reply of the model.
        choices: Texts of the choices by letter.
    """
    reply = cut_middle(extract_final_text(reply))
    if (whole := _find_whole(reply, choices)) is not None:
        return whole
    choices = {letter: _MARKUP.sub(" ", choice) for letter, choice in choices.items()}
    text = _NEXT_QUESTION.split(reply.strip())[0] or reply.strip()
    text = re.sub(r"\(([a-h])\)", lambda match: match[0].upper(), _NEITHER.sub("neither", text))
    plain = _remove_options(_MARKUP.sub(" ", text), choices)
    if _BOTH_LETTERS.fullmatch(plain.strip()):
        return None
    letter = _find_letter(text, plain, choices)
    if letter is not None:
        return letter if letter in choices else None
    if not any("neither" in choice.lower() for choice in choices.values()):
        plain = re.sub(r"\bneither\b[^.;,]*\bnor\b[^.;,]*", " ", plain, flags=re.IGNORECASE)
    if _SEVERAL.search(plain) and not any(
        _SEVERAL.search(choice.lower()) for choice in choices.values()
    ):
        several = _SEVERAL.search(plain)
        if several is not None and not _FINAL_CHOICE.search(plain[several.end() :]):
            return None
    letter = _find_text(plain, choices) or _find_lone_letter(plain)
    return letter if letter in choices else None


def _find_whole(reply: str, choices: Mapping[str, str]) -> str | None:
    """Return the only choice whose text is all that a reply says, in its case if that decides."""
    body = reply.strip().strip('*"')
    for text in (body, _LEAD.sub("", body).strip('*". ')):
        for fold in (_join, _fold):
            equal = [letter for letter, choice in choices.items() if fold(choice) == fold(text)]
            if len(equal) == 1 and len(fold(text)) > 1:
                return equal[0]
    return None


def _join(text: str) -> str:
    """Return a text with single spaces and without a final period."""
    return " ".join(text.split()).removesuffix(".").rstrip()


def _fold(text: str) -> str:
    """Return a joined text in lower case."""
    return _join(text.casefold())


def _normalize(text: str) -> str:
    """Normalize a text as an answer, but keep number signs: -5 is not 5, and 1.5 is not 15."""
    return normalize(_DEGREE.sub("°", _POINT.sub("dot", _MINUS.sub("minus", text))))


def _find_lone_letter(plain: str) -> str | None:
    """Return the only capital letter that is alone in a reply, unless the reply is in doubt."""
    text = _DESIGNATION.sub(" ", _REJECTED_LETTER.sub(" ", plain))
    letters = set(_LONE_LETTER.findall(text))
    is_clear = (
        len(letters) == 1
        and letters >= set(_OTHER_LETTER.findall(text))
        and not _DOUBT.search(text)
    )
    return letters.pop() if is_clear else None


def _remove_options(text: str, choices: Mapping[str, str]) -> str:
    """Remove a list of all choices that a reply repeats before its answer."""
    lines = [
        match
        for match in _OPTION_LINE.finditer(text)
        if f"{_normalize(match[2])} ".startswith(f"{_normalize(choices.get(match[1], ''))} ")
    ]
    if len({match[1] for match in lines}) < len(choices):
        return text
    end = next(match.end() for match in lines if match[1] == max(choices))
    return text[end:]


def _find_letter(text: str, plain: str, choices: Mapping[str, str]) -> str | None:
    """Return the letter that a reply names, "?" for a contradiction, or None without a letter."""
    match = _JSON_ANSWER.search(text) or _WHOLE_LETTER.fullmatch(plain)
    if match:
        return match[1].upper()
    own_text = re.match(rf"[\W_]*\(?({_LETTERS})[).:]+(.*)", plain, re.IGNORECASE)
    if (
        own_text
        and (own := _normalize(choices.get(own_text[1].upper(), "")))
        and _normalize(own_text[2]) == own
    ):
        plain = plain[: own_text.start(2)] + " " + plain[own_text.start(2) :]
    final = _ANSWER_LETTER.findall(_REJECTED_LETTER.sub(" ", plain))
    if final:
        return str(final[-1]).upper()
    if (leading := _find_leading_letter(text, plain, choices)) is not None:
        return leading
    plain = _REJECTED_LETTER.sub(" ", plain)
    for pattern in (_RIGHT_LETTER, _NAMED_LETTER, _CHOSEN_LETTER):
        if letters := pattern.findall(plain):
            return str(letters[-1]).upper()
    ordinal = _ORDINAL.search(plain)
    if ordinal:
        index = (
            len(choices) - 1
            if ordinal[1].lower() == "last"
            else _ORDINALS.index(ordinal[1].lower())
        )
        return sorted(choices)[index] if index < len(choices) else "?"
    ending = _ENDING_LETTER.search(plain)
    return ending[1].upper() if ending else None


def _find_leading_letter(text: str, plain: str, choices: Mapping[str, str]) -> str | None:
    """Return the letter that begins a reply, or the only one that a list of letters calls right."""
    lines = [
        (m[1].upper(), m[2].lower().replace(choices.get(m[1].upper(), "").lower(), ""))
        for m in _LIST_LINE.finditer(text)
    ]
    match = _LEADING_LETTER.match(plain)
    if len({line for line, _ in lines}) > 1:
        right = [
            line
            for line, rest in lines
            if _RIGHT_LINE.search(rest) and not _WRONG_LINE.search(rest.partition(".")[0])
        ]
        if len(right) == 1:
            return right[0]
        if (
            match
            and lines[0][0] == match[1].upper()
            and any(_WRONG_LINE.search(rest) for _, rest in lines)
        ):
            match = None
    if match and not _SEVERAL.match(plain[match.start(1) :]):
        letter, rest = match[1].upper(), plain[match.end() :].strip()
        own = _normalize(rest.split("\n")[0])
        others = [
            other
            for other, choice in choices.items()
            if other != letter and own and own == _normalize(choice)
        ]
        is_abbreviation = (
            re.match(rf"{_LETTERS}\.\w\.", plain[match.start(1) :], re.IGNORECASE) is not None
        )
        if others and own != _normalize(choices.get(letter, "")):
            return (
                others[0] if own in map(_normalize, ("yes", "no")) or letter not in choices else "?"
            )
        if not is_abbreviation and not re.match(rf"{_LETTERS} is (?:wrong|incorrect|not)", plain):
            return letter
    return None


def _find_text(plain: str, choices: Mapping[str, str]) -> str | None:
    """Return the letter of the only choice whose text is in a reply, or in its first or last words
    or conclusion.
    """
    matches = _match_texts(plain, choices)
    sentences = [
        sentence
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", plain.strip())
        if _normalize(sentence)
    ]
    whole = [
        letter
        for letter, choice in choices.items()
        if sentences and _normalize(choice) == _normalize(sentences[0])
    ]
    if len(matches) > 1:
        matches = whole or _match_texts(CONCESSION.sub(" ", plain.lower()), choices) or matches
    if len(matches) > 1:
        matches = _match_texts(_remove_rejected(plain, choices), choices) or matches
    elif matches and not _match_texts(
        _remove_rejected(plain, choices, r"its not|it is not|it isnt|answer is not"), choices
    ):
        return None
    if len(matches) > 1:
        matches = _match_texts(_BACKGROUND.sub(" ", plain), choices) or matches
    if len(matches) > 1:
        ends = [match.end() for match in _FINAL_CHOICE.finditer(plain)]
        tails = [
            _match_texts(re.split(r"[.;]\s|\n", plain[end:].lstrip(" :\n"))[0], choices)
            for end in reversed(ends)
        ]
        tails += [_match_texts(sentence, choices) for sentence in sentences[-1:]]
        alone = [
            hit[0]
            for clause in re.split(r"[.;]\s", plain)
            if len(hit := _match_texts(clause, choices)) == 1
        ]
        tails += [alone] if len(set(alone)) == 1 and len(alone) == 1 else []
        matches = next((tail for tail in tails if len(tail) == 1), matches)
    if not matches and len(plain.split()) <= _MOST_WORDS and (own := _normalize(plain)):
        matches = [
            letter for letter, choice in choices.items() if f" {own} " in f" {_normalize(choice)} "
        ]
    if not matches and len(matches := _match_words(plain, choices)) > 1:
        matches = _match_words(_BACKGROUND.sub(" ", plain), choices)
    return matches[0] if len(matches) == 1 else None


def _remove_rejected(plain: str, choices: Mapping[str, str], rejection: str = _REJECTION) -> str:
    """Remove choice texts after "not", "rather than" and the like from a normalized reply."""
    text = " , ".join(map(_normalize, re.split(r"[,;:.]\s", plain)))
    texts = "|".join(re.escape(own) for choice in choices.values() if (own := _normalize(choice)))
    others = rf"(?:(?: ,)? (?:or|and|nor) (?:{texts})\b| , (?:{texts})(?= ,| or\b| and\b))*"
    return re.sub(rf"\b(?:{rejection})(?: (?!only)\w+)?? (?:{texts})\b{others}", " ", text)


def _match_words(text: str, choices: Mapping[str, str]) -> list[str]:
    """Return the letters of choices whose unique words are all in a text, inflected or not."""
    words = {letter: set(_normalize(choice).split()) for letter, choice in choices.items()}
    own = {
        letter: mine - set().union(*(words[o] for o in words if o != letter))
        for letter, mine in words.items()
    }
    present = set(_normalize(text).split())
    letters = [letter for letter, mine in own.items() if mine and mine <= present]
    return letters or [
        letter
        for letter, mine in own.items()
        if mine and all(any(_is_inflected(w, o) for o in present) for w in mine)
    ]


def _is_inflected(word: str, other: str) -> bool:
    """Return whether two words are equal or have a long beginning in common."""
    common = next(
        (n for n, (one, two) in enumerate(zip(word, other, strict=False)) if one != two),
        min(len(word), len(other)),
    )
    return word == other or common >= max(_STEM, _STEM_SHARE * max(len(word), len(other)))


def _match_texts(text: str, choices: Mapping[str, str]) -> list[str]:
    """Return the letters of the choices that a text contains, except those within other matches."""
    normalized_text = f" {_normalize(text)} "
    matches = {
        letter: own
        for letter, choice in choices.items()
        if (own := _normalize(choice)) and f" {own} " in normalized_text
    }
    return [
        letter
        for letter, own in matches.items()
        if not any(own != other and f" {own} " in f" {other} " for other in matches.values())
    ]
