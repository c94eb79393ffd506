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
#: The stores that have each, in the order of the seeds.
PLAYED = {"lock": STORES, "fenced_lock": STORES, "read_write_lock": read_write_support.STORES}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("played", "backend"),
    [(played, store) for played, stores in PLAYED.items() for store in stores],
    indirect=["backend"],
)
def test_no_lifecycle_breaks_an_invariant(backend: Backend, played: str) -> None:
    # The client ends what it holds of a read-write lock, in every store.
    subject = (
        SidesSubject()
        if played == "read_write_lock"
        else StoreSubject(
            fenced=played == "fenced_lock",
            ends_leases=backend.ends_leases,
            precision=backend.precision,
        )
    )

    def make() -> Play:
        return Play(subject, StoreSurroundings(backend, subject))

    run_plays(make, examples=EXAMPLES, number=18 + [*PLAYED].index(played), shrink=False)
