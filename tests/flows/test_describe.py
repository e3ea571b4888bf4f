"""`--help group=choice`: the settings of a choice, from the annotations that keys and
checks read.
"""

from flows.settings.description import format_choices
from winnow.identity.markers import describe_parameters
from winnow.retrievers.dense import Dense
from winnow.strategies.vote import Vote


def test_a_choice_is_explained_by_the_annotations_of_its_classes() -> None:
    """Type, range, value and what a marker says; of nested components too."""
    lines = format_choices(["retriever=dense", "dataset=jsonl"]).splitlines()
    assert "retriever=dense:" in lines
    why = "on a GPU, only scores equal but for rounding change places"
    gpu = f"    retriever.engine.gpu: bool = False  (does not affect results: {why})"
    assert gpu in lines
    assert any(
        line.startswith(
            "  retriever.engine.encoder (winnow.modeling.sentence_encoder.SentenceEncoder)"
        )
        for line in lines
    )
    assert any(
        line.startswith("    dataset.parser.path: str") and line.endswith("content counts)")
        for line in lines
    )
    assert any(line.startswith("    dataset.split.seed: int, at least 0") for line in lines)
    assert format_choices([]) == ""


def test_types_read_as_values_are_written() -> None:
    """Words in quotes, alternatives with "or"; private parameters are left out."""
    described = {name: kind for name, kind, _ in describe_parameters(Vote)}
    assert described == {"ties": "'rank' or 'random'", "unknown_votes": "bool", "seed": "int"}
    assert (
        "nprobe",
        "int, at least 1",
        "only searches use it, so that the index is shared",
    ) in describe_parameters(Dense)
