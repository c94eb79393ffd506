"""Writers that count as waiting, and readers that yield to them."""

from __future__ import annotations

import pytest

from tests.lua.test_golden_vectors import listening
from tests.support.counting import Counted
from tests.support.scripts.calls import LEASE, A, B, C, ask, everything
from tests.support.scripts.read_write import ReadWriteScripts
from tests.support.waiting import until_async

ALIVE = 10_000
D = "client-d:1"


async def waiting(rw: ReadWriteScripts) -> set[str]:
    """Return the owners of the writers that wait."""
    found: list[bytes] = await ask(rw.redis, "ZRANGE", rw.write.writers, 0, -1)
    return {owner.decode().removesuffix(":write") for owner in found}


async def wait_to_write(rw: ReadWriteScripts, owner: str = B) -> None:
    reply = await rw.write.acquire(owner, waits=ALIVE)
    assert reply is not None
    assert reply > 0
    assert owner in await waiting(rw)


async def is_refused(rw: ReadWriteScripts, owner: str = C) -> bool:
    """Return whether a new reader that yields is refused, and changes nothing."""
    before = await everything(rw.redis)
    reply = await rw.read.acquire(owner, waits=1)
    if reply is None:
        return False
    assert 0 < reply <= ALIVE
    assert await everything(rw.redis) == before
    return True


class TestReaders:
    async def test_a_new_one_yields_and_others_come_in(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A)
        assert not await is_refused(rw, D)
        await wait_to_write(rw)
        assert await is_refused(rw)
        assert await rw.read.acquire(C) is None, "as Redisson's, and ours without the option"

    async def test_it_also_yields_while_the_lock_is_free(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A)
        await wait_to_write(rw)
        await rw.read.release(A)
        assert await is_refused(rw)
        assert await rw.write.acquire(B, waits=ALIVE) is None
        assert await waiting(rw) == set()

    async def test_one_that_is_in_does_not_yield(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A, waits=1)
        await wait_to_write(rw)
        assert await rw.read.acquire(A, waits=1) is None, "its repetition"
        assert await rw.read.acquire(A, 2, waits=1) is None, "its re-entry"
        assert await rw.read.acquire(C, 2, waits=1) == -2, "lost, not busy"

    async def test_a_writer_reads_while_another_waits(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A, waits=ALIVE)
        await wait_to_write(rw)
        assert await rw.read.acquire(A, waits=1) is None

    async def test_it_is_notified_when_the_last_one_is_given_up_for_dead(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.read.acquire(A)
        await rw.write.acquire(B, waits=ALIVE)
        await rw.write.acquire(D, waits=100 * ALIVE)
        reply = await rw.read.acquire(C, waits=1)
        assert reply is not None
        assert 99 * ALIVE < reply <= 100 * ALIVE

    async def test_a_dead_writer_among_living_ones_is_forgotten(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A)
        await rw.write.acquire(B, waits=1)

        async def is_forgotten() -> bool:
            await rw.write.acquire(D, waits=ALIVE)
            return await waiting(rw) == {D}

        await until_async(is_forgotten)
        assert 0 < await rw.redis.pttl(rw.write.writers) <= ALIVE


class TestWriters:
    async def test_asking_again_keeps_it_waiting(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A)
        await rw.write.acquire(B, waits=ALIVE)
        await rw.write.acquire(B, waits=2 * ALIVE)
        await rw.write.acquire(D, waits=1)
        assert ALIVE < await rw.redis.pttl(rw.write.writers) <= 2 * ALIVE
        assert B in await waiting(rw)

    @pytest.mark.parametrize("lease", [LEASE, f"00{LEASE}"], ids=["short way", "long way"])
    async def test_granted_it_waits_no_more(self, rw: ReadWriteScripts, lease: str) -> None:
        await rw.read.acquire(A)
        await wait_to_write(rw)
        await wait_to_write(rw, D)
        await rw.read.release(A)
        assert await rw.write.acquire(B, lease_ms=lease, waits=ALIVE) is None
        assert await waiting(rw) == {D}
        assert await rw.write.acquire(B, lease_ms=lease, waits=ALIVE) is None, "its repetition"
        assert await waiting(rw) == {D}

    @pytest.mark.parametrize("times", [1, 2])
    async def test_an_undo_ends_its_wait_and_wakes_readers(
        self, rw: ReadWriteScripts, times: int
    ) -> None:
        await rw.read.acquire(A)
        await wait_to_write(rw)
        async with listening(rw.redis, rw.channel) as heard:
            for _ in range(times):
                assert await rw.write.undo(B) is None
            assert await heard.heard() == [b"02"]
        assert await waiting(rw) == set()
        assert not await is_refused(rw)

    async def test_late_it_waits_no_more(self, rw: ReadWriteScripts) -> None:
        """A duplicate of its request that comes after the undo must not keep readers out."""
        await rw.read.acquire(A)
        await wait_to_write(rw)
        await rw.write.undo(B)
        assert await rw.write.acquire(B, waits=ALIVE) is not None
        assert await waiting(rw) == set()
        await rw.write.undo(D)
        assert await rw.write.acquire(D, waits=ALIVE) is not None, "the undo came first"
        assert await waiting(rw) == set()

    async def test_an_undo_gives_back_what_was_granted(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(B, waits=ALIVE)
        assert (await rw.write.undo(B) or 0) >= 1
        assert await rw.fields() == {}
        assert await rw.write.acquire(B, waits=ALIVE) == -3


async def test_without_the_option_not_one_command_more_runs(rw: ReadWriteScripts) -> None:
    async with Counted(rw.redis) as counted:
        await rw.read.acquire(A)
        await rw.write.acquire(B)
        await rw.read.acquire(C)
        await rw.write.release(B)
    assert not [name for name in counted.calls if name.startswith("z")]
