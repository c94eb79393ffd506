"""Both sides of a read-write lock in one queue of clients: who is called, and who comes in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.lua.test_client_queue_model import SILENT, PatientScripts
from tests.lua.test_golden_vectors import Listener, listening
from tests.support.scripts.calls import LEASE, TOMBSTONE, Scripts, ask
from tests.support.scripts.client_queue import BOTH_WAYS, HOLDER, LONG, NOT_YET, owner_of
from tests.support.scripts.read_write import ReadWriteScripts, Side, SideScripts

each_way = pytest.mark.parametrize("lease_ms", BOTH_WAYS)

#: How long a writer counts as waiting that goes before readers.
ALIVE = 10_000
#: Clients that live: readers, writers, and one that comes.
R1, R2, R3, W1, W2, NEW = "read-1", "read-2", "read-3", "write-1", "write-2", "new"
SIDES: dict[str, Side] = {R1: "read", R2: "read", R3: "read", W1: "write", W2: "write"}
#: Clients that are gone.
DEAD: dict[str, Side] = {"dead-r": "read", "dead-w": "write"}


class Sides:
    """The queue of one lock, and what its clients hear."""

    def __init__(self, scripts: Scripts, redis: Redis) -> None:
        self.rw = ReadWriteScripts(scripts, b"k")
        self.redis = redis
        self.clients = self.rw.read.clients
        self.listeners: dict[str, Listener] = {}

    def side(self, client: str, side: Side | None = None) -> SideScripts:
        """Return the side that a client wants."""
        return self.rw.read if (side or (SIDES | DEAD)[client]) == "read" else self.rw.write

    def member(self, client: str, side: Side | None = None) -> str:
        """Return the name of a client in the queue."""
        return f"{client}:{side or (SIDES | DEAD)[client]}"

    async def asks(
        self,
        client: str,
        side: Side | None = None,
        *,
        lease_ms: Any = LEASE,
        waits: int = 0,
        member: str | None = None,
    ) -> Any:
        """Ask as a client that waits in the queue; None is granted."""
        return await self.side(client, side).acquire(
            owner_of(client),
            lease_ms=lease_ms,
            waits=waits,
            client=self.member(client, side) if member is None else member,
        )

    async def comes(self, side: Side, *, lease_ms: Any = LEASE, waits: int = 0) -> Any:
        """Ask as a client that does not wait yet."""
        return await self.asks(NEW, side, lease_ms=lease_ms, waits=waits, member="")

    async def leaves(self, client: str) -> int:
        """Take a client out of the queue."""
        return int(
            await self.rw.scripts.run(
                "read_write_lock.leave",
                lock=self.rw.key,
                clients=self.clients,
                client=self.member(client),
                channel=self.rw.channel,
            )
        )

    async def queue_up(self, *clients: str, held: Side = "write", waits: int = 0) -> None:
        """Have somebody hold it and others wait, all of them for long."""
        assert await self.side("", held).acquire(HOLDER) is None
        for client in clients:
            assert isinstance(await self.asks(client, waits=waits), list)
        await self.have_waited(LONG)
        await self.nothing_was_heard()

    async def have_waited(self, milliseconds: int) -> None:
        """Have all in the queue wait for so long already, in their order."""
        seconds, microseconds = await ask(self.redis, "TIME")
        present = int(seconds) * 1_000_000 + int(microseconds)
        found = await ask(self.redis, "ZRANGE", self.clients, 0, -1, "WITHSCORES")
        for index, (member, score) in enumerate(found):
            joined = present - milliseconds * 1000 + index - (1.5e15 if score < 1.5e15 else 0)
            if score > 0:
                await ask(self.redis, "ZADD", self.clients, round(joined), member)

    async def silence(self) -> None:
        """Have those that were called say nothing for long."""
        seconds, _ = await ask(self.redis, "TIME")
        for each in await self.entries():
            if each.startswith(">"):
                await ask(
                    self.redis,
                    "ZADD",
                    self.clients,
                    -(int(seconds) - SILENT // 500) * 1_000_000,
                    each,
                )

    async def entries(self) -> list[str]:
        """Return what is in the queue."""
        return [each.decode() for each in await ask(self.redis, "ZRANGE", self.clients, 0, -1)]

    async def waiting(self) -> list[str]:
        """Return who waits, the first one first."""
        found = [each for each in await self.entries() if not each.startswith((">", "<"))]
        return [each.rpartition(":")[0] for each in found]

    async def called(self) -> set[str]:
        """Return who was called and has not answered."""
        notes = [each[1:] for each in await self.entries() if each.startswith(">")]
        return {each.rpartition(":")[0] for each in notes}

    async def heard(self) -> dict[str, list[str]]:
        """Return who has heard what since the last look; "all" are all releases."""
        found = {who: await each.heard() for who, each in self.listeners.items()}
        return {who: [each.decode() for each in some] for who, some in found.items() if some}

    async def nothing_was_heard(self) -> None:
        """Forget what was heard until now."""
        await self.heard()


@pytest_asyncio.fixture
async def sides(redis: Redis) -> AsyncIterator[Sides]:
    """A queue in which all clients live."""
    sides = Sides(await PatientScripts.on(redis), redis)
    channels = {each: f"{sides.rw.channel.decode()}:{sides.member(each)}" for each in SIDES}
    async with AsyncExitStack() as stack:
        for who, channel in [*channels.items(), ("all", sides.rw.channel.decode())]:
            listener = await stack.enter_async_context(listening(redis, channel.encode()))
            sides.listeners[who] = listener
        yield sides


@each_way
class TestReleasing:
    async def test_a_writer_calls_all_readers_if_one_is_the_first(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up(R1, W1, R2, R3)
        assert await sides.rw.write.release(HOLDER, lease_ms=lease_ms) == -1
        assert await sides.heard() == {R1: ["0"], R2: ["0"], R3: ["0"], "all": ["01"]}
        assert await sides.called() == {R1, R2, R3}
        assert await sides.waiting() == [R1, W1, R2, R3]
        assert await sides.rw.fields() == {}

    async def test_a_writer_that_is_the_first_is_called_alone(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up(W1, R1, W2)
        assert await sides.rw.write.release(HOLDER, lease_ms=lease_ms) == -1
        assert await sides.heard() == {W1: ["0"], "all": ["00" if lease_ms == LEASE else "01"]}
        assert await sides.called() == {W1}

    async def test_the_last_reader_calls_the_first(self, sides: Sides, lease_ms: Any) -> None:
        await sides.queue_up(W1, W2, held="read")
        await sides.rw.read.acquire(owner_of(NEW))
        assert await sides.rw.read.release(HOLDER, lease_ms=lease_ms) == 0
        assert await sides.heard() == {}
        assert await sides.rw.read.release(owner_of(NEW), lease_ms=lease_ms) == -1
        assert await sides.heard() == {W1: ["0"], "all": ["00"]}
        assert await sides.called() == {W1}

    async def test_a_writer_that_goes_on_reading_calls_readers_alone(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up(W1, R1, R2)
        assert await sides.rw.read.acquire(HOLDER) is None
        assert (await sides.rw.write.release(HOLDER, lease_ms=lease_ms) or 0) > 0
        assert await sides.heard() == {R1: ["0"], R2: ["0"], "all": ["02"]}
        assert await sides.called() == {R1, R2}
        assert await sides.asks(R1) is await sides.asks(R2) is None
        assert await sides.waiting() == [W1]

    async def test_the_dead_leave_and_the_next_that_lives_is_called(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up("dead-r", "dead-w", W1, R1)
        assert await sides.rw.write.release(HOLDER, lease_ms=lease_ms) == -1
        assert await sides.heard() == {W1: ["0"], R1: ["2"], "all": ["01"]}
        assert await sides.waiting() == [W1, R1]

    async def test_readers_that_were_called_are_not_called_again(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up(R1, R2)
        await sides.rw.write.release(HOLDER, lease_ms=lease_ms)
        await sides.nothing_was_heard()
        # One that need not wait comes and goes meanwhile.
        assert await sides.comes("read", lease_ms=lease_ms) is None
        assert await sides.rw.read.release(owner_of(NEW), lease_ms=lease_ms) in (1, 2)
        assert (await sides.heard()).keys() == {"all"}
        assert await sides.called() == {R1, R2}


@pytest.mark.parametrize("held", ["read", "write"])
async def test_a_forced_release_calls_who_may_come(sides: Sides, held: Side) -> None:
    await sides.queue_up(*((W1, W2) if held == "read" else (R1, W1, R2)), held=held)
    assert await sides.side("", held).force_release() == 1
    called = {W1} if held == "read" else {R1, R2}
    assert (await sides.heard()).keys() == {*called, "all"}
    assert await sides.called() == called


@each_way
class TestComingIn:
    async def test_a_reader_that_was_not_called_brings_the_others(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up(R1, W1, R2, R3)
        await ask(sides.redis, "DEL", sides.rw.key)
        assert await sides.asks(R1, lease_ms=lease_ms) is None
        heard = await sides.heard()
        # It was one of the first two.
        assert heard.pop(R2)[-1] == "0"
        assert heard == {R3: ["0"]}
        assert (await sides.called(), await sides.waiting()) == ({R2, R3}, [W1, R2, R3])

    async def test_one_that_was_called_brings_nobody(self, sides: Sides, lease_ms: Any) -> None:
        await sides.queue_up(R1, R2, R3)
        await sides.rw.write.release(HOLDER)
        await sides.nothing_was_heard()
        for reader in (R2, R1, R3):
            assert await sides.asks(reader, lease_ms=lease_ms) is None
        assert (await sides.heard(), await sides.entries()) == ({}, [])

    async def test_one_that_comes_brings_those_that_wait(self, sides: Sides, lease_ms: Any) -> None:
        await sides.queue_up(R1, W1, R2)
        await ask(sides.redis, "DEL", sides.rw.key)
        assert await sides.comes("read", lease_ms=lease_ms) is None
        assert await sides.heard() == {R1: ["0"], R2: ["0"]}

    @pytest.mark.parametrize("side", ["read", "write"])
    async def test_a_newcomer_lets_a_writer_go_first_that_has_waited(
        self, sides: Sides, lease_ms: Any, side: Side
    ) -> None:
        await sides.queue_up(W1, R1)
        await ask(sides.redis, "DEL", sides.rw.key)
        await sides.have_waited(NOT_YET)
        assert await sides.comes(side, lease_ms=lease_ms) is None
        await ask(sides.redis, "DEL", sides.rw.key)
        await sides.nothing_was_heard()
        await sides.silence()
        await sides.have_waited(LONG)
        assert await sides.comes(side, lease_ms=lease_ms) == 0
        assert W1 in await sides.heard()
        assert W1 in await sides.called()
        assert await sides.rw.fields() == {}

    async def test_a_writer_lets_readers_go_first_that_were_called(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up(R1, R2)
        await sides.rw.write.release(HOLDER)
        assert await sides.comes("write", lease_ms=lease_ms) == 0
        assert await sides.comes("read", lease_ms=lease_ms) is None

    async def test_readers_that_were_called_and_are_silent_are_passed_over(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up(R1, R2, W1, R3)
        await sides.rw.write.release(HOLDER)
        await sides.silence()
        assert await sides.asks(W1, lease_ms=lease_ms) is None
        assert await sides.waiting() == []

    async def test_readers_come_in_beside_readers_whoever_waits(
        self, sides: Sides, lease_ms: Any
    ) -> None:
        await sides.queue_up(W1, held="read")
        assert await sides.comes("read", lease_ms=lease_ms) is None
        assert await sides.asks(R1, lease_ms=lease_ms) is None
        assert (await sides.heard(), await sides.waiting()) == ({}, [W1])


class TestLeaving:
    async def test_the_last_that_was_called_calls_the_next(self, sides: Sides) -> None:
        await sides.queue_up(R1, R2, W1)
        await sides.rw.write.release(HOLDER)
        await sides.nothing_was_heard()
        assert await sides.leaves(R1) == 1
        assert W1 not in await sides.called()
        assert await sides.leaves(R2) == 1
        assert (await sides.called(), (await sides.heard())[W1][-1]) == ({W1}, "0")

    async def test_who_leaves_the_first_two_tells_the_new_second(self, sides: Sides) -> None:
        await sides.queue_up(R1, W1, R2)
        assert await sides.leaves(W1) == 1
        assert await sides.heard() == {R2: ["2"]}
        assert await sides.leaves(W1) == 0

    async def test_a_reader_that_comes_in_tells_a_writer_that_is_the_second_now(
        self, sides: Sides
    ) -> None:
        await sides.queue_up(R1, W1, W2)
        await sides.rw.write.release(HOLDER)
        await sides.nothing_was_heard()
        assert await sides.asks(R1) is None
        assert await sides.heard() == {W2: ["2"]}


class TestWritersThatGoFirst:
    async def test_they_stand_before_all_others(self, sides: Sides) -> None:
        await sides.queue_up(R1, W1)
        assert (await sides.asks(W2, waits=ALIVE))[1] == 0
        assert await sides.waiting() == [W2, R1, W1]
        await sides.rw.write.release(HOLDER)
        assert await sides.called() == {W2}

    async def test_one_comes_before_readers_that_were_called(self, sides: Sides) -> None:
        await sides.queue_up(R1, R2)
        await sides.rw.write.release(HOLDER)
        assert await sides.comes("write", waits=ALIVE) is None

    async def test_a_reader_that_yields_waits_and_calls_the_writer(self, sides: Sides) -> None:
        await sides.queue_up(W1, held="read", waits=ALIVE)
        left, *others = await sides.asks(R1, waits=1)
        assert (0 < left <= ALIVE, others) == (True, [1, 0])
        await ask(sides.redis, "DEL", sides.rw.key)
        await sides.nothing_was_heard()
        assert (await sides.asks(R1, waits=1))[1] == 1
        assert (await sides.heard(), await sides.called()) == ({W1: ["0"]}, {W1})

    async def test_one_that_gives_up_calls_readers(self, sides: Sides) -> None:
        await sides.queue_up(W1, held="read", waits=ALIVE)
        for reader in (R1, R2):
            assert isinstance(await sides.asks(reader, waits=1), list)
        await sides.nothing_was_heard()
        undone = await sides.rw.write.release(owner_of(W1), tombstone_ms=TOMBSTONE, waits=1)
        assert undone is None
        assert await sides.heard() == {R1: ["0"], R2: ["0"], "all": ["02"]}
        assert await sides.asks(R1, waits=1) is await sides.asks(R2, waits=1) is None
