"""once.acquire, complete, forget and inspect: who runs it, who is late, and what is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, C, Scripts, ask, everything
from tests.support.scripts.once import OnceScripts

DONE = [2, 7, b"b", b"r"]
#: What is recorded already.
WAS = [b"b", b"r"]


@pytest_asyncio.fixture
async def once(scripts: Scripts, redis: Redis) -> AsyncIterator[OnceScripts]:
    """Something that is done once."""
    yield OnceScripts(scripts)
    await redis.flushdb()


async def record(once: OnceScripts) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = await ask(once.redis, "HGETALL", once.record)
    return found


class TestAcquire:
    async def test_the_first_runs_it_and_the_second_hears_for_how_long(
        self, once: OnceScripts
    ) -> None:
        code, token = await once.enter(A)
        assert (code, token > 0) == (1, True)
        code, left = await once.enter(B)
        assert (code, 0 < left <= LEASE) == (0, True)
        assert await once.holds() == {A: 1}

    async def test_a_repetition_reads_the_token_that_it_took(self, once: OnceScripts) -> None:
        first = await once.enter(A)
        assert await once.enter(A) == first
        assert await once.enter(A, LEASE // 2) == first
        assert await once.holds() == {A: 1}
        assert await once.left() > LEASE // 2

    async def test_each_run_has_a_greater_token(self, once: OnceScripts) -> None:
        _, first = await once.enter(A)
        await once.release(A)
        _, second = await once.enter(B)
        assert second > first

    async def test_one_that_has_left_is_refused(self, once: OnceScripts) -> None:
        await once.undo(A)
        assert await once.enter(A) == [-3, 0]
        assert await once.holds() == {}
        await once.enter(B)
        # Also while it is busy.
        assert await once.enter(A) == [-3, 0]

    async def test_what_is_done_is_not_granted_while_its_lock_is_held_nor_after(
        self, once: OnceScripts
    ) -> None:
        await once.enter(A)
        await once.complete(A)
        assert await once.enter(B) == DONE
        await once.release(A)
        assert await once.enter(C) == DONE
        assert await once.holds() == {}

    async def test_it_waits_for_no_end_of_a_block_but_its_own_owner_still_runs(
        self, once: OnceScripts
    ) -> None:
        """The acquire of who runs it arrives again: its answer was lost."""
        first = await once.enter(A)
        await once.complete(A)
        assert await once.enter(A) == first

    async def test_who_comes_after_it_was_forgotten_runs_it(self, once: OnceScripts) -> None:
        await once.enter(A)
        await once.complete(A)
        await once.release(A)
        assert await once.forget() == 1
        assert (await once.enter(B))[0] == 1

    async def test_the_counter_outlives_the_lease_by_as_long_as_a_record(
        self, once: OnceScripts
    ) -> None:
        await once.enter(A)
        left = int(await ask(once.redis, "PTTL", once.token_key))
        assert LEASE < left <= LEASE + TOMBSTONE

    @pytest.mark.parametrize("missing", ["token", "kind", "result"])
    async def test_a_record_that_lacks_a_field_is_none(
        self, once: OnceScripts, redis: Redis, missing: str
    ) -> None:
        fields: dict[str, str] = {"token": "7", "kind": "b", "result": "r"}
        del fields[missing]
        for field, value in fields.items():
            await redis.hset(once.record.decode(), field, value)
        assert (await once.enter(A))[0] == 1


class TestComplete:
    async def test_the_record_is_what_was_given_and_ends(self, once: OnceScripts) -> None:
        await once.enter(A)
        assert await once.complete(A, b"\0\xff\r\n", "s") == 1
        assert await record(once) == {b"token": b"7", b"kind": b"s", b"result": b"\0\xff\r\n"}
        assert 0 < await ask(once.redis, "PTTL", once.record) <= TOMBSTONE
        assert await once.holds() == {A: 1}

    async def test_who_does_not_run_it_changes_nothing(
        self, once: OnceScripts, redis: Redis
    ) -> None:
        assert await once.complete(A) == 0
        assert await everything(redis) == {}
        await once.enter(B)
        before = await everything(redis)
        assert await once.complete(A) == 0
        assert await everything(redis) == before

    async def test_one_whose_lease_has_ended_is_late(self, once: OnceScripts, redis: Redis) -> None:
        await once.enter(A)
        await redis.delete(once.key)
        assert await once.complete(A) == 0
        await once.enter(B)
        assert await once.complete(A) == 0
        assert await record(once) == {}
        assert await once.complete(B, "theirs") == 1

    async def test_a_repetition_has_the_first_answer_and_records_nothing(
        self, once: OnceScripts, redis: Redis
    ) -> None:
        await once.enter(A)
        assert await once.complete(A) == 1
        before = await everything(redis)
        assert await once.complete(A) == 1
        # Or hears of it, if it has another result.
        assert await once.complete(A, "other") == WAS
        assert await once.complete(A, kind="s") == WAS
        assert await everything(redis) == before

    async def test_a_copy_that_comes_after_the_release_or_the_next_run_changes_nothing(
        self, once: OnceScripts, redis: Redis
    ) -> None:
        await once.enter(A)
        await once.complete(A)
        await once.release(A)
        assert await once.complete(A, "late") == WAS
        assert (await record(once))[b"result"] == b"r"
        await once.forget()
        assert await once.complete(A, "late") == 1
        assert await record(once) == {}
        await once.enter(B)
        assert await once.complete(A, "late") == 1
        assert await record(once) == {}

    async def test_all_that_wait_hear_of_it(self, once: OnceScripts, redis: Redis) -> None:
        await once.enter(A)
        async with listening(redis, once.channel) as listener:
            await once.complete(A)
            await once.complete(A)
            assert await listener.heard() == [b"1"]


class TestForget:
    async def test_who_runs_it_is_not_touched(self, once: OnceScripts) -> None:
        assert await once.forget() == 0
        await once.enter(A)
        await once.complete(A)
        assert await once.forget() == 1
        assert await once.holds() == {A: 1}
        assert await record(once) == {}

    async def test_a_repetition_forgets_no_later_result(self, once: OnceScripts) -> None:
        await once.enter(A)
        await once.complete(A)
        await once.release(A)
        assert await once.forget(1) == 1
        await once.enter(B)
        await once.complete(B, "later")
        assert await once.forget(1) == 1
        assert (await record(once))[b"result"] == b"later"
        assert await once.forget(2) == 1
        # The first call arrives once more: it was served.
        await once.enter(C)
        await once.release(B)
        assert await once.forget(1) == 0


class TestInspect:
    async def test_each_state(self, once: OnceScripts) -> None:
        assert await once.look() == [-2, -2, 0, 0]
        await once.enter(A)
        left, kept, token, size, *words = await once.look()
        assert (0 < left <= LEASE, kept, token, size) == (True, -2, 0, 0)
        assert words == [A.encode(), b"1"]
        await once.complete(A, "four")
        left, kept, token, size, *words = await once.look()
        assert (0 < left <= LEASE, 0 < kept <= TOMBSTONE, token, size) == (True, True, 7, 4)
        await once.release(A)
        left, kept, token, size, *words = await once.look()
        assert (left, 0 < kept <= TOMBSTONE, token, size, words) == (-2, True, 7, 4, [])
