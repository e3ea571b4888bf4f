"""Recognition of refusals: replies that give no answer, in the words that chat models use.

A reply is a refusal if it denies that the answer is known, stated or determinable, and neither goes on to give one
("I am not sure, but it is Paris") nor is a title ("I Don't Know How to Love Him"). The rules were written against one part of
`tests/data/replies.jsonl`; the tests give their recall and false alarms on the other part as well.
"""

import re
from functools import lru_cache

_SOURCE = (
    r"(?:(?:provided|given|supplied|retrieved|above|available|relevant|search|reference|first|second|last|two|three|five) )*"
    r"(?:contexts?|passages?|documents?|texts?|sources?|articles?|excerpts?|results|information|inputs?|paragraphs?|snippets?|"
    r"materials?|references|data|knowledge base)"
)
"""What a reply calls the passages."""
_THING = (
    r"(?:information|infos?|mention|answers?|details?|data|evidence|references?|indication|clues?|contexts?|facts?|knowledge|"
    r"basis|record|ideas?|way|access|specifics|results?|means|such|relevant|explicit|direct|specific|further|sufficient)"
)
"""What a reply says there is not enough of."""
_STATED = (
    r"(?:mentioned|stated|specified|provided|given|included|available|found|covered|known|named|identified|clear|listed|"
    r"addressed|answered|determined|disclosed|revealed|explicit|explicitly|discussed|described|indicated|told|present|shown|"
    r"contained|possible|sufficient|enough|supplied|answerable|inferred|deduced|established|detailed|referenced|apparent|"
    r"verified|confirmed|recorded|reported|concluded|ascertained|relevant|in)"
)
"""What an answer is not."""
_STATE = (
    r"(?:contain|mention|state|say|specify|give|include|provide|tell|discuss|cover|reveal|identify|names?|address|answer|list|"
    r"indicate|describe|show|allow|help|appear|explain|refer|disclose|seem|offer|touch|clarify|deal|have|make|supply|"
    r"detail|define|confirm|establish|support|present|talk|relate|pertain|explicitly|directly|actually|specifically|clearly|"
    r"fully|really|know|hold|go|match|point|report|note|speak|feature|yield)"
)
"""What passages do not do."""
_SAY = (
    r"(?:say|mention|state|specify|tell|give|provide|answer|include|contain|name|reveal|indicate|identify|address|cover|discuss|"
    r"list|explain|clarify)"
)
"""What "it" and "they" do not do if they stand for the passages."""
_KNOW = (
    r"(?:know|sure|certain|able|aware|familiar|determine|tell|say|find|answer|identify|locate|see|provide|verify|help|infer|"
    r"conclude|confirm|have|give|offer|recall|think|believe|deduce|guess|confident|possess|come|recogni[sz]e|qualified|given|"
    r"told|specify|extract|access|ascertain|establish|state|respond|pinpoint|name|spot|comment)"
)
"""What a model cannot do."""
_HOW = r"(?:be |been |explicitly |directly |specifically |clearly )*"
_DENIALS = (
    # The model does not know.
    r"\b(?:i|we|one|you) (?:(?:am|are|was|were|do|did|can|could|would|will|have|had|must|might|may|still|really|just) )*"
    r"(?:not|never) (?:(?:really|actually|honestly|entirely|quite|yet|currently|definitively|be|been|do|get|even|exactly|"
    rf"also) )*{_KNOW}\b",
    r"\b(?:i|we) (?:have|had|found|find|see|saw|know|possess|can find|can see) (?:no|nothing|insufficient|little)\b",
    r"\b(?:i|we) (?:lack|have insufficient|need more|would need|require more|am unable|was unable|are unable|will refrain)\b",
    r"\b(?:unable|impossible|difficult|hard|not possible|no way|not able|insufficient|not sufficient|not enough|not feasible)"
    rf"(?: \w+){{0,4}}? to {_KNOW}\b",
    r"^(?:you )?(?:can|could) not (?:tell|say|determine|answer)\b",
    r"\byour guess is as good\b|\bbeats me\b|\bstumped\b|\b(?:rather|will) not guess\b|\bneither confirm nor deny\b",
    # The passages do not say.
    rf"\b(?:{_SOURCE}|(?:passage|document|source|context) ?\d+)(?: \w+){{0,6}}? "
    rf"(?:do|does|did|can|could|would) not (?:\w+ )?{_STATE}\b",
    rf"\b(?:it|they|that|this)(?: \w+){{0,3}}? (?:do|does|did) not (?:\w+ )?{_SAY}\b",
    rf"\b{_SOURCE}\b.* but not (?:its|the|his|her|their|who|when|where|which|what|how|why)\b",
    rf"\b{_SOURCE}(?: \w+){{0,12}}? (?:never|fails? to|failed to|neither) (?:\w+ )?{_STATE}s?\b",
    rf"\b{_SOURCE}(?: \w+){{0,12}}? (?:contains?|makes?|gives?|provides?|offers?|includes?|has|have|says?|lacks?|reveals?) "
    r"(?:no|nothing|any|little|sufficient)\b",
    rf"\b{_SOURCE}(?: \w+){{0,2}} (?:is|are|was|were) (?:\w+ )?"
    r"(?:silent|insufficient|unrelated|irrelevant|not|unclear|inconclusive|about other)\b",
    rf"\b{_SOURCE}(?: \w+){{0,12}} but (?:do|does|did) not \w+",
    r"\b(?:none|neither|nothing|nobody|no one)(?: (?:of|in|from|is|about|on|the|these|those|them|two|provided|named|said))*"
    rf" {_SOURCE}\b",
    r"^(?:nobody|no one) is (?:\w+ ){1,6}in the \w+$",
    r"\b(?:none|neither) of (?:them|these|those|which)\b",
    r"\bnone (?:gives?|mentions?|says?|states?|names?|answers?|specif(?:y|ies))\b",
    r"\bnothing (?:is |was |here )?(?:said|in|about|indicates|mentioned|stated|answers)\b",
    rf"\bnot something(?: \w+){{0,2}} {_SOURCE}\b",
    # There is not enough.
    r"\bthere(?: \w+)? (?:is|was|are|were|seems to be|appears to be) (?:simply |currently )?"
    rf"(?:not (?:any|enough|a|sufficient)|no|insufficient|nothing)\b(?: \w+){{0,3}} {_THING}",
    r"^(?:no|not enough|insufficient)(?: \w+){0,2} (?:information|infos?|mention|answers?|details?|references?|indication|"
    r"clues?|contexts?|results?|relevant|such)\b",
    r"\b(?:insufficient|not enough|not sufficient|too little|lack of|lacks?|lacking)(?: any| sufficient)? "
    r"(?:information|infos?|contexts?|details?|data|knowledge|mention)\b",
    r"\b(?:more|further|additional) (?:info|information|context|details?) (?:is|are|would|needed|required)\b",
    r"\bneed (?:more|further|additional)\b",
    # The answer is not stated.
    r"\banswer(?: \w+)? does not\b",
    r"\b(?:answers?|it|that|this|which|information|question|details?|name|date|year|number|who|what|where|when|how)\b"
    rf"(?: \w+){{0,12}}? (?:is|are|was|were|can|could|has|have|remains?) (?:be )?(?:not|never) {_HOW}{_STATED}\b",
    rf"\b(?:can|could|has|have|is|was|are|were|does|do) not (?:appear )?{_HOW}(?:{_STATED})?(?: \w+){{0,4}}? "
    rf"(?:in|by|from|using|with|on|based on|within|through)(?: \w+){{0,4}}? {_SOURCE}\b",
    rf"^(?:\w+ )?not {_HOW}{_STATED}\b(?: (?:in|by|from|within|based|here|at all)\b.*)?$",
    r"\b(?:answer|it|this|that|which \w+|who \w+|what|where|when|how)\b(?: \w+){0,10}? (?:is|are|was|remains?|not) "
    r"(?:unknown|unclear|undetermined|unspecified|missing|absent|indeterminate|uncertain|unavailable|unanswerable|left out)\b",
    rf"\b(?:missing|absent|omitted|left out|unclear|excluded)(?: \w+){{0,2}} (?:from|of|in)(?: \w+){{0,3}} {_SOURCE}\b",
    r"\b(?:mentioned|named|listed|described)\b.* but (?:its|his|her|their|the|no) (?:\w+ )?\w+ (?:is|are|was|were) not$",
    r"^(?!.*\bwhose\b).*\bis (?:never|not) (?:named|given|mentioned|stated|specified|identified)$",
    # The model asks back.
    r"\b(?:could|can|would) you (?:please )?(?:provide|clarify|specify|share|give|tell)\b",
    r"\bplease (?:provide|consult|clarify|specify|give|share|check)\b",
    r"^(?:which|what) .*\b(?:asking|referring|mean)\b",
)
"""Ways to deny that the answer is known: in lower case, without punctuation, with "not" for "n't"."""

_BARE = re.compile(
    r"(?:(?:sorry|apologies|hmm|unfortunately|um|well|ok|the answer is|it is|it s|this is|that is|there is|i am|oh|dear) )*"
    r"(?:unknown|unanswerable|unclear|undetermined|unspecified|unavailable|uncertain|indeterminate|n a|null|"
    r"insufficient (?:information|info|context|data|details?|knowledge)|"
    r"no (?:idea|answer|data|clue|results?|information|response|mention|context)|idk|dunno|i do not know|(?:i have )?no idea|"
    r"none of (?:the )?(?:above|these|those|them|passages|sources|documents)(?: \w+)?|"
    r"not (?:sure|certain|found|available|provided|stated|given|applicable|known|mentioned|specified|possible|clear|"
    r"sufficient|enough(?: \w+)?|in (?:the )?\w+)|can not (?:answer|say|tell|determine|help|be determined|be answered))"
    r"(?: (?:about|on) (?:that|this)(?: one)?| sorry| at all| yet| given| available| provided| found)*"
)
"""Whole replies of a few words."""

_CONTRAST = re.compile(
    r"\b(?:but|however|though|although|that said|nevertheless|still|yet|maybe|perhaps|probably|possibly)\b|\.\.\.|;"
)
_OWN_KNOWLEDGE = re.compile(
    r"\b(?:(?:from|based on|using) (?:my|general)(?: own| general)? knowledge|as far as i know|best guess|generally known|"
    r"widely known|most (?:plausible|likely)|the answer (?:is|should be|would be) (?!not|un))"
)
_HEDGE = re.compile(
    r"^(?:possibly|probably|perhaps|maybe|likely|presumably|it (?:could|might|may|was likely|is likely) be|you might be|"
    r"it was (?:likely|probably)|i (?:think|believe) (?:it|the answer|that it) (?:is|was)|my best guess|as far as i know|"
    r"if i had to guess|i would (?:say|guess))\b"
)
_MENTIONS = re.compile(
    r"^(?:it|they|he|she|the \w+)(?: only| just| also| instead| does| do)* (?:mentions?|lists?|says?|discuss(?:es)?|"
    r"describes?|talks?|focus(?:es)?|states?|refers?|gives?|covers?)\b"
)
"""What passages contain instead of the answer."""
_BOUNDARY = re.compile(r"(?<=[.!?])\s+|\n+|\s*[(\[;]|\s[-\N{EN DASH}\N{EM DASH}]\s")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ACCORDING = re.compile(rf"^(?:based on|according to|from|in|per) (?:the )?{_SOURCE}\b")
_NO_STATEMENT = re.compile(
    r"\b(?:i|we|my|me|you|your)\b|^(?:sorry|apolog|unfortunately|hmm|oh|well|ok|thanks?|note|please|which|what|who|great|good|"
    r"could|yes)"
)
_PREDICATE = re.compile(r"\d|\b(?:is|are|was|were|has|had|by)\b")
_CONCESSION = re.compile(r"^(?:although|though|while|even though|despite)\b[^,]*,\s*(?P<rest>.+)$")
_AFTERTHOUGHT = re.compile(r"^(?P<answer>[^,.]+), (?:although|though|while|who|which|whose)\b")
_NARRATIVE = re.compile(r"^(?:because|due to|he|she)\b")
_QUOTATION = re.compile(r"[\"\N{LEFT DOUBLE QUOTATION MARK}][^\"]{3,}?[\"\N{RIGHT DOUBLE QUOTATION MARK}]")
_PREFIX = re.compile(r"^\W*(?:response|reply|result|output|a|(?:final |short |my )?answer)\s*:\W*")
_SOURCE_PATTERN = re.compile(rf"\b{_SOURCE}\b")
_PATTERNS = tuple(re.compile(pattern) for pattern in _DENIALS)
_EXPANSIONS = (
    (re.compile(r"[\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}]"), "'"),
    (re.compile(r"\bcan(?:no|')t\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b(do|does|did|is|are|was|were|could|would|should|have|has)nt\b"), r"\1 not"),
    (re.compile(r"\b(\w+)'m\b"), r"\1 am"),
    (re.compile(r"\b(i|we|you|they)'ve\b"), r"\1 have"),
    (re.compile(r"\b(i|we|you|they)'d\b"), r"\1 would"),
    (re.compile(r"\b(it|that|there|what|who|he|she)'s\b"), r"\1 is"),
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_NAMED_SHARE = 0.5
_LONGEST = 1000
"""Number of characters that decide: no refusal takes more, and the search stays short for whatever a model writes."""


@lru_cache(maxsize=100_000)
def is_refusal(reply: str) -> bool:
    """Return whether a reply denies that the answer is known, without giving one."""
    text = _PREFIX.sub("", _expand(reply[:_LONGEST]))
    if _BARE.fullmatch(_words(text)):
        return True
    if _QUOTATION.sub("", text).strip(" .,"):
        text = _QUOTATION.sub(" x ", text)
    if _is_answer(reply, text):
        return False
    concession = _CONCESSION.match(text)
    if concession and not _denies(_words(concession["rest"])):
        return False
    return _denies(_words(text)) and not _goes_on_to_answer(text)


def _is_answer(reply: str, text: str) -> bool:
    """Return whether a reply is a title, begins with a hedged answer, or tells of somebody without naming a source."""
    words = _words(text)
    if _is_title(reply) or _HEDGE.match(words):
        return True
    if _NARRATIVE.match(words) and not _SOURCE_PATTERN.search(words):
        return True
    afterthought = _AFTERTHOUGHT.match(text)
    if afterthought is not None and not _denies(_words(afterthought["answer"])):
        return True
    clauses, sentences = _BOUNDARY.split(text), _SENTENCE.split(text.strip())
    last = _words(re.sub(r"^(?:however|but|still|yet)\b", "", sentences[-1]))
    begins_with_it = len(clauses) > 1 and _states(_words(clauses[0]))
    ends_with_it = len(sentences) > 1 and _states(last) and _PREDICATE.search(last) is not None
    return begins_with_it or ends_with_it


def _states(words: str) -> bool:
    """Return whether a clause may be an answer: it names no source and no speaker, and denies nothing."""
    words = _ACCORDING.sub("", words).strip()
    if not words or _NO_STATEMENT.search(words) or _SOURCE_PATTERN.search(words) or _MENTIONS.match(words):
        return False
    return not _denies(words)


def _goes_on_to_answer(text: str) -> bool:
    """Return whether a contrast divides a clause that denies from one that answers, in either order."""
    if _OWN_KNOWLEDGE.search(text):
        return True
    for contrast in _CONTRAST.finditer(text):
        before, after = _words(text[: contrast.start()]), _words(text[contrast.end() :])
        if after and _denies(before):
            return not (_denies(after) or _MENTIONS.match(after))
        if _states(before) and _denies(after):
            return True
    return False


def _denies(words: str) -> bool:
    """Return whether a clause denies that the answer is known."""
    return _BARE.fullmatch(words) is not None or any(pattern.search(words) for pattern in _PATTERNS)


def _expand(reply: str) -> str:
    """Convert to lower case and write contractions out."""
    text = reply.lower()
    for pattern, replacement in _EXPANSIONS:
        text = pattern.sub(replacement, text)
    return text


def _words(text: str) -> str:
    """Return the words of a text, separated by single spaces."""
    return " ".join(re.findall(r"\w+", text))


def _is_title(reply: str) -> bool:
    """Return whether most words after the first are capitalised, as in a title or a list of names."""
    words: list[str] = _WORD.findall(reply)[1:]
    long_words = [word for word in words if len(word) > 3 or word[:1].isupper()]
    if not long_words or reply.isupper():
        return False
    return sum(word[0].isupper() for word in long_words) > _NAMED_SHARE * len(long_words)
