"""What every lock-like thing must satisfy is written once and run over each of them."""

from __future__ import annotations

import pytest

from redisson_py import Redisson
from redisson_py.locks.lock_like import LockLike
from tests.support.exclusive_kinds import KINDS, SINGLE, Kind, MakeLock


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A kind of lock-like thing."""
    return KINDS[request.param]


@pytest.fixture
def make_lock(kind: Kind) -> MakeLock:
    """Make a lock of this kind: `make_lock(client, "name")`."""
    return kind.make


@pytest.fixture
def lock(client: Redisson, make_lock: MakeLock) -> LockLike:
    """One lock of this kind."""
    return make_lock(client)


single = pytest.mark.parametrize("kind", SINGLE.values(), ids=SINGLE)
"""For tests that look at the owner in Redis."""


def _reentrant(kinds: dict[str, Kind]) -> pytest.MarkDecorator:
    names = [name for name, kind in kinds.items() if kind.reentrant]
    return pytest.mark.parametrize("kind", [kinds[name] for name in names], ids=names)


reentrant, single_reentrant = _reentrant(KINDS), _reentrant(SINGLE)
"""For tests that enter it again."""

passing = pytest.mark.parametrize(
    "kind",
    [kind for kind in SINGLE.values() if kind.passes],
    ids=[name for name, kind in SINGLE.items() if kind.passes],
)
"""For tests of what is passed from task to task."""
