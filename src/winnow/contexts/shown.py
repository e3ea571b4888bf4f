"""The contexts that the prompts of a question showed, from the recorded steps.

A strategy may show what was placed, parts of it, or passages that it searched for. Each becomes a
context with the flags by which metrics ask for it: a text that was placed or retrieved keeps the
context's own; of any other text, `has_answer` is computed, and it is gold if it, or a passage that
it was made of, is a gold passage.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from winnow.metrics.base import Shown
from winnow.records import Context, Passage, Question
from winnow.steps import Step
from winnow.text.containment import has_answers


def build_shown(
    question: Question, steps: Sequence[Step], used: Sequence[Passage], known: Iterable[Context]
) -> Shown | None:
    """Return the contexts of all reader prompts, of the prompt behind the reply, and of each round.

    Nothing is known of what was shown, and the result is None, if there is neither a prompt of the
    reader nor a passage that the answer names, as for answers of another system, or if a model of
    another role wrote the answer.

    Args:
        question: Question with its accepted answers.
        steps: Steps of the question.
        used: Passages that the strategy says led to the reply, among those that a prompt showed.
            Without any, the last prompt did for which a reply was written, or scored if none was
            written.
        known: Contexts of the question, placed and retrieved, with gold passages marked.
    """
    by_id = {context.passage.passage_id: context for context in known}
    prompts = [step for step in steps if step.is_prompt]
    if not prompts and not used:
        return None
    generation_prompts = [step for step in prompts if step.kind == "generate"]
    shown_passages = dict.fromkeys(passage for prompt in prompts for passage in prompt.passages)
    named_passages = tuple(passage for passage in used if passage in shown_passages or not prompts)
    last = named_passages or (generation_prompts or prompts)[-1].passages
    passages = list(dict.fromkeys([*shown_passages, *last]))
    contexts = dict(zip(passages, _build_contexts(question, passages, by_id), strict=True))
    rounds: dict[int, dict[Passage, None]] = {}
    for prompt in prompts:
        rounds.setdefault(prompt.round, {}).update(dict.fromkeys(prompt.passages))
    return Shown(
        tuple(contexts[passage] for passage in shown_passages),
        tuple(contexts[passage] for passage in last),
        tuple(tuple(contexts[passage] for passage in one) for one in rounds.values()),
        tuple(
            step.query for step in steps for _ in range(step.calls if step.kind == "search" else 0)
        ),
    )


def _build_contexts(
    question: Question, passages: Sequence[Passage], known: Mapping[str, Context]
) -> list[Context]:
    """Return a context of each passage."""
    new = [passage for passage in passages if not _is_known(passage, known)]
    answer_flags = (
        dict(
            zip(new, has_answers([passage.text for passage in new], question.answers), strict=True)
        )
        if new
        else {}
    )
    return [
        (
            _build_context(question, passage, known, has_answer=answer_flags[passage])
            if passage in answer_flags
            else known[passage.passage_id]
        )
        for passage in passages
    ]


def _is_known(passage: Passage, known: Mapping[str, Context]) -> bool:
    return passage.passage_id in known and known[passage.passage_id].passage == passage


def _build_context(
    question: Question, passage: Passage, known: Mapping[str, Context], *, has_answer: bool
) -> Context:
    """Return the context of a text that was neither placed nor retrieved as it is."""
    origins = [known[name] for name in (passage.passage_id, *passage.sources) if name in known]
    is_annotated = not {passage.passage_id, *passage.sources}.isdisjoint(question.gold_passage_ids)
    is_gold = is_annotated or any(origin.is_gold for origin in origins)
    if origins:
        return replace(origins[0], passage=passage, has_answer=has_answer, is_gold=is_gold)
    return Context(passage, 0, None, has_answer, is_gold)
