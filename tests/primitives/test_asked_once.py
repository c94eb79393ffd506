"""`timeout=0` asks once, and its error does not tell of a wait."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py import AcquireTimeoutError, QuorumError
from tests.fixtures.client import ClientFactory


async def test_the_error_of_a_call_that_did_not_wait_says_what_is_so(
    clients: ClientFactory,
) -> None:
    client, other = clients(), clients()
    both = client.get_read_write_lock("rw")
    async with other.get_lock("k"), other.get_read_write_lock("rw").write_lock():
        async with other.get_semaphore("semaphore", 1), other.get_fair_lock("f"):
            cases: list[tuple[Any, str]] = [
                (client.get_lock("k"), "lock 'k' is busy"),
                (client.get_fair_lock("f"), "fair lock 'f' is busy"),
                (both.read_lock(), "read lock 'rw' is busy"),
                (both.write_lock(), "write lock 'rw' is busy"),
                (client.get_multi_lock(client.get_lock("k")), "multi lock 'k' is busy"),
                (client.get_semaphore("semaphore"), "semaphore 'semaphore' is busy: no permit was"),
                (
                    client.get_semaphore("semaphore-2"),
                    "semaphore 'semaphore-2' does not exist, so no permit became free. Call ",
                ),
            ]
            for made, text in cases:
                with pytest.raises(AcquireTimeoutError) as busy:
                    await made.acquire(timeout=0)
                assert str(busy.value).startswith(text)
                assert " 0 s" not in str(busy.value)
                with pytest.raises(AcquireTimeoutError) as held:
                    async with made.hold(timeout=0):
                        pytest.fail("it was busy")
                assert str(held.value) == str(busy.value)
            with pytest.raises(QuorumError) as quorum:
                await client.get_red_lock(client.get_lock("k")).acquire(timeout=0)
            assert " 0 s" not in str(quorum.value)
    for waited, text in (
        (client.get_latch("l", 1).wait, "latch 'l' was not open"),
        (client.get_barrier("b", 2).wait, "barrier 'b': not all 2 parties arrived"),
    ):
        with pytest.raises(AcquireTimeoutError) as late:
            await waited(timeout=0)
        assert str(late.value).endswith(text)
    await client.get_latch("l").delete()
