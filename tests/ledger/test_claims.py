"""Claims: of a process that has ended on this host, of one elsewhere, and of names that are none."""

import os
import socket

import pytest

from winnow.ledger.claims import has_lapsed, make_owner


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_claim_of_this_process_holds_whatever_its_lease(is_shared: bool) -> None:
    """The process lives; one with its id that started at another time has ended."""
    owner = make_owner(is_shared=is_shared)
    assert not has_lapsed(owner, expires=0.0, now=1.0)
    host, pid, start, number = owner.rsplit(":", 3)
    assert has_lapsed(f"{host}:{pid}:{start}9:{number}", expires=2.0, now=1.0)


def test_a_claim_from_elsewhere_holds_until_its_lease_ends() -> None:
    """Also if the host has the same name, but other process ids, as in a container."""
    for host in ("elsewhere", f"{socket.gethostname()}/anotherboot/anotherspace"):
        owner = f"{host}:{os.getpid()}:1:0"
        assert not has_lapsed(owner, expires=2.0, now=1.0)
        assert has_lapsed(owner, expires=0.5, now=1.0)


def test_a_name_that_is_none_has_lapsed() -> None:
    """As a damaged row may contain one."""
    assert has_lapsed("garbage", expires=2.0, now=1.0)


def test_the_stores_of_a_process_have_names_of_their_own() -> None:
    """So that one does not take another's claims."""
    assert len({make_owner(is_shared=is_shared) for is_shared in (False, True, False, True)}) == 4
