"""The client queue in a row, at chosen moments of the server's clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redisson_py._stores.mysql import queue, sql
from tests.stores.databases import new_name, owner
from tests.stores.mysql import older
from tests.stores.mysql.scene import started
from tests.stores.mysql.server import MariaDB


class Clock:
    """A session whose clock stands still, and moves when the test says so."""

    def __init__(self, raw: Any, name: str) -> None:
        self._raw = raw
        self._name = name
        self.now = 1_900_000_000.0

    async def run(self, query: str, after: float = 0.0) -> tuple[int, tuple[Any, ...]]:
        """Return how many rows the first statement changed, and the last row."""
        self.now += after
        await self._raw.execute(f"SET timestamp = {self.now!r}")
        await self._raw.execute(query)
        changed = self._raw.rowcount
        while await self._raw.nextset():
            pass
        rows = await self._raw.fetchall() if self._raw.description else ()
        return changed, tuple(rows[0]) if rows else ()

    async def ask(self, who: str, patience: float | None = 0.2, after: float = 0.0) -> int | None:
        """Ask, or wait with a patience; return the place, None for none, or -1 if granted."""
        patiences = None if patience is None else (patience, patience)
        query = sql.ask_in_queue(self._name, who, 30.0, 0, patiences)
        _, (mine, left, _, _, _, position) = await self.run(query, after)
        return -1 if mine and left > 0 else position

    async def take(self, who: str, lease: float = 30.0) -> None:
        _, (mine, left, *_) = await self.run(sql.ask(self._name, who, lease, 0))
        assert mine
        assert left > 0

    async def comes(self, who: str) -> bool:
        """Ask as one that comes where others may wait; return whether it took the name."""
        _, (mine, left, *_) = await self.run(sql.ask(self._name, who, 30.0, 0, crowded=True))
        return bool(mine and left > 0)

    async def poll(self, who: str, patience: float = 0.2) -> tuple[bool, int | None, float]:
        """Return whether to ask, how many come before, and for how many seconds others may."""
        _, (action, _, position, open_for) = await self.run(sql.poll(self._name, who, patience))
        return bool(action), position, max(0.0, float(open_for) / 1e6)

    async def give_back(self, who: str) -> None:
        assert (await self.run(sql.give_back(self._name, who)))[0] == 1

    async def column(self) -> str | None:
        query = f"SELECT refused FROM {sql.TABLE} WHERE id = {sql.key(self._name)}"
        found: str | None = (await self.run(query))[1][0]
        return found

    async def waiters(self) -> tuple[str, ...]:
        _, (_, _, _, entries, present) = await self.run(sql.look(self._name))
        return queue.waiters(entries, present)


@asynccontextmanager
async def clock_of(server: MariaDB) -> AsyncIterator[Clock]:
    async with started(server.url()), server.admin() as raw:
        yield Clock(raw, new_name())


@pytest.mark.parametrize("end", ["release", "expiry", "forced release", "unsure"])
async def test_a_free_name_is_kept_for_the_first_as_long_as_it_says(
    server: MariaDB, end: str
) -> None:
    a, b, c, d = (owner() for _ in range(4))
    async with clock_of(server) as clock:
        await clock.take(a, 5.0)
        assert await clock.ask(b) == 0
        assert await clock.ask(c) == 1
        match end:
            case "release":
                await clock.give_back(a)
            case "expiry":
                clock.now += 5.0
            case "forced release":
                token = (await clock.run(sql.look(clock._name)))[1][2]
                await clock.run(sql.force_release(clock._name, a, token))
            case _:
                await clock.run(sql.give_back_unsure(clock._name, a))
        # It counts from when it is first refused to another, and asking does not lengthen it.
        assert await clock.ask(d, None, after=1.0) is None
        assert await clock.ask(c, after=0.1) == 1
        assert await clock.ask(d, None, after=0.099) is None
        assert await clock.waiters() == (b, c)
        assert await clock.ask(c, after=0.002) == -1
        assert await clock.waiters() == ()
        # It comes late, and stands at the end.
        assert await clock.ask(d) == 0
        assert await clock.ask(b) == 1
        await clock.give_back(c)
        assert await clock.ask(d) == -1
        assert await clock.waiters() == (b,)


async def test_the_first_comes_in_time_or_late_while_nobody_else_asks(server: MariaDB) -> None:
    a, b, c = (owner() for _ in range(3))
    async with clock_of(server) as clock:
        for late in (0.1, 10.0):
            await clock.take(a)
            assert await clock.ask(b) == 0
            await clock.give_back(a)
            assert await clock.ask(c, None) is None
            assert await clock.ask(b, after=late) == -1
            await clock.give_back(b)
            assert await clock.column() is None


async def test_one_that_was_called_and_finds_it_busy_keeps_its_position(server: MariaDB) -> None:
    """A client of an older version took it meanwhile."""
    a, b, c = (owner() for _ in range(3))
    async with clock_of(server) as clock:
        await clock.take(a)
        assert [await clock.ask(b), await clock.ask(c)] == [0, 1]
        await clock.give_back(a)
        assert await clock.ask(c) == 1
        assert (await clock.run(older.ask(clock._name, "old:1")))[1][0] == 1
        assert await clock.ask(b, after=0.1) == 0
        await clock.run(older.give_back(clock._name, "old:1"))
        assert await clock.ask(c, after=10.0) == 1
        assert await clock.ask(b, after=0.1) == -1


async def test_one_that_comes_goes_first_for_20_ms(server: MariaDB) -> None:
    """So short sections need no poll between them. From then on the first goes first."""
    a, b, c, d = (owner() for _ in range(4))
    async with clock_of(server) as clock:
        await clock.take(a)
        assert [await clock.ask(b), await clock.ask(c)] == [0, 1]
        assert (await clock.poll(b))[:2] == (False, 0)
        assert (await clock.poll(b))[2] == pytest.approx(0.02, abs=1e-5)
        await clock.give_back(a)
        clock.now += 0.015
        assert await clock.comes(d)
        # It has no place in the queue, and takes nobody's.
        assert await clock.waiters() == (b, c)
        await clock.give_back(d)
        # One that waits does not go before the first, nor does one that was refused.
        assert not await clock.comes(c)
        await clock.run(sql.give_back_unsure(clock._name, d))
        assert not await clock.comes(d)
        clock.now += 0.0049
        assert await clock.comes(a)
        await clock.give_back(a)
        clock.now += 0.0002
        assert not await clock.comes(owner())
        assert await clock.ask(b) == -1
        # The next one is the first from now on.
        assert (await clock.poll(c))[2] == pytest.approx(0.02, abs=1e-5)
        await clock.give_back(b)
        assert await clock.comes(a)
        await clock.give_back(a)
        # One that is called has waited long enough.
        assert await clock.ask(owner()) == 1
        assert not await clock.comes(a)


async def test_polls_leave_a_name_alone_that_goes_from_hand_to_hand(server: MariaDB) -> None:
    a, b, c = (owner() for _ in range(3))
    async with clock_of(server) as clock:
        await clock.take(a)
        assert [await clock.ask(b), await clock.ask(c)] == [0, 1]
        clock.now += 0.006
        await clock.give_back(a)
        # Nobody took it lately.
        assert (await clock.poll(b))[0]
        assert await clock.comes(a)
        await clock.give_back(a)
        assert not (await clock.poll(b))[0]
        clock.now += 0.006
        assert (await clock.poll(b))[0]
        assert await clock.comes(a)
        clock.now += 0.009
        await clock.give_back(a)
        # It is the turn of the first. Nobody looks after it yet.
        assert [(await clock.poll(each))[0] for each in (b, c)] == [True, False]
        clock.now += 0.05
        assert [(await clock.poll(each))[0] for each in (b, c)] == [True, True]


async def test_an_entry_of_the_first_ends_before_refused_until(server: MariaDB) -> None:
    """Older clients may empty the column from then on."""
    a, b, c = (owner() for _ in range(3))
    async with clock_of(server) as clock:
        await clock.take(a, 1000.0)
        assert [await clock.ask(b), await clock.ask(c)] == [0, 1]
        assert [await clock.ask(b, after=19.99), await clock.ask(c)] == [0, 1]
        await clock.give_back(a)
        # 40 s after the first one came, which is now in 20.005 s.
        assert await clock.ask(b, after=0.005) == -1
        assert (await clock.poll(c))[2] == pytest.approx(0.005, abs=1e-5)


async def test_dead_waiters_end_and_go_one_with_each_request(server: MariaDB) -> None:
    a, b, c = (owner() for _ in range(3))
    async with clock_of(server) as clock:
        await clock.take(a, 1000.0)
        for position in range(5):
            assert await clock.ask(owner()) == position
        assert await clock.ask(b, after=queue.WAITER_TIME - 1) == 5
        assert len(await clock.waiters()) == 6
        clock.now += 1.1
        assert await clock.waiters() == (b,)
        # One request more moves `refused_until` on.
        positions = [await clock.ask(c) for _ in range(8)]
        assert positions == [None] * 6 + [1, 1]
        assert [await clock.ask(b), await clock.waiters()] == [0, (b, c)]


async def test_a_poll_writes_the_row_when_the_entry_ends_soon(server: MariaDB) -> None:
    a, b = owner(), owner()
    async with clock_of(server) as clock:
        await clock.take(a, 1000.0)
        wait = sql.ask_in_queue(clock._name, b, 30.0, 0, (0.2, 0.2))
        changes = [(await clock.run(wait, after=0.5))[0] for _ in range(100)]
        assert changes[0] == 1
        assert sum(changes) == pytest.approx(1 + 50 / 5, abs=1)
        # And when it asks less often, or more.
        slow = sql.ask_in_queue(clock._name, b, 30.0, 0, (0.2, 0.6))
        assert [(await clock.run(slow))[0] for _ in range(3)] == [1, 0, 0]
        assert await clock.waiters() == (b,)


async def test_a_poll_says_whether_to_ask(server: MariaDB) -> None:
    a, b, c = (owner() for _ in range(3))
    async with clock_of(server) as clock:

        async def poll(who: str, patience: float = 0.2) -> tuple[bool, int | None]:
            return (await clock.poll(who, patience))[:2]

        await clock.take(a, 30.0)
        assert [await poll(b), await poll(c)] == [(True, None), (True, None)]
        assert [await clock.ask(b), await clock.ask(c)] == [0, 1]
        assert [await poll(b), await poll(c)] == [(False, 0), (False, 1)]
        assert [await poll(b, 0.6), await poll(c, 0.6)] == [(True, 0), (True, 1)]
        # Its entry must not end.
        clock.now += queue.WAITER_TIME - 14
        assert await poll(b) == (True, 0)
        assert [await clock.ask(b), await clock.ask(c)] == [0, 1]
        assert [await poll(b), await poll(c)] == [(False, 0), (False, 1)]
        # It is the turn of the first, and the second has the first called.
        await clock.give_back(a)
        assert [await poll(b), await poll(c)] == [(True, 0), (True, 1)]
        assert await clock.ask(c) == 1
        assert [await poll(b), await poll(c)] == [(True, 0), (False, 1)]
        # The first is silent.
        clock.now += 0.3
        assert await poll(c) == (True, 1)
        assert await clock.ask(c) == -1
    async with clock_of(server) as clock:
        await clock.take(a, 30.0)
        assert await clock.ask(b) == 0
        assert await poll(b) == (False, 0)
        # It is refused there, which a look is not.
        async with server.settings(read_only="1"):
            assert await poll(b) == (True, 0)


async def test_tombstones_stay_for_a_minute_and_not_for_ever(server: MariaDB) -> None:
    """Somebody waits all the time, and clients of older versions ask and give up, too."""
    a, b = owner(), owner()
    made: dict[str, float] = {}
    async with clock_of(server) as clock:
        await clock.take(a, 10_000.0)
        for step in range(100):
            gone = owner()
            if step in range(0, 70, 7):
                give_up = older.give_back_unsure if step % 2 else sql.give_back_unsure
                await clock.run(give_up(clock._name, gone))
                made[gone] = clock.now
            await clock.run(older.ask(clock._name, owner()))
            position = await clock.ask(b, after=4.9)
            assert position == 0 or (position is None and step < 2)
            present = await clock.column()
            assert present is not None
            for each, at in made.items():
                there = f" {each} " in present
                assert there or clock.now >= at + 60
                assert not there or clock.now < max(made.values()) + 60 + 3 * queue.WAITER_TIME
            assert step < 2 or await clock.waiters() == (b,)
            # It is refused as long as it stands there.
            if made:
                assert await clock.ask(list(made)[-1], None) is None
        assert len(await clock.column() or "") < 100


async def test_a_queue_is_bounded(server: MariaDB) -> None:
    a, late = owner(), owner()
    async with clock_of(server) as clock:
        await clock.take(a, 1000.0)
        positions = [await clock.ask(owner()) for _ in range(700)]
        joined = [each for each in positions if each is not None]
        assert joined == list(range(len(joined)))
        assert 400 < len(joined) < 600
        assert await clock.ask(late) is None
        # Tombstones go before anything else: a release without an answer must be safe.
        for _ in range(900):
            await clock.run(older.give_back_unsure(clock._name, owner()))
        column = await clock.column() or ""
        assert len(column) == 65535
        assert len(await clock.waiters()) in range(1, len(joined))
        # The first was cut in two: it goes, and the others are served.
        assert not column.startswith("19")
        assert await clock.ask(late) is None
        assert (await clock.column() or "").startswith("19")
        await clock.give_back(a)
        assert await clock.ask(late) is None
        assert await clock.ask((await clock.waiters())[0]) == -1


# Beside clients of the version before.


async def test_an_older_client_keeps_the_queue(server: MariaDB) -> None:
    async with clock_of(server) as clock:
        name, (b, c) = clock._name, (owner(), owner())
        assert (await clock.run(older.ask(name, "old:1")))[1][0] == 1
        assert [await clock.ask(b), await clock.ask(c)] == [0, 1]
        assert (await clock.run(older.ask(name, "old:2"), after=19.0))[1][0] == 0
        await clock.run(older.give_back_unsure(name, "old:3"))
        assert await clock.waiters() == (b, c)
        assert (await clock.run(older.ask(name, "old:3")))[1][0] == 0
        await clock.run(older.give_back(name, "old:1"))
        assert (await clock.run(older.ask(name, "old:3")))[1][0] == 0
        assert await clock.ask(b) == -1
        # What it frees is kept for the first by those who know the queue.
        await clock.run(older.give_back_unsure(name, b))
        assert await clock.ask(owner(), None) is None
        assert await clock.ask(c) == -1
        assert (await clock.run(older.ask(name, "old:2")))[1][0] == 0
        await clock.give_back(c)
        assert (await clock.run(older.ask(name, "old:2")))[1][0] == 1
