"""Recognition of refusals, which are replies of chat models that give no answer.

A reply is a refusal if it denies that the answer is known, stated or determinable. It is not a
refusal if it also gives an answer ("I am not sure, but it is Paris") or is a title ("I Don't Know
How to Love Him"). The rules were written with the development part of `tests/data/replies.jsonl`.
The tests measure their recall and false alarms on the held-out part as well.
"""

import re
from functools import lru_cache

_SOURCE = (
    r"(?:(?:provided|given|supplied|retrieved|above|available|relevant|search|reference|first|"
    r"second|last|two|three|five) )*(?:contexts?|passages?|documents?|texts?|sources?|articles?|"
    r"excerpts?|results|information|inputs?|paragraphs?|snippets?|materials?|references|data|"
    r"knowledge base)"
)
"""Nouns by which a reply refers to the passages, as in "the provided context"."""
_MISSING = (
    r"(?:information|infos?|mention|answers?|details?|data|evidence|references?|indication|clues?|"
    r"contexts?|facts?|knowledge|basis|record|ideas?|way|access|specifics|results?|means|such|"
    r"relevant|explicit|direct|specific|further|sufficient)"
)
"""Words for what is missing, as in "there is no information"."""
_PARTICIPLE = (
    r"(?:mentioned|stated|specified|provided|given|included|available|found|covered|known|named|"
    r"identified|clear|listed|addressed|answered|determined|disclosed|revealed|explicit|explicitly|"
    r"discussed|described|indicated|told|present|shown|contained|possible|sufficient|enough|"
    r"supplied|answerable|inferred|deduced|established|detailed|referenced|apparent|verified|"
    r"confirmed|recorded|reported|concluded|ascertained|relevant|in)"
)
"""Participles and adjectives after "not", as in "the date is not mentioned"."""
_SOURCE_VERB = (
    r"(?:contain|mention|state|say|specify|give|include|provide|tell|discuss|cover|reveal|identify|"
    r"names?|address|answer|list|indicate|describe|show|allow|help|appear|explain|refer|disclose|"
    r"seem|offer|touch|clarify|deal|have|make|supply|detail|define|confirm|establish|support|"
    r"present|talk|relate|pertain|explicitly|directly|actually|specifically|clearly|fully|really|"
    r"know|hold|go|match|point|report|note|speak|feature|yield)"
)
"""Negated verbs whose subject is the passages, as in "the context does not say"."""
_PRONOUN_VERB = (
    r"(?:say|mention|state|specify|tell|give|provide|answer|include|contain|name|reveal|indicate|"
    r"identify|address|cover|discuss|list|explain|clarify)"
)
"""Negated verbs with subject "it" or "they", meaning the passages, as in "it does not say"."""
_MODEL_VERB = (
    r"(?:know|sure|certain|able|aware|familiar|determine|tell|say|find|answer|identify|locate|see|"
    r"provide|verify|help|infer|conclude|confirm|have|give(?! a damn)|offer|recall|think|believe|"
    r"deduce|guess|confident|possess|come|recogni[sz]e|qualified|given|told|specify|extract|access|ascertain|"
    r"establish|state|respond|pinpoint|name|spot|comment)"
)
"""Negated verbs and adjectives about the model, as in "I am not sure" or "unable to determine"."""
_ADVERBS = r"(?:be |been |explicitly |directly |specifically |clearly )*"
"""Words between "not" and the participle, as in "not explicitly stated"."""
_DENIALS = (
    # The model does not know.
    r"\b(?:i|we|one|you) (?:(?:am|are|was|were|do|did|can|could|would|will|have|had|must|might|may|"
    r"still|really|just) )*(?:not|never) (?:(?:really|actually|honestly|entirely|quite|yet|"
    r"currently|definitively|be|been|do|get|even|exactly|"
    rf"also) )*{_MODEL_VERB}\b",
    r"\b(?:i|we) (?:have|had|found|find|see|saw|know|possess|can find|can see) (?:no|nothing|"
    r"insufficient|little)\b",
    r"\b(?:i|we) (?:lack|have insufficient|need more|would need|require more|am unable|was unable|"
    r"are unable|will refrain)\b",
    r"\b(?:unable|impossible|difficult|hard|not possible|no way|not able|insufficient|"
    r"not sufficient|not enough|not feasible)"
    rf"(?: \w+){{0,4}}? to {_MODEL_VERB}\b",
    r"^(?:you )?(?:can|could) not (?:tell|say|determine|answer)\b",
    r"\byour guess is as good\b|\bbeats me\b|\bstumped\b|\b(?:rather|will) not guess\b|"
    r"\bneither confirm nor deny\b",
    # The passages do not say.
    rf"\b(?:{_SOURCE}|(?:passage|document|source|context) ?\d+)(?: \w+){{0,6}}? (?:do|does|did|can|"
    rf"could|would) not (?:\w+ )?{_SOURCE_VERB}\b",
    rf"\b(?:it|they|that|this)(?: \w+){{0,3}}? (?:do|does|did) not (?:\w+ )?{_PRONOUN_VERB}\b",
    rf"\b{_SOURCE}\b.* but not (?:its|the|his|her|their|who|when|where|which|what|how|why)\b",
    rf"\b{_SOURCE}(?: \w+){{0,12}}? (?:never|fails? to|failed to|"
    rf"neither) (?:\w+ )?{_SOURCE_VERB}s?\b",
    rf"\b{_SOURCE}(?: \w+){{0,12}}? (?:contains?|makes?|gives?|provides?|offers?|includes?|has|"
    rf"have|says?|lacks?|reveals?) "
    r"(?:no|nothing|any|little|sufficient)\b",
    rf"\b{_SOURCE}(?: \w+){{0,2}} (?:is|are|was|were) (?:\w+ )?"
    r"(?:silent|insufficient|unrelated|irrelevant|not|unclear|inconclusive|about other)\b",
    rf"\b{_SOURCE}(?: \w+){{0,12}} but (?:do|does|did) not \w+",
    r"\b(?:none|neither|nothing|nobody|no one)(?: (?:of|in|from|is|about|on|the|these|those|them|"
    r"two|provided|named|said))*"
    rf" {_SOURCE}\b",
    r"^(?:nobody|no one) is (?:\w+ ){1,6}in the \w+$",
    r"\b(?:none|neither) of (?:them|these|those|which)\b",
    r"\bnone (?:gives?|mentions?|says?|states?|names?|answers?|specif(?:y|ies))\b",
    r"\bnothing (?:is |was |here )?(?:said|in|about|indicates|mentioned|stated|answers)\b",
    rf"\bnot something(?: \w+){{0,2}} {_SOURCE}\b",
    # There is not enough.
    r"\bthere(?: \w+)? (?:is|was|are|were|seems to be|appears to be) (?:simply |currently )?"
    rf"(?:not (?:any|enough|a|sufficient)|no|insufficient|nothing)\b(?: \w+){{0,3}} {_MISSING}",
    r"^(?:no|not enough|insufficient)(?: \w+){0,2} (?:information|infos?|mention|answers?|details?|"
    r"references?|indication|clues?|contexts?|results?|relevant|such)\b",
    r"\b(?:insufficient|not enough|not sufficient|too little|lack of|lacks?|lacking)(?: any|"
    r" sufficient)? (?:information|infos?|contexts?|details?|data|knowledge|mention)\b",
    r"\b(?:more|further|additional) (?:info|information|context|details?) (?:is|are|would|needed|"
    r"required)\b",
    r"\bneed (?:more|further|additional)\b",
    # The answer is not stated.
    r"\banswer(?: \w+)? does not\b",
    r"\b(?:answers?|it|that|this|which|information|question|details?|name|date|year|number|who|"
    r"what|where|when|how)\b"
    rf"(?: \w+){{0,12}}? (?:is|are|was|were|can|could|has|have|remains?) (?:be )?(?:not|"
    rf"never) {_ADVERBS}{_PARTICIPLE}\b",
    rf"\b(?:can|could|has|have|is|was|are|were|does|do) not (?:appear "
    rf")?{_ADVERBS}(?:{_PARTICIPLE})?(?: \w+){{0,4}}? (?:in|by|from|using|with|on|based on|within|"
    rf"through)(?: \w+){{0,4}}? {_SOURCE}\b",
    rf"^(?:\w+ )?not {_ADVERBS}{_PARTICIPLE}\b(?: (?:in|by|from|within|based|here|at all)\b.*)?$",
    r"\b(?:answer|it|this|that|which \w+|who \w+|what|where|when|how)\b(?: \w+){0,10}? (?:is|are|"
    r"was|remains?|not) (?:unknown|unclear|undetermined|unspecified|missing|absent|indeterminate|"
    r"uncertain|unavailable|unanswerable|left out)\b",
    rf"\b(?:missing|absent|omitted|left out|unclear|excluded)(?: \w+){{0,2}} (?:from|of|"
    rf"in)(?: \w+){{0,3}} {_SOURCE}\b",
    r"\b(?:mentioned|named|listed|described)\b.* but (?:its|his|her|their|the|"
    r"no) (?:\w+ )?\w+ (?:is|are|was|were) not$",
    r"^(?!.*\bwhose\b).*\bis (?:never|not) (?:named|given|mentioned|stated|specified|identified)$",
    # The model asks a question in return.
    r"\b(?:could|can|would) you (?:please )?(?:provide|clarify|specify|share|give|tell)\b",
    r"\bplease (?:provide|consult|clarify|specify|give|share|check)\b",
    r"^(?:which|what) .*\b(?:asking|referring|mean)\b",
)
"""Denials that the answer is known, for lower-case text without punctuation or contractions."""

_SHORT_REFUSAL = re.compile(
    r"(?:(?:sorry|apologies|hmm|unfortunately|um|well|ok|the answer is|it is|it s|this is|that is|"
    r"there is|i am|oh|dear) )*(?:unknown|unanswerable|unclear|undetermined|unspecified|"
    r"unavailable|uncertain|indeterminate|n a|null|insufficient (?:information|info|context|data|"
    r"details?|knowledge)|no (?:idea|answer|data|clue|results?|information|response|mention|"
    r"context)|idk|dunno|i do not know|(?:i have )?no idea|none of (?:the )?(?:above|these|those|"
    r"them|passages|sources|documents)(?: \w+)?|not (?:sure|certain|found|available|provided|"
    r"stated|given|applicable|known|mentioned|specified|possible|clear|sufficient|enough(?: \w+)?|"
    r"in (?:the )?\w+)|can not (?:answer|say|tell|determine|help|be determined|"
    r"be answered))(?: (?:about|on) (?:that|this)(?: one)?| sorry| at all| yet| given| available|"
    r" provided| found)*"
)
"""Short replies that are refusals as a whole, such as "no idea"."""

_CONTRAST = re.compile(
    r"\b(?:but|however|though|although|that said|nevertheless|still|yet|maybe|perhaps|probably|"
    r"possibly)\b|\.\.\.|;"
)
"""Words and punctuation between a denial and an answer, in either order."""
_OWN_KNOWLEDGE = re.compile(
    r"\b(?:(?:from|based on|using) (?:my|general)(?: own| general)? knowledge|as far as i know|"
    r"best guess|generally known|widely known|most (?:plausible|likely)|the answer (?:is|should be|"
    r"would be) (?!not|un))"
)
"""Phrases by which a model announces an answer from its own knowledge."""
_HEDGE = re.compile(
    r"^(?:possibly|probably|perhaps|maybe|likely|presumably|it (?:could|might|may|was likely|"
    r"is likely) be|you might be|it was (?:likely|probably)|i (?:think|believe) (?:it|the answer|"
    r"that it) (?:is|was)|my best guess|as far as i know|if i had to guess|i would (?:say|guess))\b"
)
"""Openings of an answer that the model is not sure of, such as "probably"."""
_OTHER_CONTENT = re.compile(
    r"^(?:it|they|he|she|the \w+)(?: only| just| also| instead| does| do)* (?:mentions?|lists?|"
    r"says?|discuss(?:es)?|describes?|talks?|focus(?:es)?|states?|refers?|gives?|covers?)\b"
)
"""Clauses on what passages contain instead of the answer, such as "it only mentions his father"."""
_CLAUSE_BOUNDARY = re.compile(r"(?<=[.!?])\s+|\n+|\s*[(\[;]|\s[-\N{EN DASH}\N{EM DASH}]\s")
_SENTENCE_BOUNDARY = re.compile(r"(?<=[.!?])\s+|\n+")
_ATTRIBUTION = re.compile(rf"^(?:based on|according to|from|in|per) (?:the )?{_SOURCE}\b")
"""A reference to the passages before a statement, such as "according to the text"."""
_NOT_A_STATEMENT = re.compile(
    r"\b(?:i|we|my|me|you|your)\b|^(?:sorry|apolog|unfortunately|hmm|oh|well|ok|thanks?|note|"
    r"please|which|what|who|great|good|could|yes)"
)
"""Words of clauses that talk to the user or about the model instead of stating something."""
_PREDICATE = re.compile(r"\d|\b(?:is|are|was|were|has|had|by)\b")
"""Digits and verbs, at least one of which the last sentence must contain to count as an answer."""
_CONCESSION = re.compile(r"^(?:although|though|while|even though|despite)\b[^,]*,\s*(?P<rest>.+)$")
"""A leading concession, such as "although the text does not say it"; `rest` is what follows."""
_AFTERTHOUGHT = re.compile(r"^(?P<answer>[^,.]+), (?:although|though|while|who|which|whose)\b")
"""An answer before a subordinate clause, such as "Paris, although the text does not say it"."""
_NARRATIVE = re.compile(r"^(?:because|due to|he|she)\b")
"""Openings of an explanation, or of a sentence about a person."""
_QUOTATION = re.compile(
    r"[\"\N{LEFT DOUBLE QUOTATION MARK}][^\"]{3,}?[\"\N{RIGHT DOUBLE QUOTATION MARK}]"
)
_LABEL = re.compile(r"^\W*(?:response|reply|result|output|a|(?:final |short |my )?answer)\s*:\W*")
"""A label in front of the reply, such as "Answer:"."""
_SOURCE_PATTERN = re.compile(rf"\b{_SOURCE}\b")
_DENIAL_PATTERNS = tuple(re.compile(pattern) for pattern in _DENIALS)
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
_MIN_CAPITALISED_SHARE = 0.5
_MAX_CHARACTERS = 1000
"""Number of leading characters examined, more than a refusal has, to limit the time per reply."""


@lru_cache(maxsize=100_000)
def is_refusal(reply: str) -> bool:
    """Return whether a reply denies that the answer is known, without giving an answer."""
    text = _LABEL.sub("", _expand_contractions(reply[:_MAX_CHARACTERS]))
    if _SHORT_REFUSAL.fullmatch(_remove_punctuation(text)):
        return True
    if _QUOTATION.sub("", text).strip(
        " .,"
    ):  # a quotation inside the reply is not what the model itself says
        text = _QUOTATION.sub(" x ", text)
    if _is_answer(reply, text):
        return False
    concession = _CONCESSION.match(text)
    if concession and not _is_denial(_remove_punctuation(concession["rest"])):
        return False
    return _is_denial(_remove_punctuation(text)) and not _has_contrasting_answer(text)


def _is_answer(reply: str, text: str) -> bool:
    """Return whether a reply gives an answer.

    It does if it is a title, begins with a hedge, is about somebody without naming a source, or
    begins or ends with a statement.
    """
    words = _remove_punctuation(text)
    if _is_title(reply) or _HEDGE.match(words):
        return True
    if _NARRATIVE.match(words) and not _SOURCE_PATTERN.search(words):
        return True
    afterthought = _AFTERTHOUGHT.match(text)
    if afterthought is not None and not _is_denial(_remove_punctuation(afterthought["answer"])):
        return True
    clauses, sentences = _CLAUSE_BOUNDARY.split(text), _SENTENCE_BOUNDARY.split(text.strip())
    last = _remove_punctuation(re.sub(r"^(?:however|but|still|yet)\b", "", sentences[-1]))
    begins_with_statement = len(clauses) > 1 and _is_statement(_remove_punctuation(clauses[0]))
    ends_with_statement = (
        len(sentences) > 1 and _is_statement(last) and _PREDICATE.search(last) is not None
    )
    return begins_with_statement or ends_with_statement


def _is_statement(clause: str) -> bool:
    """Return whether a clause may state an answer: it does not refer to a source or a speaker, and
    is not a denial.
    """
    clause = _ATTRIBUTION.sub("", clause).strip()
    if (
        not clause
        or _NOT_A_STATEMENT.search(clause)
        or _SOURCE_PATTERN.search(clause)
        or _OTHER_CONTENT.match(clause)
    ):
        return False
    return not _is_denial(clause)


def _has_contrasting_answer(text: str) -> bool:
    """Return whether a word such as "but" separates a denial from an answer, or the model refers to
    its own knowledge.
    """
    if _OWN_KNOWLEDGE.search(text):
        return True
    for contrast in _CONTRAST.finditer(text):
        before = _remove_punctuation(text[: contrast.start()])
        after = _remove_punctuation(text[contrast.end() :])
        if after and _is_denial(before):
            return not (_is_denial(after) or _OTHER_CONTENT.match(after))
        if _is_statement(before) and _is_denial(after):
            return True
    return False


def _is_denial(clause: str) -> bool:
    """Return whether a clause denies that the answer is known."""
    return _SHORT_REFUSAL.fullmatch(clause) is not None or any(
        pattern.search(clause) for pattern in _DENIAL_PATTERNS
    )


def _expand_contractions(reply: str) -> str:
    """Convert a reply to lower case and expand its contractions, such as "can't"."""
    text = reply.lower()
    for pattern, replacement in _EXPANSIONS:
        text = pattern.sub(replacement, text)
    return text


def _remove_punctuation(text: str) -> str:
    """Return the words of a text, separated by single spaces."""
    return " ".join(re.findall(r"\w+", text))


def _is_title(reply: str) -> bool:
    """Return whether most words after the first are capitalized, as in a title or list of names."""
    words: list[str] = _WORD.findall(reply)[1:]
    long_words = [word for word in words if len(word) > 3 or word[:1].isupper()]
    if not long_words or reply.isupper():
        return False
    return sum(word[0].isupper() for word in long_words) > _MIN_CAPITALISED_SHARE * len(long_words)
