"""Labels of cells say what was run."""

import pytest

from flows.project.labels import _name_placement
from flows.settings.door import compose


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["placement=gold_random", "placement.rule.seed=3"], "gold_random"),
        (["placement=gold_first", "placement.rule.order=last"], "gold_last"),
        (["placement.rule.order=reversed"], "reversed"),
        (["placement=gold_inserted", "placement.rule.order=shuffled"], "shuffled"),
        (["placement=gold_at", "placement.rule.order=3"], "gold_at_3"),
        (["placement=gold_first", "placement.rule.order=3"], "gold_at_3"),
        (["placement=damaged", "placement.rule.share=0.25"], "damaged_0.25"),
        (["placement.rule.order=first"], "retrieved_order_first"),
        (["placement=gold_at", "placement.name=mine", "placement.rule.order=3"], "mine_3"),
        (["placement=damaged", "placement.name=mine"], "mine_0.5"),
        (["placement=gold_first", "placement.name=mine"], "mine"),
        (["placement=counterfactual", "placement.rule.order=last"], "counterfactual_order_last"),
    ],
)
def test_a_placement_has_the_name_of_its_rule(words: list[str], name: str) -> None:
    """Not that of the option whose settings an override changed."""
    assert _name_placement(compose(words)) == name
