"""An election, in every store that has them: a leader, its value, and those that look.

That its leadership is a lock, which is acquired, waited for, lost and cancelled as a lock is, says
tests/contract.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import (
    AcquireTimeoutError,
    ClientClosedError,
    ConnectionLostError,
    Election,
    Leader,
    Leadership,
    LeaseLostError,
    NotHeldError,
)
from redisson_py._time import now
from redisson_py.testing import FaultProxy
from tests.fixtures.measured import Measured
from tests.stores.backends import CLIENT_LEASE, LEASE, Backend
from tests.stores.conftest import NewClient
from tests.stores.election_support import (
    ELECTION_STORES,
    Observer,
    Resource,
    Stalls,
    leading,
    queued,
    until_stopped,
)
from tests.stores.workers import WorkerError, ours
from tests.support.waiting import until, until_async

_numbers = itertools.count(1)

pytestmark = pytest.mark.parametrize("backend", ELECTION_STORES, indirect=True)


@pytest.fixture
def name() -> str:
    return f"/elections/{next(_numbers)}"


@pytest.fixture
def election(client: Any, name: str) -> Election:
    made: Election = client.get_election(name)
    return made


@pytest.fixture
def others(other: Any, name: str) -> Election:
    """The same election, of another client."""
    made: Election = other.get_election(name)
    return made


@pytest_asyncio.fixture
async def proxy(backend: Backend) -> AsyncIterator[FaultProxy]:
    async with backend.proxy() as started:
        yield started


async def test_a_leader_and_its_value(
    election: Election, others: Election, backend: Backend
) -> None:
    assert await others.leader() is None
    async with election.campaign("host-1:8080") as leadership:
        assert isinstance(leadership, Leadership)
        assert await others.leader() == Leader(b"host-1:8080", leadership.token)
        await leadership.proclaim("host-1:9090")
        found = await others.leader()
        assert found is not None
        assert (found.text, found.token) == ("host-1:9090", leadership.token)
        with pytest.raises(AcquireTimeoutError):
            async with others.campaign("host-2", timeout=0):
                pytest.fail("two lead")
        assert await others.leader() == found
        snapshot, own = await others.inspect(), await election.inspect()
        assert [each.owner for each in own.holders] == [leadership.owner]
        # A node of ZooKeeper has what its leader says, and not who that is.
        shown = "host-1:9090" if backend.ends_leases is False else leadership.owner
        assert [each.owner for each in snapshot.holders] == [shown]
    assert await others.leader() is None
    async with others.campaign(b"\xff\0\r\n") as second:
        assert second.token > leadership.token
        assert await election.leader() == Leader(b"\xff\0\r\n", second.token)
    async with others.campaign("") as third:
        assert await election.leader() == Leader(b"", third.token)
        await third.proclaim("x" * 100_000)
        assert await election.leader() == Leader(b"x" * 100_000, third.token)


async def test_acquired_and_released_by_hand(election: Election, others: Election) -> None:
    leadership = await election.acquire("one", timeout=10)
    assert await others.leader() == Leader(b"one", leadership.token)
    with pytest.raises(AcquireTimeoutError):
        await others.acquire("two", timeout=0)
    with pytest.raises(RuntimeError, match="this task already holds"):
        await election.acquire("again")
    await asyncio.create_task(leadership.release())
    assert await others.leader() is None
    with pytest.raises(NotHeldError):
        await leadership.proclaim("too late")
    async with await others.acquire("three") as third:
        assert third.token > leadership.token
    assert await election.leader() is None


async def test_what_is_refused(election: Election, client: Any) -> None:
    async with election.campaign("one") as leadership:
        with pytest.raises(RuntimeError, match="this task already holds"):
            async with election.campaign("two"):
                pytest.fail("it leads twice")
        for value in (17, None, bytearray(b"one")):
            wrong: Any = value
            with pytest.raises(TypeError, match="value must be str or bytes"):
                election.campaign(wrong)
            with pytest.raises(TypeError, match="value must be str or bytes"):
                await election.acquire(wrong)
            with pytest.raises(TypeError, match="value must be str or bytes"):
                await leadership.proclaim(wrong)
        with pytest.raises(ValueError, match="value is not valid text"):
            election.campaign("\ud800")
        with pytest.raises(ValueError, match="value is not valid text"):
            await leadership.proclaim("\ud800")
    with pytest.raises(ValueError, match="max_hold"):
        election.campaign("one", max_hold=0)
    with pytest.raises(ValueError, match="timeout"):
        await election.acquire("one", timeout=-1)
    with pytest.raises(ValueError, match="name must"):
        client.get_election("")
    with pytest.raises(NotHeldError, match="was already released"):
        await leadership.proclaim("too late")
    assert repr(election) == f"<Election {election.name!r}>"


@pytest.mark.usefixtures("no_polls")
async def test_candidates_are_elected_in_the_order_in_which_they_came(
    election: Election, others: Election
) -> None:
    """Those of one client stand beside each other on the server, each with its value."""
    led: list[bytes] = []

    async def campaign(one: Election, value: str) -> int:
        async with one.campaign(value) as leadership:
            found = await election.leader()
            assert found is not None
            assert found.token == leadership.token
            led.append(found.value)
            return leadership.token

    candidates = [(election, "a1"), (others, "b1"), (election, "a2"), (others, "b2")]
    async with election.campaign("first"):
        waiting = []
        for count, candidate in enumerate(candidates, 1):
            waiting.append(asyncio.create_task(campaign(*candidate)))
            await queued(election, count)
    tokens = await asyncio.gather(*waiting)
    assert led == [b"a1", b"b1", b"a2", b"b2"]
    assert tokens == sorted(tokens)


async def test_each_change_is_seen(election: Election, others: Election) -> None:
    async with Observer(others) as observer, Observer(election) as beside:

        async def saw(value: str | None) -> None:
            # Changes that follow at once on each other may be told as one.
            await observer.saw_last(value)
            await beside.saw_last(value)

        await saw(None)
        async with election.campaign("one") as leadership:
            await saw("one")
            await leadership.proclaim("two")
            await saw("two")
            # No change.
            await leadership.proclaim("two")
            await leadership.extend(60)
            await leadership.proclaim("three")
            await saw("three")
            async with leading(others, "next") as elected:
                # One that waits is no change either.
                assert not elected.done()
                await leadership.release()
                await saw("next")
                after = (await elected).token
            await saw(None)
        tokens = [leader.token for leader in observer.leaders if leader is not None]
        assert tokens == sorted(tokens)
        assert {*tokens} == {leadership.token, after}
        for earlier, later in itertools.pairwise(observer.leaders):
            assert earlier != later, "told twice"


@pytest.mark.usefixtures("no_polls")
async def test_observers_are_rung_for(
    election: Election, others: Election, backend: Backend
) -> None:
    """Without the safety poll: nothing but what the server says wakes them."""
    if backend.polls:
        pytest.skip("its observers poll")
    async with Observer(others) as observer:
        for number in range(3):
            async with election.campaign(str(number)) as leadership:
                await observer.saw_last(str(number))
                await leadership.proclaim(f"{number} again")
                await observer.saw_last(f"{number} again")
            await observer.saw_last(None)
        async with leading(election, "forced"):
            await observer.saw_last("forced")
            assert await others._candidate(b"").force_release()
            await observer.saw_last(None)


async def test_a_slow_observer_sees_the_newest(election: Election, others: Election) -> None:
    states = others.observe()
    assert await anext(states) is None
    async with election.campaign("one") as leadership:
        for value in ("two", "three", "four"):
            await leadership.proclaim(value)
        assert await anext(states) == Leader(b"four", leadership.token)
    assert await anext(states) is None
    await states.aclose()


async def test_an_observer_that_leaves_leaves_nothing(
    election: Election, other: Any, name: str
) -> None:
    others: Election = other.get_election(name)
    async for leader in others.observe():
        assert leader is None
        break
    observer = Observer(others)
    async with observer:
        assert other.statistics().waiters == 1
    assert observer.task.cancelled()
    assert other.statistics().waiters == 0
    waiting = asyncio.create_task(_observed(others))
    async with election.campaign("one"):
        await until(lambda: other.statistics().waiters == 1)
        await other.aclose()
        with pytest.raises(ClientClosedError):
            await waiting


async def _observed(election: Election) -> None:
    async for _ in election.observe():
        pass


async def test_the_leader_of_a_lost_lease(election: Election, others: Election) -> None:
    """A leader that was deposed is told, and proclaims nothing."""
    async with contextlib.AsyncExitStack() as stack:
        leadership = await election.acquire("one")
        await stack.enter_async_context(leading(others, "two"))
        assert await others._candidate(b"").force_release()

        async def led_by_two() -> bool:
            found = await others.leader()
            return found is not None and found.text == "two"

        await until_async(led_by_two)
        with pytest.raises(LeaseLostError) as caught:
            await leadership.proclaim("still one")
        assert caught.value.reason == "taken"
        assert leadership.lost
        with pytest.raises(LeaseLostError):
            await leadership.proclaim("still one")
        found = await others.leader()
        assert found is not None
        assert found.text == "two"
        assert found.token > leadership.token


async def test_a_leader_that_vanishes_is_followed_by_the_next(
    proxy: FaultProxy, backend: Backend, new_client: NewClient, others: Election, name: str
) -> None:
    """Its lease ends on the server, observers see it, and the candidate that waits leads."""
    lost: Any = new_client(url=backend.url_at(proxy.port), lease_time=LEASE, command_timeout=LEASE)
    leadership = await lost.get_election(name).acquire("lost")
    async with Observer(others) as observer:
        await observer.saw_last("lost")
        proxy.hold()
        async with others.campaign("next", timeout=10 * CLIENT_LEASE) as following:
            assert following.token > leadership.token
            await leadership.wait_lost()
            await observer.saw_last("next")
        await observer.saw_last(None)
        proxy.release_held()
        with pytest.raises((LeaseLostError, ConnectionLostError)):
            await leadership.release()
    await until(lambda: not lost._context.watchdog.holds)


#: Seconds of a lease of which a tenth is more than the server counts in: etcd looks twice a second,
#: and those that wait for MariaDB ask again as often.
LEASE_TO_OUTLIVE = {"mysql": 6, "etcd": 10}


async def test_a_leader_that_is_stopped_is_followed_within_a_lease(
    election: Election,
    other: Any,
    backend: Backend,
    name: str,
    measured: Measured,
    request: pytest.FixtureRequest,
) -> None:
    """SIGSTOP. The resource that checks tokens refuses what it writes when it goes on."""
    store, resource = request.node.callspec.params["backend"], Resource()
    lease = LEASE_TO_OUTLIVE.get(store, 3)
    # A session of ZooKeeper is longer than the lease, so that the client knows first.
    ends_within = lease * backend.session / CLIENT_LEASE
    others: Election = other.get_election(name)
    with ours(store, backend, lease) as worker:
        assert await worker.acquire(f"election:{name}", wait=30)
        stopped = await others.leader()
        assert stopped is not None
        assert resource.write(stopped.token)
        async with Observer(others) as observer, leading(election, "next") as elected:
            assert not elected.done()
            worker.pause()
            await until_stopped(worker.pid)
            since = now()
            async with Stalls(others) as stalls, asyncio.timeout(10 * lease):
                leadership = await elected
                took = now() - since
            assert resource.write(leadership.token)
            assert not resource.write(stopped.token)
            worker.resume()
            with pytest.raises(WorkerError, match="LeaseLostError"):
                await worker.release(f"election:{name}")
            assert await others.leader() == Leader(b"next", leadership.token)
            assert not leadership.lost
            await observer.saw_last("next")
            assert observer.seen[0] == "ours"
    measured(f"{store}: a leader stopped is followed after, of its lease", f"{took / lease:.3f}")
    assert took - stalls.seconds <= 1.1 * ends_within


async def test_a_lost_reply_to_a_proclamation(
    proxy: FaultProxy, backend: Backend, new_client: NewClient, others: Election, name: str
) -> None:
    """It was carried out once; the next one counts."""
    client: Any = new_client(url=backend.url_at(proxy.port))
    async with client.get_election(name).campaign("one") as leadership:
        # Some drivers ask twice what they send for the first time.
        await leadership.proclaim("heard")
        for number in range(3):
            proxy.black_hole("down")
            unheard = asyncio.create_task(leadership.proclaim(f"unheard {number}"))

            async def published(value: str = f"unheard {number}") -> bool:
                found = await others.leader()
                return found is not None and found.text == value

            await until_async(published)
            proxy.pass_through()
            proxy.cut()
            with contextlib.suppress(ConnectionLostError):
                await unheard
            await leadership.proclaim(f"heard {number}")
            assert await others.leader() == Leader(f"heard {number}".encode(), leadership.token)


async def test_a_cancelled_campaign_leaves_no_candidate(
    election: Election, others: Election
) -> None:
    async with election.campaign("one"):
        waiting = asyncio.create_task(others.acquire("two"))
        await queued(election, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await queued(election, 0)
    async with election.campaign("three", timeout=CLIENT_LEASE):
        pass
