"""A client whose event loop was blocked goes on as if it had begun anew."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.stores.backends import Backend
from tests.stores.conftest import NewClient

#: Seconds.
SHORT = 2.0


@pytest.mark.parametrize("backend", ["etcd", "zookeeper"], indirect=True)
@pytest.mark.parametrize("leases", [0.5, 1.0, 2.0])
async def test_a_client_that_holds_nothing_is_granted_a_lock_after_a_block(
    new_client: NewClient, backend: Backend, leases: float
) -> None:
    client: Any = new_client(lease_time=SHORT)
    lock = client.get_lock(f"after a block of {leases} leases")
    async with lock:
        pass
    time.sleep(leases * SHORT)  # noqa: ASYNC251  # the fault: it blocks the event loop
    async with lock as lease:
        assert lease.remaining > SHORT / 2
