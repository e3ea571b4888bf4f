"""Reading of verdicts: whether a reply calls a claim true, and which choice it names.

The rules were written against the development half of tests/data/verdicts.jsonl, and measured on the other half.
"""

import re
from collections.abc import Iterator, Mapping

from winnow.metrics.answer import normalise
from winnow.metrics.reasoning import remove_reasoning

_MARKUP = re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf)\b|[*_`#${}\\✅❌]|```(?:json)?")
_QUESTION = re.compile(r"[^.!?\n]*\?")
_QUOTED = re.compile(r"[\"“][^\"”]*\s[^\"”]*\s[^\"”]*[\"”]")
_GIVEN = re.compile(r"^\W*(?:claim|statement|question|input|premise)\s*:.*$", re.IGNORECASE | re.MULTILINE)
_NEXT_CLAIM = re.compile(r"(?<=\S)\s*\n\s*(?:claim|statement|question|input)\s*:", re.IGNORECASE)
_FINAL = re.compile(
    r"\b(?:final (?:answer|verdict)|verdict|label|conclusion|rating|answer|so|therefore|thus|hence|overall|in conclusion)\b"
)

_CONCESSION = re.compile(
    r"\b(?:while|although|though|even though|even if|despite|contrary to (?!(?:the |all |current )?(?:evidence|facts?|"
    r"science|data))|in spite of|whereas|whether|otherwise|"
    r"(?:many|most|some|few|lots of) (?:people|of us|sources|websites)|people (?:often|may|might)|at first|initially|"
    r"it is (?:often|widely|commonly|sometimes)|"
    r"i (?:first|initially|originally|had|once) (?:said|thought|believed|assumed))\b[^,.;:!?\n]*"
)
_HEDGE = re.compile(
    r"\b(?:could|might|may)(?: very well| just as well| also)? be\b[^,.;:!?\n]*|\bpotentially\b|"
    r"\bwould (?:only )?be\b[^.;,!?\n]*\bif\b[^,.;!?\n]*|"
    r"\b(?:if|unless)\b[^,.;!?\n]*(?:, (?:then )?(?:it|this|that|the (?:claim|statement))\b[^,.;!?\n]*)?"
)
_MIXED = re.compile(
    r"\b(?:partly|partially|half(?: of it)?|mixed|mixture|depends|(?:may|might) or (?:may|might) not|"
    r"neither (?:\w+ ){0,3}(?:true|correct|accurate|supported|confirmed|proven|proved)\w* nor (?:\w+ )?"
    r"(?:false|incorrect|inaccurate|refuted|denied|disproven|disproved|debunked)|"
    r"(?:correct|accurate|right|supported|confirmed) (?:or|nor|and) (?:incorrect|inaccurate|wrong|false|refuted|not)|"
    r"open question|undetermined|inconclusive|unproven|"
    r"unverified|unclear|uncertain|to some extent|yes and no|not enough|isn't enough|is not enough|insufficient|"
    r"(?:say|are|is) both|in part|"
    r"(?:cannot|can't|could not|couldn't|unable to|not able to|impossible to|hard to|difficult to) "
    r"(?:be )?(?:verif\w+|determin\w+|say (?:if|whether)|tell|confirm\w*|judge|assess|decide|establish\w*)|"
    r"still (?:being )?debat\w+|true (?:and|or|nor) false|false (?:and|or|nor) true|supports? (?:or|nor) refutes?)\b"
)
_NEGATOR = (
    r"(?:cannot|can't|don't|do not|wouldn't|would not|couldn't|could not) (?:agree(?= that)|concur|say|call)|reverse|"
    r"opposite|neither|nor|"
    r"not|never|no(?! doubt)|hardly|barely|scarcely|cannot|nothing|nobody|without|lacks?|fails? to|far from|anything but|"
    r"wrong to (?:say|call|claim)|mistake to (?:say|call|claim)|incorrect to (?:say|call|claim)|rather than|isn't|doesn't|"
    r"\w+n't"
)
_POSITIVE = (
    r"true|correct|accurate|valid|factual|supports?|supported|supporting|confirm(?:s|ed)?|verified|the case|"
    r"hold(?:s)?(?: up| water| true)?\b(?= *(?:$|[.,;!)]|up|water|true|in|under))|well[- ]established|well[- ]documented|"
    r"(?:that|this|it) is so(?= *(?:$|[.,;!]))|match(?:es|ed)? (?:the|what|our)|substantiated|legit(?:imate)?|agreed?|"
    r"consistent with|in line with|back(?:s|ed)(?: up)?|proven|truthful|factually sound|"
    r"checks? out|spot on|stands? up|b(?:ears|orne) out|corroborat(?:es?|ed)|affirm(?:s|ed|ative)?|entail(?:s|ed|ment)|"
    r"(?:that's|that is|you're|you are|absolutely|quite|totally|completely|entirely|is|be) right"
)
_NEGATIVE = (
    r"false|untrue|incorrect|inaccurate|erroneous|mistaken|myths?|misconception|misleading|debunked|unfounded|baseless|"
    r"refut(?:es?|ed|ing)|disprov(?:es?|ed|en)|disput(?:es?|ed)|contradict(?:s|ed)?|falsehood|fallacy|hoax|fiction|"
    r"fabricated|"
    r"unsupported|unsubstantiated|disagree|implausible|wrong|bogus|nonsense|absurd|rubbish|invalid|discredited|rejected|"
    r"urban legend|old wives' tale|conspiracy theory|pants[- ](?:on )?fire|fake|made[- ]up|inconsistent with|contradiction|"
    r"misinformation|disinformation|the (?:claim|statement) (?:fails|falls apart|collapses)|wide of the mark|in error|"
    r"ruled out|contrary to (?:the |all |current )?(?:evidence|facts?|science|data)"
)
_JUDGEMENT = re.compile(rf"\b(?P<negator>{_NEGATOR})\b|\b(?P<positive>{_POSITIVE})\b|\b(?P<negative>{_NEGATIVE})\b")
_REACH = 60
"""Number of characters up to which a negation applies to a judgement that follows it in the same clause."""
_YES = re.compile(
    r"\W*(?:(?:answer|a|verdict|label)\s*:\s*)?(?:yes|yep|yeah|yup|indeed|fact|i (?:believe|think|'d say|"
    r"would say) so|absolutely|certainly|exactly|definitely|sure|right|"
    r"of course|without a doubt|undoubtedly|no doubt)\b"
)
_NO = re.compile(
    r"\W*(?:(?:answer|a|verdict|label)\s*:\s*)?(?:no(?=\W*$|\s*[,.!;:)–—-]|\s+(?:it|this|that|the|there|i|not)\b)|"
    r"nope|nah|hardly|wrong|not really|not quite|not at all|not exactly|quite the opposite|"
    r"far from it|on the contrary|actually, (?:no|the opposite|it's the other way))\b"
)
_DENIAL = re.compile(
    r"\b(?:other way (?:around|round)|(?:says?|suggests?|shows?|indicates?|tells?) otherwise|far from it|"
    r"the (?:opposite|reverse)|"
    r"contrary to (?:what )?(?:the|this) (?:statement|claim|assertion)|"
    r"no (?:\w+ ){0,3}(?:evidence|study|studies|proof|basis|support|truth|data)|nothing (?:to|in) (?:it|this|that)|"
    r"(?:it|this|that) (?:is not|isn't|does not|doesn't|did not|didn't)(?= *(?:$|[.!]))|"
    r"i (?:would|do) not (?:say|think|believe)|not what|despite what)\b"
)
_AFFIRMATION = re.compile(
    r"\b(?:no doubt|without (?:a )?doubt|undoubtedly|undeniabl[ey]|unquestionably|beyond (?:any )?dispute)\b"
)
_JSON_VERDICT = re.compile(
    r"\"(?:final_)?(?:verdict|label|answer|prediction|result|is_true|conclusion)\"\s*:\s*\"?"
    r"(true|false|yes|no|supports?|supported|refutes?|refuted|correct|incorrect)\b\"?",
    re.IGNORECASE,
)
_LABEL = re.compile(r"\W*(?:(?:final|my|the) )?(?:answer|a|verdict|label|conclusion|response)\W*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[\n;]+|\s[–—-]\s|:\s|\bbut\b|\bhowever\b|\byet\b")


def parse_claim(reply: str) -> bool | None:
    """Return whether a reply says that a claim is true, or None if it says neither, both, or part.

    Judgements such as "correct" or "a myth" count wherever they are, with the negations before them; concessions ("although
    many think that it is true"), conditions, questions and quotations do not. A reply that judges in both ways has the verdict
    of its last "answer" or "therefore", unless these contradict each other. Without a judgement, a leading yes or no counts.
    """
    if match := _JSON_VERDICT.search(reply):
        return match[1].lower() in ("true", "yes") or match[1].lower().startswith(("support", "correct"))
    text = _prepare(reply)
    if _MIXED.search(text) and not _has_marked_verdict(text):
        return None
    sentences = [sentence for sentence in _SENTENCE_END.split(text) if sentence and sentence.strip()]
    judgements = [(sentence, verdict) for sentence in sentences for verdict in _iter_judgements(sentence)]
    verdicts = {verdict for _, verdict in judgements}
    if len(verdicts) == 1:
        return verdicts.pop()
    if verdicts:
        marked = set(_iter_marked(text))
        return marked.pop() if len(marked) == 1 else None
    first = next((sentence for sentence in sentences if not _LABEL.fullmatch(sentence)), "")
    if _NO.match(first) or _DENIAL.search(reply.replace("’", "'").lower()):
        return False
    return True if _YES.match(first) or _AFFIRMATION.search(text) else None


def _prepare(reply: str) -> str:
    """Return a reply in lower case without reasoning, markup, questions, quoted claims, concessions and hedges."""
    text = remove_reasoning(reply).strip().replace("’", "'").replace("anything but", "far from")
    text = text[: found.start()] if (found := _NEXT_CLAIM.search(text)) else text
    text = _GIVEN.sub("", _QUOTED.sub("", text))
    text = _QUESTION.sub(" ", _MARKUP.sub(" ", text)).lower()
    text = re.sub(r"[\"“”()\[\]]", " ", text)
    return _HEDGE.sub(" ", _CONCESSION.sub(" ", text))


def _iter_judgements(sentence: str) -> Iterator[bool]:
    """Yield the verdict of each judgement of a sentence, with the negations before it in its clause."""
    for clause in re.split(r",(?! (?:in fact|indeed|actually|of course),?)|\band\b(?! (?:no|not))", sentence):
        negations: list[int] = []
        for match in _JUDGEMENT.finditer(clause):
            if match["negator"]:
                negations.append(match.end())
                continue
            own = sum(match.start() - end <= _REACH for end in negations)
            negations = []
            yield (match["positive"] is not None) != bool(own % 2)


def _iter_marked(text: str) -> Iterator[bool]:
    """Yield the verdicts behind "answer", "verdict", "therefore" and the like."""
    for match in _FINAL.finditer(text):
        rest = re.split(r"[.!?\n;]", text[match.end() :].lstrip(" :\n"), maxsplit=1)[0]
        yield from _iter_judgements(rest)


def _has_marked_verdict(text: str) -> bool:
    return len(set(_iter_marked(text))) == 1


_MOST_WORDS = 4
"""Number of words up to which a reply may be a part of the text of a choice."""
_LETTERS = r"[A-H]"
_OPTION_LINE = re.compile(rf"^\W*\(?({_LETTERS})[).:]\s*(.+?)\s*$", re.MULTILINE)
_WHOLE_LETTER = re.compile(rf"[\W_]*(?:the )?\(?({_LETTERS})[\W_]*", re.IGNORECASE)
_LEADING_LETTER = re.compile(
    rf"[\W_]*\(?({_LETTERS})(?:\)|[.:](?=\s|$)|\s*[–—-]\s|\s*\n(?!\s*[A-H]\b)|,\s+(?![A-H]\b)|\s+because\b)", re.IGNORECASE
)
_CALLED = r"(?:answer|option|choice|alternative|letter|selection|pick|response)"
_NAMED_LETTER = re.compile(
    rf"\b(?i:{_CALLED})(?i:\s+(?:is|was|should be|would be|must be|has to be))?[\s:=\"'*(\[–—-]*({_LETTERS}|"
    rf"(?<=[:(\s])[a-h])\b"
    r"(?!,? (?:or|and) \(?[A-H]\b)(?![\w'’]|\s+(?!is\b|because\b|since\b|as\b|and\b|or\b|for\b|\(|[-–—])[a-z])"
)
_CHOSEN_LETTER = re.compile(
    rf"(?i:\b(?:go with|choose|pick|select|it's|it is|it must be|that's|so|therefore|thus|leaves|is|be|to|"
    rf"boxed)\b)\s*[:\"'*(\[]*"
    rf"({_LETTERS})\b(?=[\s\"'*)\]]*(?:[.,;!:)]|$)|\s+(?:because|since|it is)\b)"
)
_REJECTED_LETTER = re.compile(
    rf"\b(?:(?:not|isn't|never|neither|nor|rules? out|ruled out|except|do) \(?{_LETTERS}\b\)?(?:,? but\b)?|"
    rf"(?i:{_CALLED}) \(?{_LETTERS}\)? is (?:wrong|incorrect|not|false|out)\b|\(?{_LETTERS}\)? is (?:wrong|incorrect|"
    rf"not|false|out)\b)"
)
_RIGHT_LETTER = re.compile(
    rf"\b({_LETTERS})\)?\s+(?:is|seems|looks|must be)\s+(?:(?:the|my)\s+(?!wrong|incorrect|only (?:wrong|incorrect))|"
    rf"correct|right|best|true)"
)
_SEVERAL = re.compile(
    rf"\b(?:both|either|neither|all of (?:them|the above|these))\b|\b({_LETTERS})(?:,? (?:or|and) )({_LETTERS})\b"
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_ORDINAL = re.compile(rf"\bthe ({'|'.join(_ORDINALS)}|last) (?:option|choice|answer|alternative)\b", re.IGNORECASE)
_NEITHER = re.compile(r"\bneither [A-H] nor [A-H]\b", re.IGNORECASE)
_FINAL_CHOICE = re.compile(
    r"\b(?:final answer|answer|correct (?:choice|option)|therefore|thus|hence|so|that leaves|leaves|looking for|"
    r"is called|but)\b",
    re.IGNORECASE,
)
_JSON_ANSWER = re.compile(
    rf"\"(?:answer|choice|option|label|final_answer)\"\s*:\s*\"\(?({_LETTERS})\)?[\".:) ]", re.IGNORECASE
)
_NEXT_QUESTION = re.compile(r"\n\s*question\s*:", re.IGNORECASE)


def parse_choice(reply: str, choices: Mapping[str, str]) -> str | None:
    """Return the letter of the choice that a reply names, or None if it names none or several.

    A letter counts alone, at the beginning ("B", "(b)", "B: text"), or behind the word "answer", "option" or "choice"; the
    last one of these wins. Otherwise the text of a choice must be in the reply, and the text of no other choice unless that
    is a part of it; among several, the one in the last conclusion ("so", "therefore", "that leaves") counts. A letter beside
    the text of another choice names none.

    Args:
        reply: Reply of the model.
        choices: Texts of the choices by letter.

    """
    text = _NEXT_QUESTION.split(remove_reasoning(reply).strip())[0] if reply.strip() else ""
    text = text or remove_reasoning(reply).strip()
    text = re.sub(r"\(([a-h])\)", lambda match: match[0].upper(), _NEITHER.sub("neither", text))
    plain = _remove_options(re.sub(r"[*_`$]|</?\w+>|\\textbf|\\text|\\mathrm|[{}\\](?=.)|[{}]$", " ", text), choices)
    letter = _find_letter(text, plain, choices)
    if letter is not None:
        return letter if letter in choices else None
    if not any("neither" in choice.lower() for choice in choices.values()):
        plain = re.sub(r"\bneither\b[^.;,]*\bnor\b[^.;,]*", " ", plain, flags=re.IGNORECASE)
    if _SEVERAL.search(plain) and not any(_SEVERAL.search(choice.lower()) for choice in choices.values()):
        several = _SEVERAL.search(plain)
        if several is not None and not _FINAL_CHOICE.search(plain[several.end() :]):
            return None
    return _find_text(plain, choices)


def _remove_options(text: str, choices: Mapping[str, str]) -> str:
    """Remove a list of all choices that a reply repeats before its answer."""
    lines = [match for match in _OPTION_LINE.finditer(text) if normalise(choices.get(match[1], "")) == normalise(match[2])]
    if len({match[1] for match in lines}) < len(choices):
        return text
    end = next(match.end() for match in lines if match[1] == max(choices))
    return text[end:]


def _find_letter(text: str, plain: str, choices: Mapping[str, str]) -> str | None:
    """Return the letter that a reply names, "?" if it names one that contradicts itself, or None without a letter."""
    match = _JSON_ANSWER.search(text) or _WHOLE_LETTER.fullmatch(plain)
    if match:
        return match[1].upper()
    match = _LEADING_LETTER.match(plain)
    if match and not _SEVERAL.match(plain[match.start(1) :]):
        letter, rest = match[1].upper(), plain[match.end() :].strip()
        own = normalise(rest.split("\n")[0])
        others = [other for other, choice in choices.items() if other != letter and own and own == normalise(choice)]
        is_abbreviation = re.match(rf"{_LETTERS}\.\w\.", plain[match.start(1) :], re.IGNORECASE) is not None
        if others and own != normalise(choices.get(letter, "")):
            return others[0] if own in map(normalise, ("yes", "no")) or letter not in choices else "?"
        if not is_abbreviation and not re.match(rf"{_LETTERS} is (?:wrong|incorrect|not)", plain):
            return letter
    plain = _REJECTED_LETTER.sub(" ", plain)
    right = [m[1] for m in _RIGHT_LETTER.finditer(plain)] or [m[1].upper() for m in _NAMED_LETTER.finditer(plain)]
    chosen = right or [m[1].upper() for m in _CHOSEN_LETTER.finditer(plain)]
    if chosen:
        return chosen[-1]
    ordinal = _ORDINAL.search(plain)
    if ordinal:
        index = len(choices) - 1 if ordinal[1].lower() == "last" else _ORDINALS.index(ordinal[1].lower())
        return sorted(choices)[index] if index < len(choices) else "?"
    ending = re.search(rf"(?:^|[.!?:]\s+|\b(?:it is|it's|think) )[\s\"'(]*({_LETTERS})[\s\"').]*$", plain, re.IGNORECASE)
    return ending[1].upper() if ending else None


def _find_text(plain: str, choices: Mapping[str, str]) -> str | None:
    """Return the letter of the only choice whose text is in a reply, or in its last conclusion."""
    found = _match_texts(plain, choices)
    if len(found) > 1:
        found = _match_texts(_CONCESSION.sub(" ", plain.lower()), choices) or found
    if len(found) > 1:
        ends = [match.end() for match in _FINAL_CHOICE.finditer(plain)]
        tails = [_match_texts(plain[end:], choices) for end in reversed(ends)]
        tails += [_match_texts(sentence, choices) for sentence in reversed(re.split(r"(?<=[.!?])\s+", plain))][:1]
        found = next((tail for tail in tails if len(tail) == 1), found)
    if not found and len(plain.split()) <= _MOST_WORDS and (own := normalise(plain)):
        found = [letter for letter, choice in choices.items() if f" {own} " in f" {normalise(choice)} "]
    found = found or _match_words(plain, choices)
    return found[0] if len(found) == 1 else None


def _match_words(text: str, choices: Mapping[str, str]) -> list[str]:
    """Return the letters of the choices of which a text has all words that no other choice has."""
    words = {letter: set(normalise(choice).split()) for letter, choice in choices.items()}
    own = {letter: mine - set().union(*(words[o] for o in words if o != letter)) for letter, mine in words.items()}
    present = set(normalise(text).split())
    return [letter for letter, mine in own.items() if mine and mine <= present]


def _match_texts(text: str, choices: Mapping[str, str]) -> list[str]:
    """Return the letters of the choices whose texts are in a text, without those within the text of another one."""
    normalized = f" {normalise(text)} "
    matches = {letter: own for letter, choice in choices.items() if (own := normalise(choice)) and f" {own} " in normalized}
    return [
        letter
        for letter, own in matches.items()
        if not any(own != other and f" {own} " in f" {other} " for other in matches.values())
    ]
