"""A lease can be handed over to another process, or says that it cannot, and is held on."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py import FairLock, FencedLock, LeaseLostError, RLock
from redisson_py.locks.lock_like import LockLike

pytestmark = pytest.mark.also("cluster")


async def test_it_goes_on_elsewhere_or_stays_here(lock: LockLike, client: Any) -> None:
    async with lock.hold() as lease:
        if isinstance(lock, RLock | FencedLock | FairLock):
            token = await lease.hand_over()
            async with await client.adopt(token, name=lock.name):
                assert await lock.owned()
            assert not await lock.locked()
            return
        with pytest.raises(RuntimeError, match="cannot be handed over"):
            await lease.hand_over()
        lease.check()
        assert lease.remaining > 0
    with pytest.raises((RuntimeError, LeaseLostError)):
        await lease.hand_over()
