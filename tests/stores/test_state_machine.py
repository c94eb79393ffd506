"""Random lifecycles of locks over every store, checked from outside after every step.

Those of `tests/lifecycle/`, but that the memory of the server is never full, and that no bytes of a
broken connection arrive late: what a lost reply leaves is on the way to the server by itself.
"""

from __future__ import annotations

import pytest

from tests.lifecycle.play import Play
from tests.lifecycle.running import run_plays
from tests.stores import read_write_support
from tests.stores.backends import BACKENDS, Backend
from tests.stores.store_lifecycles import SidesSubject, StoreSubject, StoreSurroundings

EXAMPLES = 30
STORES = [name for name in BACKENDS if name != "redis"]
#: Seconds: etcd says whole ones.
PRECISION = {"etcd": 1.0}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", STORES, indirect=True)
@pytest.mark.parametrize("fenced", [False, True], ids=["lock", "fenced_lock"])
def test_no_lifecycle_breaks_an_invariant(
    backend: Backend, fenced: bool, request: pytest.FixtureRequest
) -> None:
    store = request.node.callspec.params["backend"]
    subject = StoreSubject(
        fenced=fenced, ends_leases=backend.ends_leases, precision=PRECISION.get(store, 0.0)
    )

    def make() -> Play:
        return Play(subject, StoreSurroundings(backend, subject))

    run_plays(make, examples=EXAMPLES, number=18 + fenced, shrink=False)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", read_write_support.STORES, indirect=True)
def test_no_lifecycle_of_a_read_write_lock_breaks_an_invariant(backend: Backend) -> None:
    subject = SidesSubject()

    def make() -> Play:
        return Play(subject, StoreSurroundings(backend, subject))

    run_plays(make, examples=EXAMPLES, number=20, shrink=False)
