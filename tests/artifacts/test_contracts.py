"""The columns of artifacts."""

import pyarrow as pa
import pytest

from winnow.artifacts import contracts
from winnow.artifacts.contracts import Contract

CONTRACTS = [value for value in vars(contracts).values() if isinstance(value, Contract)]


def test_names_differ() -> None:
    """Error messages and manifests name the contract."""
    assert len({contract.name for contract in CONTRACTS}) == len(CONTRACTS) == 11


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_every_row_is_identified(contract: Contract) -> None:
    """By columns that it has and that are never null; only scores, labels, and texts of other
    artifacts, may be missing.
    """
    assert contract.unique_columns
    assert all(not contract.schema.field(name).nullable for name in contract.unique_columns)
    nullable = [field.name for field in contract.schema if field.nullable]
    assert nullable in ([], ["score"], ["title", "text"], ["answerable"])


def test_usage_is_counted_by_role() -> None:
    """Its numbers are as wide as those of a sweep of billions of tokens."""
    usage = contracts.PREDICTIONS.schema.field("usage").type.value_type
    names = [
        "role",
        "calls",
        "tokens_in",
        "tokens_out",
        "seconds",
        "cut",
        "empty",
        "tokens_reasoning",
        "replies",
    ]
    assert [field.name for field in usage] == names
    assert usage.field("tokens_in").type == usage.field("tokens_out").type == pa.int64()
    assert not any(field.nullable for field in usage)
