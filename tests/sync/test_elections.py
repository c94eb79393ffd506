"""Threads that stand for election, and that observe, on each store."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from redisson_py import (
    AcquireTimeoutError,
    ClientClosedError,
    Leader,
    LeaseLostError,
    NotHeldError,
)
from redisson_py.sync import Election, Leadership
from tests.fixtures.backends import Running as RunningBackend
from tests.sync.interrupting import Interrupted, interrupted_at, raising_handler, signal_when
from tests.sync.stores import CLIENTS, StoreClients, new_client
from tests.sync.threads import BUSY_WAIT, Running, in_thread, until, until_waiting

_numbers = itertools.count(1)

pytestmark = pytest.mark.parametrize("name", ["redis", *CLIENTS])


@pytest.fixture
def stores(name: str, running_backend: RunningBackend) -> Iterator[StoreClients]:
    """Make clients of a store, which are closed when the test is over."""
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> Any:
            return stack.enter_context(new_client(name, running_backend(name), **options))

        yield make


@pytest.fixture
def store(stores: StoreClients) -> Any:
    return stores()


@pytest.fixture
def called() -> str:
    return f"/leaders/{next(_numbers)}"


@pytest.fixture
def election(store: Any, called: str) -> Election:
    made: Election = store.get_election(called)
    return made


def test_an_election(election: Election, called: str) -> None:
    assert election.leader() is None
    with election.campaign("one") as leadership:
        assert isinstance(leadership, Leadership)
        assert election.leader() == Leader(b"one", leadership.token)
        leadership.proclaim(b"two")
        found = in_thread(election.leader)
        assert found is not None
        assert found.text == "two"
        with pytest.raises(RuntimeError):
            election.campaign("again").__enter__()
        with pytest.raises(AcquireTimeoutError):
            in_thread(election.campaign("other", timeout=BUSY_WAIT).__enter__)
        (holder,) = election.inspect().holders
        assert holder.owner == leadership.owner
    assert election.leader() is None
    with pytest.raises(NotHeldError):
        leadership.proclaim("late")
    with pytest.raises(TypeError):
        election.campaign(5)  # type: ignore[arg-type]
    assert election.name == called


def test_candidates_lead_in_their_order(election: Election) -> None:
    order: list[str] = []

    def stand(value: str) -> int:
        with election.campaign(value) as leadership:
            found = election.leader()
            assert found is not None
            order.append(found.text)
            return leadership.token

    with election.campaign("first") as leadership:
        running = []
        for number in range(3):
            running.append(Running(lambda number=number: stand(str(number))))  # type: ignore[misc]
            until(lambda: len(election.inspect().waiters or ()) == len(running))
    tokens = [leadership.token, *[each.result() for each in running]]
    assert order == ["0", "1", "2"]
    assert sorted(set(tokens)) == tokens


def test_a_function_that_leads(store: Any) -> None:
    election: Election = store.get_election("/leaders/{region}")

    @election.campaign("host-1", timeout=60)
    def lead(region: str) -> str:
        found = store.get_election(f"/leaders/{region}").leader()
        assert found is not None
        return str(found.text)

    assert lead("north") == "host-1"
    assert store.get_election("/leaders/north").leader() is None


def test_a_leader_that_is_deposed_hears_of_it(
    name: str, stores: StoreClients, election: Election, called: str
) -> None:
    """The thread that waits for the loss too, and the block ends with it."""
    other = stores()
    # Whose keys a candidate's are.
    lock = other.get_fair_lock(called) if name == "redis" else other.get_lock(called)
    with pytest.raises(LeaseLostError):
        with election.campaign("one") as leadership:
            watching = Running(leadership.wait_lost)
            assert lock.force_release()
            with other.get_election(called).campaign("two") as following:
                assert following.token > leadership.token
                with pytest.raises(LeaseLostError):
                    leadership.proclaim("still one")
                found = election.leader()
                assert found is not None
                assert found.text == "two"
            assert watching.result() is True
            with pytest.raises(LeaseLostError):
                leadership.check()


def test_an_observer_sees_each_state(store: Any, election: Election) -> None:
    with contextlib.closing(election.observe()) as states:
        assert next(states) is None
        with election.campaign("one") as leadership:
            assert next(states) == Leader(b"one", leadership.token)
            # From any thread, that waits.
            waiting = Running(lambda: next(states))
            until_waiting(store)
            leadership.proclaim("two")
            assert waiting.result() == Leader(b"two", leadership.token)
        assert next(states) is None
    assert list(states) == []
    states.close()


#: Where a store has its observers. That of MySQL has only those that wait.
OBSERVERS: dict[str, Callable[[Any], Any]] = {
    "postgres": lambda store: store._listening._observers,
    "etcd": lambda store: store._watches._by_waiter,
    "zookeeper": lambda store: store._elections._observed,
}


def test_an_observer_that_leaves_its_loop_leaves_nothing(
    name: str, store: Any, election: Election
) -> None:
    observers = OBSERVERS.get(name)
    for state in election.observe():
        assert state is None
        assert observers is None or len(observers(store._working._store)) == 1
        break
    gc.collect()
    until(lambda: observers is None or not observers(store._working._store))
    assert store.statistics().waiters == 0


def test_an_interrupted_observer_ends(store: Any, election: Election) -> None:
    states = election.observe()
    assert next(states) is None
    with raising_handler():
        watching = signal_when(lambda: until_waiting(store))
        with pytest.raises(Interrupted):
            next(states)
        watching.result()
    assert store.statistics().waiters == 0
    assert list(states) == []


def test_an_observer_that_is_interrupted_at_any_instruction_misses_no_state(
    store: Any, election: Election
) -> None:
    steps = 0
    for step in itertools.count():
        states = election.observe()
        if not interrupted_at(step, partial(next, states)):
            break
        # It has ended, or begins with what is; it never waits for a change from what nobody saw.
        assert next(states, "ended") in (None, "ended")
        steps = step
        states.close()
    assert steps > 20
    until(lambda: store.statistics().waiters == 0)


def test_an_interrupted_candidate_stands_no_more(
    stores: StoreClients, election: Election, called: str
) -> None:
    other = stores()
    with election.campaign("one"):
        with raising_handler():
            watching = signal_when(
                lambda: until(lambda: len(election.inspect().waiters or ()) == 1)
            )
            with pytest.raises(Interrupted):
                other.get_election(called).acquire("two")
            watching.result()
        statistics = other.statistics()
        assert (statistics.waiters, statistics.held_leases) == (0, 0)
        until(lambda: not election.inspect().waiters)
    with other.get_election(called).campaign("two", timeout=60):
        pass


def test_a_campaign_that_is_interrupted_at_any_instruction_leads_nobody(
    store: Any, election: Election
) -> None:
    def work() -> None:
        with election.campaign("one") as leadership:
            leadership.proclaim("two")

    work()
    steps = 0
    for step in itertools.count():
        if not interrupted_at(step, work):
            break
        until(lambda: store.statistics().held_leases == 0)
        steps = step
    assert steps > 50
    assert election.leader() is None


def test_closing_the_client_ends_its_leader_candidates_and_observers(
    stores: StoreClients, called: str
) -> None:
    client, other = stores(), stores()
    election = client.get_election(called)
    states = election.observe()
    assert next(states) is None
    leadership = election.acquire("one")
    assert next(states) == Leader(b"one", leadership.token)
    ending = [Running(lambda: next(states)), Running(lambda: election.acquire("two"))]
    until(lambda: len(election.inspect().waiters or ()) == 1)
    until_waiting(client, 2)
    following = Running(lambda: other.get_election(called).acquire("three"))
    until(lambda: len(election.inspect().waiters or ()) == 2)
    client.close()
    assert [type(each.error()) for each in ending] == [ClientClosedError] * 2
    assert leadership.lost
    # The next one leads long before the lease of the first would end.
    assert following.result().token > leadership.token
    following.result().release()
