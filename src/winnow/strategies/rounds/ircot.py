"""IRCoT (Trivedi et al. 2023): a chain of thought that searches for each sentence in turn."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.values import Template, check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generation, Plan, TooLong
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.chains import (
    build_chain_request,
    extract_chain_text,
    find_answer,
    find_first_sentence,
    find_stop,
)
from winnow.strategies.rounds.searching import Found, build_contexts, search
from winnow.strategies.sampling import get_shown
from winnow.strategies.unknown import build_answer
from winnow.strategies.vote import Vote

AnswerBy = Literal["reader", "chain"]
_CONCLUSIONS = ("thus ", "thus,", "so ", "so,", "that is,", "therefore", "hence")
"""Beginnings of sentences that state no new fact and are not searched for."""
_ARITHMETIC = re.compile(r".*\d[\d,.]* [+-] \d[\d,.]* = \d")
_QUESTION_WORDS = frozenset({"who", "what", "when", "where", "why", "which", "how", "does", "is"})
"""Words that are left out of queries."""


@dataclass(frozen=True, slots=True)
class Ircot:
    """A strategy that writes a chain of thought sentence by sentence and searches for each one.

    The prompt of a round shows all passages so far. Of its reply, the first sentence joins the
    chain. Rules and limits follow the authors' code: a sentence is searched for without
    question words, one that concludes or computes is skipped, and the chain ends with "answer is".
    It also ends where its prompt exceeds the context length with a single passage. Sentences are
    divided by a rule, not by spaCy, and passages are not cut to 350 words.

    Args:
        prompt: Templates of the prompt of the final reader, and of a passage.
        decoding: Generation settings of the final reader; those of the sentences have its
            temperature and seed.
        template: Prompt of a sentence, with the fields {contexts}, {question} and {thoughts}, the
            chain so far.
        n: Number of passages that each search gives.
        max_sentences: Maximum number of sentences.
        max_passages: Number of passages in a prompt from which on nothing more is searched for.
        max_new_tokens: Maximum number of tokens of a sentence.
        answer_by: What gives the answer: "reader" asks with the prompt and all passages (paper,
            section 3.2); "chain" takes what follows "answer is".
        vote: Majority vote of the reader, if the decoding draws several samples.
    """

    revision: ClassVar[int] = 5

    prompt: Prompt
    decoding: Decoding
    template: Annotated[str, Template("contexts", "question", "thoughts")]
    n: Annotated[int, Ge(1)] = 5
    max_sentences: Annotated[int, Ge(1)] = 10
    max_passages: Annotated[int, Ge(1)] = 15
    max_new_tokens: Annotated[int, Ge(1)] = 100
    answer_by: AnswerBy = "reader"
    vote: Vote = Vote()

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        if self.answer_by == "chain" and self.decoding.samples > 1:
            raise ConfigError(
                "strategy.plan.answer_by=chain has one chain, on which samples cannot vote; "
                f"received decoding.samples={self.decoding.samples}. Use answer_by=reader or "
                "decoding.samples=1."
            )

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a sentence in each round, and then the answer."""
        shown_passages: tuple[Passage, ...] = ()
        known_contexts = list(contexts)
        decoding = replace(
            self.decoding, max_new_tokens=self.max_new_tokens, samples=1, stop=("\n",)
        )
        chain: list[str] = []
        trace: list[str] = []
        stop = ""
        while not stop:
            reply: Generation | TooLong
            request = build_chain_request(
                self.prompt,
                self.template,
                question,
                known_contexts,
                " ".join(chain),
                decoding,
            )
            (reply,) = yield [request]
            if isinstance(reply, TooLong):
                stop = "prompt too long"
                break
            shown_passages = get_shown(request, reply)
            sentence = find_first_sentence(extract_chain_text(reply))
            chain += [sentence] if sentence else []
            stop = find_stop(sentence, is_last=len(chain) == self.max_sentences)
            if not stop and len(known_contexts) < self.max_passages:
                query = write_query(question, chain)
                pages = yield from search(query, self.n)
                trace.append(f"query: {query}" + (f" ({pages.problem})" if pages.problem else ""))
                self._add(known_contexts, pages)
        if self.answer_by == "chain":
            text = find_answer(chain[-1]) if chain else None
            return build_answer(text, shown_passages, " ".join(chain), trace, stop)
        answer = yield from Concatenation(self.prompt, self.decoding, self.vote).plan(
            question, known_contexts
        )
        return replace(
            answer, trace=(*trace, f"chain: {' '.join(chain)}", *answer.trace), stop=stop
        )

    def _add(self, known: list[Context], found: Found) -> None:
        """Add passages that are new, as far as there is room, ranked behind those that
        are known. Several placed contexts may be parts of one passage.
        """
        ids = {context.passage.passage_id for context in known}
        last = max([len(known), *(context.rank for context in known)])
        new: dict[str, Context] = {}
        for context in build_contexts(found, last + 1):
            if context.passage.passage_id not in ids:
                new.setdefault(context.passage.passage_id, context)
        known += list(new.values())[: max(0, self.max_passages - len(known))]


def write_query(question: Question, chain: Sequence[str]) -> str:
    """Return the last sentence that states a fact, or the question, without question words."""
    facts = [sentence for sentence in chain if not _is_conclusion(sentence)]
    words = (facts[-1] if facts else question.text).split()
    return " ".join(word for word in words if word.lower() not in _QUESTION_WORDS) or question.text


def _is_conclusion(sentence: str) -> bool:
    return sentence.lower().startswith(_CONCLUSIONS) or _ARITHMETIC.match(sentence) is not None
