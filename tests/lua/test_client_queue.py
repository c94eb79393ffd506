"""The queue of clients: who joins, is called, goes first, leaves, and what the others are told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.fixtures.measured import Measured
from tests.lua.test_golden_vectors import Listener, listening
from tests.support.counting import Counted
from tests.support.scripts.calls import LEASE, TOMBSTONE, Scripts, ask, everything
from tests.support.scripts.client_queue import QueueScripts, owner_of

JAVA = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9:31"
#: Clients that live; the holder is another one.
X, Y, Z, NEWCOMER = "client-x", "client-y", "client-z", "client-n"
HOLDER = owner_of("client-h")
#: Milliseconds that are over, or not, however slow the machine is.
LONG, NOT_YET = 10_000, -10_000

Hearing = Callable[[str], Awaitable[list[str]]]


@pytest.fixture(params=["plain", "fenced"])
def queue(request: pytest.FixtureRequest, scripts: Scripts) -> QueueScripts:
    """A lock and its queue, plain and fenced in turn."""
    return QueueScripts(scripts, fenced=request.param == "fenced")


@pytest_asyncio.fixture
async def heard(queue: QueueScripts, redis: Redis) -> AsyncIterator[Hearing]:
    """Keep X, Y and Z alive; return what one of them, or the channel of all ("all"), has heard."""
    channels = {each: queue.own_channel(each) for each in (X, Y, Z)} | {"all": queue.channel}
    listeners: dict[str, Listener] = {}
    async with AsyncExitStack() as stack:
        for each, channel in channels.items():
            listeners[each] = await stack.enter_async_context(listening(redis, channel))

        async def heard(who: str) -> list[str]:
            return [message.decode() for message in await listeners[who].heard()]

        yield heard


async def in_line(queue: QueueScripts, *clients: str) -> None:
    """Have a client hold it for as long as the test lasts, and others wait."""
    assert await queue.acquire(HOLDER) is None
    for place, client in enumerate(clients):
        reply = await queue.asks(client)
        assert reply[1] == place


async def freed(queue: QueueScripts, *clients: str) -> None:
    """Have it free with others in the queue, none of whom was called."""
    await in_line(queue, *clients)
    await ask(queue.redis, "DEL", queue.key)
    await ask(queue.redis, "DEL", queue.token_key)


class TestJoining:
    async def test_the_first_two_hear_when_the_lease_ends(self, queue: QueueScripts) -> None:
        await queue.acquire(HOLDER)
        for place, client in enumerate((X, Y)):
            left, *rest = await queue.asks(client)
            assert LEASE - 5000 < left <= LEASE
            assert rest == [place, 0]
        assert await queue.asks(Z) == [-1, 2, 0]
        assert await queue.waiting() == [X, Y, Z]
        assert 55_000 < await ask(queue.redis, "PTTL", queue.clients) <= 60_000

    async def test_the_first_two_hear_of_a_holder_that_calls_nobody(
        self, queue: QueueScripts
    ) -> None:
        await queue.acquire(JAVA)
        assert [(await queue.asks(client))[1:] for client in (X, Y, Z)] == [[0, 1], [1, 1], [2, 0]]

    async def test_a_lock_without_lease_names_no_end(self, queue: QueueScripts) -> None:
        await queue.acquire(HOLDER)
        await queue.redis.persist(queue.key)
        assert await queue.asks(X) == [-1, 0, 0]
        await queue.release(HOLDER)

    async def test_who_asks_again_keeps_its_place(self, queue: QueueScripts) -> None:
        await in_line(queue, X, Y)
        before = await queue.entries()
        assert (await queue.asks(X))[1] == 0
        assert (await queue.asks(Y))[1] == 1
        assert await queue.entries() == before

    async def test_who_was_called_and_asks_has_answered(
        self, queue: QueueScripts, heard: Hearing
    ) -> None:
        await in_line(queue, X, Y)
        await queue.release(HOLDER)
        assert await queue.called() == X
        # Redisson's takes what is free.
        await ask(queue.redis, "HSET", queue.key, JAVA, 1)
        await queue.redis.pexpire(queue.key, LEASE)
        assert (await queue.asks(Y))[1] == 1
        assert await queue.called() == X
        assert (await queue.asks(X))[1] == 0
        assert await queue.called() is None

    async def test_who_does_not_wait_leaves_nothing(
        self, queue: QueueScripts, redis: Redis
    ) -> None:
        await queue.acquire(HOLDER)
        before = await everything(redis)
        assert LEASE - 5000 < await queue.acquire(owner_of(X)) <= LEASE
        assert await everything(redis) == before

    async def test_who_has_left_does_not_join(self, queue: QueueScripts, redis: Redis) -> None:
        await queue.acquire(HOLDER)
        await queue.release(owner_of(X), tombstone_ms=TOMBSTONE)
        before = await everything(redis)
        assert await queue.asks(X) == -3
        await queue.release(HOLDER)
        assert await queue.asks(X) == -3
        assert await queue.waiting() == []
        assert before.keys() >= (await everything(redis)).keys()


#: Through the short way of a script, and through the rest of it.
each_way = pytest.mark.parametrize("lease_ms", [LEASE, f"00{LEASE}"])


@each_way
class TestWhoTakesIt:
    async def test_a_newcomer_takes_it_from_those_who_have_not_waited_long(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, X)
        await queue.joined_ago(X, NOT_YET)
        assert await queue.acquire(owner_of(NEWCOMER), lease_ms=lease_ms) is None
        assert await queue.waiting() == [X]
        assert await heard(X) == []

    @pytest.mark.parametrize("yields", [0, 1])
    async def test_a_newcomer_calls_one_that_has_waited_or_to_which_it_yields(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int, yields: int
    ) -> None:
        await freed(queue, X)
        await queue.joined_ago(X, 0 if yields else LONG)
        reply = await queue.asks(NEWCOMER, lease_ms=lease_ms, yields=yields)
        assert reply == [51, 1, 0]
        assert await heard(X) == ["0"]
        assert await queue.called() == X
        assert await queue.waiting() == [X, NEWCOMER]
        assert await queue.holds() == {}

    async def test_who_does_not_wait_calls_the_first_too(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, X)
        await queue.joined_ago(X, LONG)
        assert await queue.acquire(owner_of(NEWCOMER), lease_ms=lease_ms) == 0
        assert await heard(X) == ["0"]
        assert (await queue.called(), await queue.waiting()) == (X, [X])

    @pytest.mark.parametrize("yields", [0, 1])
    async def test_the_first_takes_it_whether_or_not_it_was_called(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int, yields: int
    ) -> None:
        await freed(queue, X, Y)
        await queue.joined_ago(X, LONG)
        assert await queue.asks(X, lease_ms=lease_ms, yields=yields) is None
        assert await queue.waiting() == [Y]
        await queue.joined_ago(Y, LONG)
        assert await queue.release(owner_of(X)) == -1
        assert await queue.asks(Y, lease_ms=lease_ms, yields=yields) is None
        assert await queue.entries() == {}

    @pytest.mark.parametrize(("client", "reply"), [(Y, [10_051, 1, 0]), (Z, [-1, 2, 0])])
    async def test_the_others_leave_one_that_was_called_a_moment(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int, client: str, reply: list[int]
    ) -> None:
        await freed(queue, X, Y, Z)
        await queue.joined_ago(X, LONG)
        await queue.called_ago(X, NOT_YET)
        answer = await queue.asks(client, lease_ms=lease_ms)
        # The second is told when to look, some milliseconds later.
        assert answer == [pytest.approx(reply[0], abs=5000), *reply[1:]]
        assert await heard(X) == await heard(Y) == await heard(Z) == []
        assert await queue.called() == X

    async def test_who_was_called_and_is_silent_is_passed_over(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, X, Y, Z)
        await queue.joined_ago(X, LONG)
        await queue.called_ago(X, LONG)
        assert await queue.asks(Y, lease_ms=lease_ms) is None
        assert await queue.waiting() == [Z]
        assert await heard(X) == await heard(Y) == []
        assert await heard(Z) == ["2"]
        # It lives after all: it is one of those that come.
        assert (await queue.asks(X))[1] == 1

    async def test_one_that_comes_calls_the_next_when_it_passes_one_over(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, X, Y, Z)
        for client in (X, Y):
            await queue.joined_ago(client, LONG)
        await queue.called_ago(X, LONG)
        assert await queue.asks(NEWCOMER, lease_ms=lease_ms) == [51, 2, 0]
        assert (await queue.called(), await queue.waiting()) == (Y, [Y, Z, NEWCOMER])
        assert (await heard(X), await heard(Y), await heard(Z)) == ([], ["0"], ["2"])

    async def test_who_does_not_hear_its_call_is_gone(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, "dead-1", "dead-2", Y, Z)
        for client in ("dead-1", "dead-2", Y):
            await queue.joined_ago(client, LONG)
        assert await queue.asks(NEWCOMER, lease_ms=lease_ms) == [51, 2, 0]
        assert (await queue.called(), await queue.waiting()) == (Y, [Y, Z, NEWCOMER])
        assert (await heard(Y), await heard(Z)) == (["0"], ["2"])

    async def test_where_all_others_are_gone_who_asks_takes_it(
        self, queue: QueueScripts, lease_ms: int
    ) -> None:
        await freed(queue, "dead-1", "dead-2")
        await queue.joined_ago("dead-1", LONG)
        assert await queue.asks(NEWCOMER, lease_ms=lease_ms) is None
        assert await queue.entries() == {}

    @pytest.mark.parametrize(("client", "second"), [(X, Z), (Y, Z), (Z, None)])
    async def test_a_grant_tells_the_new_second(
        self,
        queue: QueueScripts,
        heard: Hearing,
        lease_ms: int,
        client: str,
        second: str | None,
    ) -> None:
        await freed(queue, X, Y, Z)
        await queue.joined_ago(X, NOT_YET)
        # They keep their order.
        await queue.joined_ago(Y, NOT_YET - 1)
        await queue.joined_ago(Z, NOT_YET - 2)
        assert await queue.asks(client, lease_ms=lease_ms) is None
        assert client not in await queue.waiting()
        for each in (X, Y, Z):
            assert await heard(each) == (["2"] if each == second else [])

    async def test_a_repeated_grant_changes_nothing(
        self, queue: QueueScripts, redis: Redis, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, X, Y, Z)
        assert await queue.asks(X, lease_ms=lease_ms) is None
        assert await heard(Z) == ["2"]
        waiting = await queue.entries()
        assert await queue.asks(X, lease_ms=lease_ms) is None
        assert await queue.entries() == waiting
        assert await heard(Y) == await heard(Z) == []
        assert await queue.holds() == {owner_of(X): 1}

    async def test_after_a_tombstone_nobody_gets_anything_or_goes(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await freed(queue, X, Y)
        await queue.release(owner_of(X), tombstone_ms=TOMBSTONE)
        before = await queue.entries()
        assert await queue.asks(X, lease_ms=lease_ms) == -3
        assert await queue.entries() == before
        assert await queue.holds() == {}


@each_way
class TestReleasing:
    async def test_it_calls_the_first_alone(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await in_line(queue, X, Y)
        assert await queue.release(HOLDER, lease_ms=lease_ms) == -1
        assert await queue.holds() == {}
        assert (await queue.called(), await queue.waiting()) == (X, [X, Y])
        assert (await heard(X), await heard(Y), await heard("all")) == (["0"], [], ["00"])
        # Twice is once.
        assert await queue.release(HOLDER, lease_ms=lease_ms) is None
        assert (await heard(X), await heard("all")) == ([], [])

    async def test_the_dead_are_passed_over_and_the_new_second_is_told(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await in_line(queue, "dead-1", "dead-2", X, Y, Z)
        assert await queue.release(HOLDER, lease_ms=lease_ms) == -1
        assert (await queue.called(), await queue.waiting()) == (X, [X, Y, Z])
        assert (await heard(X), await heard(Y), await heard(Z)) == (["0"], ["2"], [])
        assert await heard("all") == ["00"]

    async def test_where_all_are_dead_only_those_are_told_who_listen_to_all(
        self, queue: QueueScripts, redis: Redis, lease_ms: int
    ) -> None:
        await in_line(queue, "dead-1", "dead-2")
        async with listening(redis, queue.channel) as listener:
            assert await queue.release(HOLDER, lease_ms=lease_ms) == 2
            assert await listener.heard() == [b"00"]
        assert await queue.entries() == {}

    async def test_a_release_in_part_calls_nobody(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await in_line(queue, X)
        await queue.acquire(HOLDER, 2)
        assert await queue.release(HOLDER, 1, lease_ms=lease_ms) == 0
        assert (await queue.called(), await heard(X), await heard("all")) == (None, [], [])

    async def test_an_undo_calls_the_next_if_it_freed_anything(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await in_line(queue, X)
        stranger = owner_of(NEWCOMER)
        assert await queue.release(stranger, 0, lease_ms, TOMBSTONE) is None
        assert await heard(X) == []
        assert await queue.release(HOLDER, 0, lease_ms, TOMBSTONE) == -1
        assert await heard(X) == ["0"]
        assert await queue.release(HOLDER, 0, lease_ms, TOMBSTONE) is None
        assert (await heard(X), await queue.called()) == ([], X)

    async def test_a_lease_that_ends_sooner_is_told_to_the_first_two(
        self, queue: QueueScripts, heard: Hearing, lease_ms: int
    ) -> None:
        await in_line(queue, X, Y, Z)
        await queue.acquire(HOLDER, 2, 10 * LEASE)
        assert await queue.release(HOLDER, 1, lease_ms=lease_ms) == 0
        assert [await heard(each) for each in (X, Y, Z, "all")] == [["0"], ["0"], [], ["0"]]
        assert await queue.set_lease(HOLDER, LEASE // 2) == 1
        assert [await heard(each) for each in (X, Y, Z, "all")] == [["0"], ["0"], [], ["0"]]
        assert await queue.called() is None


async def test_a_forced_release_calls_the_first_once(queue: QueueScripts, heard: Hearing) -> None:
    await in_line(queue, "dead", X, Y)
    for messages in (["0"], []):
        assert await queue.force_release() == 1
        assert await heard(X) == messages
        assert await heard("all") == ["00"] * len(messages)
    assert (await queue.called(), await queue.waiting()) == (X, [X, Y])
    assert await queue.force_release("another") == 0
    assert await heard(X) == []


class TestLeaving:
    async def test_who_leaves_a_held_lock_tells_the_new_second(
        self, queue: QueueScripts, heard: Hearing
    ) -> None:
        await in_line(queue, X, Y, Z)
        assert await queue.leaves(Y) == 1
        assert await queue.waiting() == [X, Z]
        assert (await heard(X), await heard(Z)) == ([], ["2"])
        assert await queue.leaves(Y) == 0
        assert (await heard(X), await heard(Z)) == ([], [])
        assert await queue.leaves(Z) == await queue.leaves(X) == 1
        assert (await queue.entries(), await queue.called()) == ({}, None)

    async def test_the_third_tells_nobody(self, queue: QueueScripts, heard: Hearing) -> None:
        await in_line(queue, X, Y, Z)
        assert await queue.leaves(Z) == 1
        assert (await heard(X), await heard(Y)) == ([], [])

    async def test_the_one_that_was_called_calls_the_next(
        self, queue: QueueScripts, heard: Hearing
    ) -> None:
        await in_line(queue, X, "dead", Y, Z)
        await queue.release(HOLDER)
        assert await queue.leaves(X) == 1
        assert (await queue.called(), await queue.waiting()) == (Y, [Y, Z])
        assert (await heard(Y), await heard(Z)) == (["2", "0"], ["2"])

    async def test_it_calls_the_first_of_a_free_lock_if_nobody_was_called(
        self, queue: QueueScripts, heard: Hearing
    ) -> None:
        await freed(queue, X, Y)
        assert await queue.leaves(Y) == 1
        assert (await queue.called(), await heard(X)) == (X, ["0"])
        # Late, and once more.
        assert await queue.leaves(Y) == 0
        assert await heard(X) == []

    async def test_it_calls_nobody_beside_one_that_was_called(
        self, queue: QueueScripts, heard: Hearing
    ) -> None:
        await in_line(queue, X, Y, Z)
        await queue.release(HOLDER)
        assert await heard(X) == ["0"]
        assert await queue.leaves(Y) == 1
        assert (await heard(X), await heard(Z), await queue.called()) == ([], ["2"], X)

    async def test_late_it_spares_a_hold(self, queue: QueueScripts, redis: Redis) -> None:
        await in_line(queue, X)
        await queue.release(HOLDER)
        await queue.asks(X)
        before = await everything(redis)
        assert await queue.leaves(X) == 0
        assert await everything(redis) == before


class TestWhatVanishes:
    """The server evicts the queue, or somebody deletes it."""

    async def test_while_it_is_held(self, queue: QueueScripts, heard: Hearing) -> None:
        await in_line(queue, X, Y)
        await ask(queue.redis, "DEL", queue.clients)
        assert await queue.leaves(X) == 0
        assert (await queue.asks(Y))[1] == 0
        assert (await queue.asks(X))[1] == 1
        await ask(queue.redis, "DEL", queue.clients)
        assert await queue.release(HOLDER) == 2
        assert [await heard(each) for each in (X, Y, "all")] == [[], [], ["00"]]
        assert await queue.asks(Y) is None
        assert (await queue.asks(X))[1] == 0

    async def test_after_a_call(self, queue: QueueScripts, heard: Hearing) -> None:
        await in_line(queue, X, Y)
        await queue.release(HOLDER)
        await ask(queue.redis, "DEL", queue.clients)
        assert await queue.asks(Y) is None
        assert (await queue.asks(X))[1] == 0
        await ask(queue.redis, "DEL", queue.clients)
        assert await queue.force_release() == 1
        assert await queue.asks(X) is None

    async def test_all_but_the_note_of_a_call(self, queue: QueueScripts, heard: Hearing) -> None:
        await in_line(queue, X)
        await queue.release(HOLDER)
        await ask(queue.redis, "ZREM", queue.clients, X)
        assert await queue.asks(Y) is None
        assert (await queue.asks(X))[1] == 0
        assert await queue.release(owner_of(Y)) == -1
        assert await queue.asks(X) is None
        assert await queue.entries() == {}

    async def test_a_clock_that_goes_back_leaves_two_notes_and_nobody_stuck(
        self, queue: QueueScripts, heard: Hearing
    ) -> None:
        await freed(queue, X, Y, Z)
        await queue.called_ago(X, LONG)
        await queue.called_ago(Y, LONG)
        for client in (X, Y, Z):
            await queue.joined_ago(client, LONG)
        for _ in range(4):
            if await queue.asks(Z) is None:
                break
        else:
            pytest.fail("nobody gets it")
        assert await queue.release(owner_of(Z)) in (-1, 2)


class TestAKeyOfAnotherType:
    """It keeps nobody from releasing, and nobody waits beside it."""

    @pytest.fixture(autouse=True)
    async def key(self, queue: QueueScripts, redis: Redis) -> AsyncIterator[None]:
        await queue.acquire(HOLDER)
        await queue.acquire(HOLDER, 2)
        await redis.set(queue.clients, "mine")
        yield
        assert await redis.get(queue.clients) == b"mine"
        await redis.delete(queue.clients)
        assert await queue.force_release("the last") in (0, 1)

    @each_way
    async def test_a_holder_goes_on(self, queue: QueueScripts, lease_ms: int) -> None:
        assert await queue.set_lease(HOLDER, LEASE // 2) == 1
        assert await queue.release(HOLDER, 1, lease_ms=lease_ms) == 0
        assert await queue.release(HOLDER, lease_ms=lease_ms) == 1
        assert await queue.acquire(owner_of(X), lease_ms=lease_ms) is None
        assert await queue.release(owner_of(X), 0, lease_ms, TOMBSTONE) == 1
        assert await queue.holds() == {}

    async def test_it_is_freed_by_force(self, queue: QueueScripts) -> None:
        assert await queue.force_release() == 1
        assert await queue.holds() == {}

    @each_way
    @pytest.mark.parametrize("held", [False, True])
    async def test_a_client_that_waits_is_told_the_error(
        self, queue: QueueScripts, redis: Redis, lease_ms: int, held: bool
    ) -> None:
        if not held:
            await queue.release(HOLDER)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await queue.asks(X, lease_ms=lease_ms)
        assert await everything(redis) == before


async def test_the_queue_is_that_of_one_name(scripts: Scripts) -> None:
    assert QueueScripts(scripts, key=b"k").clients == b"{k}:redisson_py:clients"
    assert QueueScripts(scripts, key=b"{t}k").clients == b"{t}k:redisson_py:clients"


CROWD = 10_000


async def test_one_release_passes_over_all_the_dead(
    queue: QueueScripts, redis: Redis, heard: Hearing, measured: Measured
) -> None:
    await queue.acquire(HOLDER)
    dead = [f"0a1b2c3d-4e5f-4071-8293-{n:012x}" for n in range(CROWD)]
    for start in range(0, CROWD, 1000):
        pairs = [word for n in range(start, start + 1000) for word in (start + n, dead[n])]
        await ask(redis, "ZADD", queue.clients, *pairs)
    memory = await ask(redis, "MEMORY", "USAGE", queue.clients, "SAMPLES", "0")
    assert memory < 1_500_000
    assert (await queue.asks(X))[:2] == [-1, CROWD]
    async with Counted(redis) as counted:
        assert await queue.release(HOLDER) == -1
    assert await heard(X) == ["0"]
    assert (await queue.called(), await queue.waiting()) == (X, [X])
    calls = {name: counted.calls[name] for name in ("publish", "zrange", "zrem")}
    assert calls["zrem"] == CROWD
    assert CROWD <= calls["publish"] <= CROWD + 5
    assert CROWD <= calls["zrange"] <= CROWD + 5
    usec = (await redis.info("commandstats"))["cmdstat_evalsha"]["usec"]
    measured(f"{CROWD} dead clients in a queue", f"{memory} bytes, a release of {usec} us")
