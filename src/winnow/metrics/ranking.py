"""Public names of the search for answers in passages, which is in `winnow.text.containment`."""

from winnow.text.containment import has_answer, has_answers

__all__ = ["has_answer", "has_answers"]
