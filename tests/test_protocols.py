"""Engines by kind of request and role."""

import pytest

from winnow.errors import ConfigError
from winnow.protocols import build_engine_map
from winnow.requests import Estimate, FusedGenerate, Generate, Likelihood, Search
from winnow.testing import ScriptedReader, make_search


def test_an_engine_serves_its_kinds_in_the_given_roles() -> None:
    """Without roles, each kind has its own: searches "search", estimates "estimator", texts
    "reader".
    """
    search, reader = make_search(lambda _: []), ScriptedReader()
    assert build_engine_map(search) == {(Search, "search"): search}
    assert build_engine_map(search, "corpus", "search") == {
        (Search, "corpus"): search,
        (Search, "search"): search,
    }
    kinds = set(reader.serves)
    assert set(build_engine_map(reader)) == {
        (kind, "estimator" if kind is Estimate else "reader") for kind in kinds
    }
    assert set(build_engine_map(reader, "judge")) == {(kind, "judge") for kind in kinds}
    assert kinds <= {Generate, FusedGenerate, Likelihood, Estimate}


def test_a_class_that_lacks_a_member_is_no_engine() -> None:
    """The message names what is missing, such as a member that is spelled otherwise."""

    class Misspelled:
        serves = (Generate,)
        identity = "x"

        def submits(self) -> None:
            """Not a member."""

    with pytest.raises(ConfigError, match=r"it lacks .*submit"):
        build_engine_map(Misspelled())  # type: ignore[arg-type]
