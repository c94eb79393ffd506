"""The queue of clients of a semaphore: who leaves it, and whatever else gives units back."""

from __future__ import annotations

import pytest

from tests.lua.test_unit_queue import BIG, W
from tests.lua.test_unit_queue import heard as heard
from tests.lua.test_unit_queue import queue as queue
from tests.support.scripts.calls import LEASE
from tests.support.scripts.client_queue import NEWCOMER, Hearing, X, Y, Z, owner_of
from tests.support.scripts.permits import RECLAIMS
from tests.support.scripts.unit_queue import FULL, UnitQueue, queue_up


class TestLeaving:
    async def test_who_was_called_and_leaves_has_the_next_called(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, X, Y)
        await queue.release(FULL)
        assert await queue.leaves(X) == 1
        assert (await queue.called(), await queue.waiting()) == ({Y}, [Y])
        await heard("all")
        assert await queue.leaves(Y) == 1
        # The last one wakes Redisson's.
        assert (await heard("all"), await queue.entries()) == (["01"], {})
        assert await queue.leaves(Y) == 0

    async def test_the_new_second_is_notified(self, queue: UnitQueue, heard: Hearing) -> None:
        await queue_up(queue, X, Y, Z, W)
        assert await queue.leaves(Y) == 1
        assert [await heard(each) for each in (X, Z, W)] == [[], ["2"], []]
        assert await queue.leaves(W) == 1
        assert [await heard(each) for each in (X, Z)] == [[], []]

    async def test_one_that_wanted_much_lets_others_have_what_is_there(
        self, queue: UnitQueue
    ) -> None:
        await queue_up(queue, BIG)
        await queue.release(FULL)
        assert await queue.called() == set()
        assert await queue.leaves(BIG) == 1
        assert await queue.asks(X) is None

    async def test_the_last_one_takes_with_it_what_only_those_need_that_wait(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, X, Y)
        for number in (1, 2):
            assert await queue.release(FULL, number) == -1
        # "all" is a client that waits as one of Redisson's does.
        assert sum(each.startswith("<") for each in await queue.entries()) == 1
        for client in (X, Y):
            assert await queue.asks(client) is None
        assert await queue.entries() == {}


class TestWhatElseGivesBack:
    async def test_who_asks_gives_back_what_a_dead_one_had(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, X, Y, Z)
        await queue.semaphore.end(owner_of(FULL), owner_of(FULL, 2))
        assert await queue.asks(NEWCOMER, waits=False) > 0
        assert await queue.called() == {X, Y}
        assert (await heard("all"))[-1] == "02"

    async def test_a_look_gives_it_back_too(self, queue: UnitQueue, heard: Hearing) -> None:
        await queue_up(queue, X, Y)
        await queue.semaphore.end(owner_of(FULL))
        await queue.counts.available(RECLAIMS)
        assert await queue.called() == {X}

    @pytest.mark.parametrize("verb", ["add", "set"])
    async def test_more_permits_call_as_many(
        self, queue: UnitQueue, heard: Hearing, verb: str
    ) -> None:
        await queue_up(queue, X, Y, Z)
        await (queue.counts.add(2) if verb == "add" else queue.counts.set(5, replaces=1))
        assert await queue.called() == {X, Y}

    async def test_a_semaphore_that_is_made_calls(self, queue: UnitQueue) -> None:
        for client in (X, Y, Z):
            await queue.asks(client)
        assert await queue.counts.set(2) == 1
        assert await queue.called() == {X, Y}

    async def test_a_lease_that_ends_sooner_has_the_first_two_ask(
        self, queue: UnitQueue, heard: Hearing
    ) -> None:
        await queue_up(queue, X, Y, Z)
        assert await queue.counts.set_lease(queue.field, LEASE // 2) == 1
        assert [await heard(each) for each in (X, Y, Z)] == [["0"], ["0"], []]
        assert await queue.called() == set()
