"""Contexts whose text was made of others."""

from collections.abc import Sequence

from winnow.records import Context, Passage, Question
from winnow.text.containment import has_answers


def derive_context(
    question: Question, contexts: Sequence[Context], text: str, title: str = ""
) -> Context:
    """Return a context with a text that was made of other contexts.

    It has the scores and the weight of the first of them, names all as its sources, and is gold if
    one of them is. A text of one context keeps its id.

    Args:
        question: Question, for whose answers the text is searched.
        contexts: Contexts that the text was made of.
        text: Text of the passage.
        title: Title of the passage.
    """
    first = contexts[0]
    sources = tuple(dict.fromkeys(context.passage.passage_id for context in contexts))
    return Context(
        Passage("+".join(sources), title, text, sources),
        first.rank,
        first.score,
        has_answer=has_answers([text], question.answers)[0],
        is_gold=any(context.is_gold for context in contexts),
        log_odds=first.log_odds,
        log_weight=first.log_weight,
    )
