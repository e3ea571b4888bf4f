"""FLARE (Jiang et al. 2023): a sentence the model is unsure of is searched for and rewritten."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Lt

from winnow.errors import ReaderError
from winnow.identity.values import Template, check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generation, Plan, TooLong
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.chains import (
    build_chain_request,
    extract_chain_text,
    find_answer,
    find_first_sentence,
    find_stop,
)
from winnow.strategies.rounds.searching import build_contexts, search
from winnow.strategies.sampling import check_one_path, get_shown
from winnow.strategies.unknown import build_answer
from winnow.text.answers import extract_reasoned_answer


@dataclass(frozen=True, slots=True)
class Flare:
    """A chain-of-thought strategy that searches when the next sentence has an improbable token.

    The query is the sentence without its improbable tokens (the paper's implicit query); the
    sentence is then written again with what was found. Threshold, look-ahead, limits and rules are
    those of FlashRAG: a sentence without a probable token is not searched for, and what was found
    serves that sentence alone. A reply ends here at a line break, and the chain with "answer is" or
    an empty sentence, where FlashRAG writes on.

    Args:
        prompt: Templates of a passage and of the system.
        decoding: Generation settings.
        template: Prompt of a sentence, with the fields {contexts}, which are the placed ones or
            those found, {question} and {thoughts}, the chain so far.
        n: Number of passages that each search gives.
        threshold: Probability at or below which a token is improbable.
        look_ahead: Number of tokens from which the next sentence is taken.
        max_sentences: Largest number of sentences.
        max_new_tokens: Number of tokens of the first drafts of all sentences from which no further
            sentence is written.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    template: Annotated[str, Template("contexts", "question", "thoughts")]
    n: Annotated[int, Ge(1)] = 5
    threshold: Annotated[float, Ge(0), Lt(1)] = 0.2
    look_ahead: Annotated[int, Ge(1)] = 64
    max_sentences: Annotated[int, Ge(1)] = 5
    max_new_tokens: Annotated[int, Ge(1)] = 256

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        check_one_path("flare", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a sentence per round, and search for and rewrite one with an improbable token."""
        chain, trace = list[str](), list[str]()
        shown_passages: tuple[Passage, ...] = ()
        num_tokens, stop = 0, ""
        while not stop:
            reply, shown_passages = yield from self._ask(question, contexts, chain, shown_passages)
            if reply is None:
                stop = "prompt too long"
                break
            sentence, tokens = _divide(reply)
            num_tokens += len(tokens)
            query = self._write_query(tokens)
            if query:
                trace.append(f"query: {query}")
                pages = yield from search(query, self.n)
                if pages.passages:
                    reply, shown_passages = yield from self._ask(
                        question, build_contexts(pages), chain, shown_passages
                    )
                    sentence = "" if reply is None else _divide(reply)[0]
            chain += [sentence] if sentence else []
            is_last = len(chain) == self.max_sentences or num_tokens >= self.max_new_tokens
            stop = find_stop(sentence, is_last=is_last) if reply else "prompt too long"
        text = " ".join(chain)
        answer = (find_answer(chain[-1]) if chain else None) or extract_reasoned_answer(text)
        return build_answer(answer, shown_passages, text, trace, stop)

    def _ask(
        self,
        question: Question,
        contexts: Sequence[Context],
        chain: Sequence[str],
        shown: tuple[Passage, ...],
    ) -> Plan[tuple[Generation | None, tuple[Passage, ...]]]:
        """Request a reply (None if the prompt is too long); return it and what was shown last."""
        decoding = replace(
            self.decoding,
            max_new_tokens=self.look_ahead,
            logprobs=True,
            top_logprobs=1,
            stop=("\n",),
        )
        request = build_chain_request(
            self.prompt, self.template, question, contexts, " ".join(chain), decoding
        )
        reply: Generation | TooLong
        (reply,) = yield [request]
        if isinstance(reply, TooLong):
            return None, shown
        if reply.text.strip() and not (reply.logprobs and reply.tokens):
            raise ReaderError(
                "strategy=flare reads the log-probabilities of the reply's tokens, but the reader "
                "returned none. Use a server that supports `top_logprobs`, or a model on this "
                "machine with reader.engine.runtime=torch."
            )
        return reply, get_shown(request, reply)

    def _write_query(self, tokens: Sequence[tuple[str, float]]) -> str:
        """Return the probable tokens of a sentence, or "" if all are probable, or none is."""
        least = math.log(self.threshold) if self.threshold else -math.inf
        probable = [token for token, logprob in tokens if logprob > least]
        return " ".join("".join(probable).split()) if len(probable) < len(tokens) else ""


def _divide(reply: Generation) -> tuple[str, list[tuple[str, float]]]:
    """Return the first sentence of a reply, and its tokens with their log-probabilities.

    Tokens before the sentence, such as those of reasoning, are left out. If texts and tokens do not
    agree, all tokens count.
    """
    final = extract_chain_text(reply)
    sentence, whole = find_first_sentence(final), "".join(reply.tokens)
    first = whole.rfind(final) if final else -1
    start = whole.find(sentence, first) if first >= 0 and sentence else -1
    spans = itertools.pairwise(itertools.accumulate(map(len, reply.tokens), initial=0))
    tokens = [
        (token, logprob)
        for token, logprob, (begin, end) in zip(
            reply.tokens, reply.logprobs or (), spans, strict=False
        )
        if start < 0 or (end > start and begin < start + len(sentence))
    ]
    return sentence, tokens if sentence else []
