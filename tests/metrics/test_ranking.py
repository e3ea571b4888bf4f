"""Functions that other people's scripts call keep their names and arguments."""

from winnow.metrics import answer, citation, ranking


def test_functions_that_scripts_call() -> None:
    """A rename would break them."""
    for function in (answer.exact_match, answer.f1, answer.accuracy):
        assert function("Paris", ["paris"], dialect="squad") == function("Paris", ["paris"]) == 1.0
    assert ranking.has_answer("The city of Paris.", ["paris"])
    assert ranking.has_answers(["Paris", "Rome"], ["paris"]) == [True, False]
    assert (
        citation.score("It is [1] and [3].", [True, False, False], dialect="rage").precision == 0.5
    )
