"""Reading of claims: whether a reply calls a claim true, false, or neither.

The rules were written against the development part of tests/data/verdicts.jsonl, and measured on
the other part.
"""

import re
from collections.abc import Iterator

from winnow.text.final import extract_final_text

_MARKUP = re.compile(
    r"```(?:json)?|\\(?:boxed|text|textbf|mathrm|mathbf)\b|</?\w+>|[*_`#${}\\✅❌✔✓]|^\s*(?:[-•>]|"
    r"\d+\.)\s",
    re.MULTILINE,
)
_QUESTION = re.compile(r"[^.!?\n]*\?")
_QUOTED = re.compile(r"(?<![\w.,!])[\"“](?=\S)[^\"”]*\s[^\"”]*\s[^\"”]*[\"”]")
_GIVEN = re.compile(
    r"^\W*(?:claim|statement|question|input|premise|hypothesis)\s*:.*$",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT_CLAIM = re.compile(r"(?<=\S)\s*\n\W*(?:claim|statement|question|input)\s*:", re.IGNORECASE)
_JSON_VERDICT = re.compile(
    r"[\"'](?:\w+_)?(?:verdict|label|answer|prediction|result|true|supported|correct|conclusion|"
    r"rating|judge?ment)[\"']\s*:\s*[\"']?(mostly |not )?(true|false|yes|no(?!\w| )|supports?|"
    r"supported|refutes?|refuted|correct|incorrect|entailment|contradict(?:s|ed|ion)?)\b",
    re.IGNORECASE,
)
_NOUN = (
    r"(?:claim|statement|assertion|hypothesis|allegation|idea|notion|belief|suggestion|rumou?r|"
    r"sentence|quote|premise)"
)
_SOURCE = r"(?:evidence|facts?|science|data|records?|findings|study|abstract)"
_ADJECTIVE = (
    r"(?:true|correct|accurate|right|supported|false|untrue|incorrect|inaccurate|wrong|refuted|"
    r"confirmed)"
)
_AFTER_CLAIM = (
    r"(?:(?:is|are|was|were|has|have|had|can|cannot|should|must|would|appears|seems|remains|does|"
    r"do)(?:n't)?|holds|checks|fails|lacks|turns)\b(?: (?:not|be|been|to|also|in fact|well|simply|"
    r"therefore|thus|\w+ly|an?|common|popular))*"
)
_CONTENT = re.compile(
    rf"\b({_NOUN}) that (?:[^.;!?\n]*?)\b(?={_AFTER_CLAIM} ?(?:{_ADJECTIVE}|valid|unfounded|"
    rf"baseless|supported|debunked|"
    r"disproven|contradicted|established|documented|substantiated|misinformation|misleading|a myth|"
    r"myth|misconception|hoax|"
    rf"hold|holds|up|out|stand|check|factual|mistaken|scientific)\b)|\b({_NOUN}|it) (?:says?|said|"
    rf"states?|alleges?|asserts?|"
    r"mentions?)\b(?! is\b)[^.,;!?\n]*"
)
_OPINION = (
    r"(?:say|says|said|think|thinks|thought|believe|believes|believed|assume|assumes|assumed|call|"
    r"consider|claim|argue)"
)
CONCESSION = re.compile(
    rf"\b(?:while|although|though|even though|even if|despite|contrary to (?!(?:the |all |"
    rf"current )?{_SOURCE})|in spite of|"
    r"whereas|whether|otherwise|(?:many|most|some|few|lots of|other) (?:people|of us|sources|"
    r"websites)|(?:many|most|some|others) (?:(?:might|may|would|will|often|still|now) )?(?="
    + _OPINION
    + r")|people (?:often|may|might|who)|those who|"
    r"at first|initially|it is (?:often|widely|commonly|sometimes)|(?:sounds?|sounded|looks?|"
    r"seemed) (?:like|false|true|right|wrong)|just because|i (?:first|initially|originally|had|"
    r"once) "
    rf"{_OPINION}|(?:this|it) was (?:once )?{_ADJECTIVE} (?:until|before|in))\b[^,.;:!?\n]*|"
    rf"\b(?:it is|it's|this is) "
    r"(?:\w+ly )?(?:true|correct|right|accurate) that [^.;!?\n]*?(?=\bbut\b|\bhowever\b)|"
    r"\bto (?:evaluate|determine|decide|assess|verify|judge)\b[^.;!?\n]*|\b(?:needed|required|"
    r"necessary|happy) to\b[^.;!?\n]*"
)
_HEDGE = re.compile(
    r"(?<!nothing )\b(?:could|might|may)(?: very well| just as well| also)? be\b[^,.;:!?\n]*|"
    r"\bpotentially\b|\bwould (?:only )?be\b[^.;,!?\n]*\bif\b[^,.;!?\n]*|\b(?:if|"
    r"unless)\b[^,.;!?\n]*(?:, (?:then )?(?:yes|no|it|this|that|the (?:claim|"
    r"statement))\b[^,.;!?\n]*)?"
)
_CONDITIONAL = re.compile(
    r"\bif\b[^,.;!?\n]*, (?:then )?(?:yes|no|(?:it|this|that|the claim|the statement)(?:'s|"
    r" is))\b[^,.;!?\n]*"
)
_ATTRIBUTE = re.compile(
    r"\b(?:the|a) (?:correct|right|true|actual|accurate|wrong|false) (?!statement|claim|assertion|"
    r"\W|and|or)"
)
_MIXED = re.compile(
    r"\b(?:partly|partially|somewhat|half(?: of (?:it|the)|[- ]?(?:true|truth|correct|right))|"
    r"first (?:half|part|statement|claim|number|sentence) .{0,200}(?:first|second|other|rest)|"
    r"mixed|mixture|mix of|(?<!not )(?<!never )disputed(?! by)|depends|depending|(?:may|"
    r"might) or (?:may|might) not|neither (?:\w+ ){0,3}(?:tru|correct|accurat|support|confirm|"
    r"prove|entail)\w* nor (?:\w+ )?(?:fals|incorrect|inaccurat|refut|den[iy]|dispro|debunk|"
    r"contradict)\w*|(?:correct|accurate|right|supported|confirmed|verified) (?:or|nor|"
    r"and) (?:incorrect|inaccurate|wrong|false|refuted|ruled|not)|open question|undetermined|"
    r"inconclusive|unproven|unverified|unverifiable|unclear|uncertain|unknown|debatable|"
    r"to some extent|yes and no|(?:not|\w+n't|no|without)(?: yet| really)?(?: \w+)? (?:enough|"
    r"sufficient) (?:\w+ )?(?:evidence|info\w*|data|details?|context|proof|support)|not enough|"
    r"isn't enough|insufficient (?:evidence|info\w*|data)|(?:say|are|is) both|in part|"
    r"(?:scientists|experts|researchers|studies|sources|opinions) (?:disagree|differ|are divided)|"
    r"(?:cannot|can't|could not|couldn't|unable to|not able to|impossible to|hard to|difficult to|"
    r"no way to|don't know) (?:be )?(?:verif\w+|determin\w+|say\b(?! (?:that|it|this))|tell|"
    r"confirm\w*|judge|assess|decide|establish\w*|know|if|whether|yet)|still (?:being )?debat\w+|"
    r"true (?:and|or|nor) false|false (?:and|or|nor) true|(?:support|confirm|entail|prove)s? (?:or|"
    r"nor) (?:refute|contradict|disprove|deny|denie)s?|conflicting (?:evidence|results|findings)|"
    r"(?:in )?some\b[^.;!?\n]{3,200}\bothers?)\b"
)
_BOTH = re.compile(
    r"\bsome\b[^.;!?\n]{3,200}\bothers?\b[^.;!?\n]*|\byes\b[^.;!?\n]*\bno (?:for|in)\b|\b(?:true|"
    r"correct|right|accurate) (?:for|in|of|when|if)\b[^.;!?\n]*\b(?:but|and) (?:\w+ )?(?:false|not|"
    r"incorrect|wrong) (?:for|in|of|when|if)\b[^.;!?\n]*"
)
_FINAL = re.compile(r"\b(?:final|conclusion|in the end|ultimately)\b")
_MARK = re.compile(
    r"(?:\W*(?:(?:and )?(?:so|therefore|thus|hence|overall|consequently)\b|in (?:conclusion|"
    r"summary|short)\b|i(?:'d| would) (?:say|answer|go with)\b|(?:no,? )?wait\b|"
    r"on second thought\b|(?:the |my |final |correct |short )*(?:answer|verdict|label|conclusion|"
    r"rating|prediction|assessment|judge?ment|classification)\b))+"
)
_NEGATOR = (
    r"(?:cannot|can't|don't|do not|wouldn't|would not|couldn't|could not) (?:agree(?= that)|concur|"
    r"say|call)|reverse|opposite|neither|nor|not|never|no(?! doubt| question| error| mistake)|"
    r"hardly|barely|scarcely|cannot|nothing|nobody|without|lack(?:s|ed|ing)?|fail(?:s|ed)? to|"
    r"far from|anything but|little(?! doubt)|scant|zero|none|i (?:\w+ )?doubt|(?:wrong|mistake|"
    r"incorrect|false|inaccurate) to (?:say|call|claim|reject|deny|"
    rf"dismiss)(?=[^.;!?]*\b(?:{_ADJECTIVE}|this|it)\b)|(?:unlikely|doubtful|improbable)(?= to be|"
    rf" that (?:it|this|the \w+) "
    r"(?:is|was))|rather than|instead of|\w+n't"
)
_POSITIVE = (
    r"true|correct|accurate|valid|factual|support(?:s|ed|ing|ive)?|confirm(?:s|ed|ing)?|verified|"
    r"the case|holds?(?: up| water| true| weight)?\b(?= *(?:$|[.,;!)]|up|water|true|in|under))|"
    r"well[- ](?:established|documented|known|supported)|(?:that|this|it) is so(?= *(?:$|[.,;!]))|"
    r"match(?:es|ed)?(?= (?:the|what|our))|substantiated|legit(?:imate)?|agreed?|agrees with|"
    r"follows from|in favou?r of|concur|reflects?(?= the)|exactly (?:what|as)|no (?:error|mistake|"
    r"inaccurac)\w*|consistent with|in (?:line|agreement|accordance) with|aligns? with|back(?:s|"
    r"ed)(?: up)?|(?:back|bear)s? (?:this|that|it|the \w+) (?:up|out)|"
    r"proven(?! (?:to be )?(?:wrong|false|untrue|incorrect))|truthful|factually sound|"
    r"an? (?:[\w-]+ )?fact|(?:strong|ample|good|clear|solid|overwhelming|extensive|robust|"
    r"plenty of|abundant) (?:\w+ )?(?:evidence|support|proof)|checks? out|spot on|stands?(?= up|"
    r" to)|b(?:ears|orne) out|corroborat(?:es?|ed)|affirm(?:s|ed|ative)?|entail(?:s|ed|ment)|"
    r"(?:that's|that is|you're|you are|quite|is|be|\w+ly) right"
)
_NEGATIVE = (
    r"false|untrue|incorrect|inaccurate|erroneous|mistaken|myths?|misconception|debunked|unfounded|"
    r"baseless|refut(?:es?|ed|ing)|disprov(?:es?|ed|en)|disputes?|disputed by|contradict(?:s|ed|"
    r"ory)?|falsehood|fallacy|hoax|fiction|fabricated|an? (?:\w+ )?lie|pseudoscience|unsupported|"
    r"unsubstantiated|disagree|implausible|wrong|bogus|bunk|nonsense|absurd|rubbish|invalid|"
    r"discredited|reject(?:s|ed)?|deny|urban legend|old wives' tale|conspiracy theory|"
    r"pants[- ](?:on )?fire|fake|made[- ]up|inconsistent with|contradictions?|misinformation|"
    r"disinformation|(?:claim|statement) (?:fails|falls apart|"
    rf"collapses)|wide of the mark|in error|ruled out|contrary to (?:the |all |current )?{_SOURCE}|"
    rf"(?:is|are) (?:way "
    r")?off(?= *(?:$|[.,:;]|by))|unlikely|doubtful|improbable|barely[- ]true"
)
_PHRASE = (
    r"(?:nothing|couldn't|could not|cannot|can't)(?: could)?(?: be)? (?:further|"
    r"farther) from (?:the truth|true|reality)|barely[- ]true|(?:no|without) (?:\w+ )?(?:merit|"
    r"foundation|substance)|supports? the (?:opposite|contrary|reverse)"
)
_WEAK = (
    r"misleading|deceptive|(?:misrepresent|misstate|overstate|exaggerate|confuse|conflate|distort|"
    r"mischaracteri[sz]e)[sd]?"
)
_JUDGMENT = re.compile(
    rf"\b(?:(?P<phrase>{_PHRASE})|(?P<negator>{_NEGATOR})|(?P<positive>{_POSITIVE})|"
    rf"(?P<negative>{_NEGATIVE})|(?P<weak>{_WEAK}))\b"
)
_REACH = 60
"""Number of characters within which a negation applies to a later judgment in the same clause."""
_SUBJECT = re.compile(
    rf"^ *(?:is|was|has|does|must|can)\b|\b(?:{_NOUN}|it|(?:this|that|these)(?: (?:one|claim|is|"
    rf"was|isn't|would|has|appears|"
    r"seems|can|cannot|does|should|must|\w+ly)\b|'s| *$)|this\W*$|i (?:(?:would|must|strongly|"
    r"fully|have to) )*(?:rate|classify|label|agree|disagree|consider|call|say|think|believe))\b|"
    r"\bi'd\b"
)
_REASON = re.compile(r"\W*(?:because|since)\b")
_CONTENT_BEHIND = re.compile(r" (?:that|to)\b")
_OBJECT = re.compile(rf" (?:\w+ ){{0,2}}(?:this\W*$|{_NOUN}\b)")
_FILLER = re.compile(
    r"\b(?:(?:the|this|that|my|final|short|as|a|an|given|written|is|'s|are|was|be|it|as|of|to|in|"
    r"and|so|therefore|thus|hence|answer|verdict|label|statement|claim|i|i'd|would|say|rate|we|"
    r"classify|think|believe|option|one|well|indeed|fact|[a-d]|[12]|\w+ly|that's|it's|very|quite|"
    r"most|here|scientifically|can|should|must|considered|appears?|seems?|pants|on|fire|"
    rf"{_NOUN}|overall|conclusion|short|in)\b)|[^\w]"
)
_YES = re.compile(
    r"\W*(?:yes|yep|yeah|yup|indeed|fact(?=\W*$|[.,!])|i (?:believe|think|'d say|would say) so|"
    r"absolutely|certainly|exactly|definitely|sure|right|of course|without a doubt|undoubtedly|"
    r"no doubt|(?:it|they|he|she|this|that) (?:is|does|do|did|was|are|were|has|can|will)\W*$)(?=\W|"
    r"$)(?! not\b)"
)
_NO = re.compile(
    r"\W*(?:negative(?=\W*$|[.,!])|no(?=\W*$|\s+\w+\W*$|\s*[,.!;:)–—-]|\s+(?:it|this|that|the|"
    r"there|i|not|way)\b)|nope|nah|hardly|wrong|not (?:really|quite|at all|exactly|so|even close)|"
    r"quite the (?:opposite|contrary)|far from it|(?:quite )?on the contrary|(?:\w+ly|"
    r"of course) not(?=\W*$|\s*[,.!;:–—-])|actually, (?:no|the opposite|it's the other way)|(?:it|"
    r"they|he|she|this|that|there) (?:is|does|do|did|was|are|were|has|have|can)(?:n't|"
    r" not)\W*$)(?=\W|$)"
)
_ELLIPSIS = re.compile(
    r"\W*(?:it|this|that|they)(?: (?:is|are|does|do|has|have)(?: not|n't)|'s not)\W*|"
    r".*\bsays otherwise\W*"
)
_DENIAL = re.compile(
    r"\b(?:other way|(?:says?|suggests?|shows?|indicates?|tells?) otherwise|far from it|"
    r"contrary to|never|no such|despite what|the (?:exact |very |direct )?(?:opposite|reverse)|"
    r"not what|i (?:\w+ )?doubt|gets? (?:it|this|the \w+) backwards?|(?:no|zero|little|scant|"
    r"any) (?:\w+ ){0,3}(?:evidence|study|studies|proof|basis|support|truth|data)|nothing (?:to|"
    r"in) (?:it|this|that)|no (?:\w+ )?(?:link|connection|association|relationship) between|"
    r"(?:did not|didn't|doesn't|does not) (?:happen|occur|take place|exist)|(?:it|this|that|they|"
    r"he|she) (?:(?:is|does|did|do|was) not|(?:is|does|did|do|was)n't)(?= *(?:$|[.!]))|"
    r"i (?:(?:would|do) not|don't|wouldn't) (?:say|think|believe))\b|^\W*actually,"
)
_UNSURE = re.compile(
    r"\b(?:i|i'm|we) (?:\w+ )?(?:not (?:\S+ )?(?:sure|certain)|(?:can't|cannot|do not|don't|unable|"
    r"lack)\b(?! (?:think|believe|say|agree)))|\bunsure\b"
)
_AFFIRMATION = re.compile(
    r"\b(?:(?:no|little) (?:doubt|question)|without (?:a )?doubt|undoubtedly|undeniabl[ey]|"
    r"(?:cannot|can't) be (?:denied|disputed|doubted)|unquestionably|(?:not|never) disputed|"
    r"beyond (?:any )?dispute)\b"
)
_LABEL = re.compile(
    r"\W*(?:(?:final|my|the|short|long|correct|here is my|great|in) )*(?:answer|a|verdict|label|"
    r"conclusion|response|rating|assessment|explanation|reason(?:ing)?|sure|okay|short|summary|"
    r"question|hello)?\W*"
)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])\s+|[\n;]+|\s[–—-]+\s|—|:(?=\s|$)|\bbut\b|\bhowever\b|\byet\b"
)
_CLAUSE_END = re.compile(
    r",(?! (?:in fact|indeed|actually|of course),?)|\band\b(?! (?:no|not))|(?=\b(?:so|therefore|"
    r"thus|hence) (?:the|this|it|that|i|my|we)\b)|(?=\b(?:because|since)\b)|\bwhich\b"
)


_MOST_CHARACTERS = 2000
"""Number of characters read at each end of a reply; repetitive ones may have a hundred thousand."""


def cut_middle(reply: str) -> str:
    """Return a reply without the middle of a long one: verdicts are at its beginning or its end."""
    is_long = len(reply) > 2 * _MOST_CHARACTERS
    return f"{reply[:_MOST_CHARACTERS]}\n{reply[-_MOST_CHARACTERS:]}" if is_long else reply


def parse_claim(reply: str) -> bool | None:
    """Return whether a reply says that a claim is true, or None if it says neither, both, or part.

    Of the verdicts in a reply, the highest-ranked ones count: first a sentence that is only a
    verdict, or that begins with "answer" or "therefore"; then a sentence about the claim; then a
    leading yes or no; then any word such as "correct" or "a myth"; at last phrases such as "no
    evidence". Negations turn a verdict round. Concessions ("although many think that it is true"),
    conditions, questions and quotations do not count. Verdicts of one rank must agree, unless the
    last is final.
    """
    reply = cut_middle(extract_final_text(reply))
    if match := _JSON_VERDICT.search(reply):
        holds = match[2].lower().startswith(("true", "yes", "support", "correct", "entail"))
        return holds != ((match[1] or "").lower() == "not ")
    text = reply.strip()
    next_claim = _NEXT_CLAIM.search(text)
    ranked_verdicts = _rank_verdicts(text[: next_claim.start()] if next_claim else text)
    if not ranked_verdicts and next_claim:
        ranked_verdicts = _rank_verdicts(text[next_claim.start() :])
    highest = min(max((rank for rank, _ in ranked_verdicts), default=0), _MARKED)
    best = [(rank, verdict) for rank, verdict in ranked_verdicts if rank >= highest]
    is_clear = len({verdict for _, verdict in best}) == 1 or (best and best[-1][0] == _FINAL_RANK)
    return best[-1][1] if is_clear else None


_FINAL_RANK, _MARKED, _EXPLICIT, _LEADING, _ANYWHERE, _IMPLIED = 6, 5, 4, 3, 2, 1
"""Ranks of verdicts."""


def _rank_verdicts(reply: str) -> list[tuple[int, bool | None]]:
    """Return a reply's verdicts in order, with ranks; None means neither, both, or part."""
    sentences = [
        sentence
        for sentence in _SENTENCE_END.split(_prepare(reply))
        if sentence and sentence.strip()
    ]
    sentences = [
        sentence
        for sentence in sentences
        if not _LABEL.fullmatch(sentence) or _MARK.match(sentence)
    ]
    ranked_verdicts: list[tuple[int, bool | None]] = []
    label, is_first = "", True
    conceded = [
        verdict
        for match in CONCESSION.finditer(reply.lower())
        for *_, verdict in _iter_judgments(match[0])
    ]
    denied = set(conceded) == {False}
    for sentence in sentences:
        if _LABEL.fullmatch(sentence):
            label = sentence
            continue
        if _ELLIPSIS.fullmatch(sentence):
            ranked_verdicts.append((_LEADING, denied))
        else:
            ranked_verdicts += _rank_sentence(
                f"{label} {sentence}" if label else sentence, is_first=is_first
            )
        label, is_first = "", False
    content = _CONTENT.sub(r"\1", reply.replace("’", "'").lower())
    if not ranked_verdicts and not _UNSURE.search(content) and _DENIAL.search(content):
        return [(_IMPLIED, denied)]
    return ranked_verdicts or ([(_IMPLIED, True)] if _AFFIRMATION.search(reply.lower()) else [])


def _rank_sentence(sentence: str, *, is_first: bool) -> Iterator[tuple[int, bool | None]]:
    """Yield the verdicts of a sentence with their ranks."""
    mark = _MARK.match(sentence)
    rest = re.sub(
        r"^\W*(?:is\b|would be\b|\w+ly,|(?:\w+ ){0,2}\w+, (?=(?:yes|no)\b))?\W*",
        "",
        sentence[mark.end() if mark else 0 :],
    )
    mark_rank = _FINAL_RANK if mark and _FINAL.search(mark[0]) else _MARKED
    if _MIXED.search(sentence):
        is_bare = len(_FILLER.sub("", _MIXED.sub("", sentence))) < 5
        yield mark_rank if mark or is_bare else _EXPLICIT, None
        return
    judgments = list(_iter_judgments(sentence))
    if answer := _NO.match(rest) or _YES.match(rest):
        is_alone = not rest[answer.end() :].strip(" .!")
        if (is_first or is_alone or mark) and not (is_alone and judgments):
            yield mark_rank if mark else _LEADING, _NO.match(rest) is None
    is_bare = not _FILLER.sub("", _JUDGMENT.sub("", sentence))
    for before, match, verdict in judgments:
        if match["weak"] or _REASON.match(before):
            yield _ANYWHERE, verdict
        elif is_bare or mark or _MARK.match(before):
            yield mark_rank, verdict
        elif _OBJECT.match(match.string, match.end()) or (
            _SUBJECT.search(before) and not _CONTENT_BEHIND.match(match.string, match.end())
        ):
            yield _EXPLICIT, verdict
        else:
            yield _ANYWHERE, verdict


def _prepare(reply: str) -> str:
    """Return a reply in lower case without markup, questions, quoted or repeated claims,
    concessions and hedges.
    """
    text = _GIVEN.sub(
        "", _QUOTED.sub("", reply.replace("’", "'").replace("anything but", "far from"))
    )
    text = re.sub(
        r"\btrue or false\s*:", "answer:", _QUESTION.sub(" ", _MARKUP.sub(" ", text)).lower()
    )
    text = re.sub(r"[\"“”()\[\]]", " ", re.sub(r"\(([^()]+ [^()]+ [^()]+)\)", r". \1. ", text))
    text = _BOTH.sub("mixed", text)
    text = _CONDITIONAL.sub(" depends ", text)
    text = _HEDGE.sub(" ", CONCESSION.sub(" ", _ATTRIBUTE.sub(" the ", text)))
    return _CONTENT.sub(lambda match: f"{match[1] or match[2]} ", text)


def _iter_judgments(sentence: str) -> Iterator[tuple[str, re.Match[str], bool]]:
    """Yield the clause before each judgment, the judgment, and its verdict with prior negations."""
    for clause in _CLAUSE_END.split(sentence):
        negations: list[int] = []
        for match in _JUDGMENT.finditer(clause):
            if match["negator"]:
                if match["negator"] == "nor" and negations:
                    continue
                negations.append(match.end())
                continue
            own = sum(match.start() - end <= _REACH for end in negations)
            negations = []
            yield clause[: match.start()], match, (match["positive"] is not None) != bool(own % 2)
