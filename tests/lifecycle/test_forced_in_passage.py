"""Forced releases: who learns of one, also while the hold is passed between tasks of its client."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from redisson_py import LeaseLostError
from redisson_py._engine.context import check_client
from tests.support.kinds import DISTINCT_LOCKS, KINDS, LOCKS, Party, Stage, in_a_task, reason_of
from tests.support.streams import answered
from tests.support.waiting import until

#: Those that a task can hand to another.
PASSED_ON = [name for name, kind in KINDS.items() if kind.passes and name != "expirable_semaphore"]

#: Those of them that have `force_release()`.
PASSING = [name for name in PASSED_ON if not KINDS[name].semaphore]

both_ways = pytest.mark.parametrize("short", [True, False], ids=["async_with", "with_a_timeout"])

#: Turns of the event loop over which a hand-off goes, a pass that is taken back included.
ITERATIONS = 3


class Holder:
    """A task that acquires, and what it believes.

    Attributes:
        lease: Its lease, while its block goes on.
    """

    def __init__(self, block: Any) -> None:
        self.lease: Any = None
        self.may_leave = asyncio.Event()
        self.task = asyncio.create_task(self._hold(block))

    async def _hold(self, block: Any) -> None:
        async with block as lease:
            self.lease = lease
            try:
                await self.may_leave.wait()
            finally:
                self.lease = None

    @property
    def believes(self) -> bool:
        """Whether its block goes on, and nobody has told it of a loss."""
        return self.lease is not None and not self.lease.lost


class Gate:
    """Keeps the answer to a forced release from its caller until a moment of the test's choice."""

    def __init__(self, party: Party) -> None:
        self.answered = 0
        self._open = asyncio.Event()
        members = getattr(party.thing._ownership, "owners", None) or [party.thing._ownership]
        self.number = len(members)
        for member in members:
            view = _Gated(member.view, self)
            member.make_view = lambda *_, view=view: view

    def open(self) -> None:
        """Let the caller have the answer."""
        self._open.set()

    async def pass_through(self) -> None:
        """Wait until it is open."""
        self.answered += 1
        await self._open.wait()


class _Gated:
    """A view whose forced release is carried out by the server at once, and returns later."""

    def __init__(self, view: Any, gate: Gate) -> None:
        self._view, self._gate = view, gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    async def force_release(self) -> Any:
        answer = await self._view.force_release()
        await self._gate.pass_through()
        return answer


def after(iterations: int, act: Callable[[], object]) -> None:
    """Act after this many turns of the event loop."""
    loop = asyncio.get_running_loop()
    loop.call_soon(act if iterations == 0 else lambda: after(iterations - 1, act))


async def iterations() -> None:
    """Return after all of an order was played."""
    for _ in range(2 * ITERATIONS):
        await asyncio.sleep(0)


Order = list[tuple[int, str]]


def orders() -> Iterator[Order]:
    """Yield what is done in which turn: the holder leaves, the event, the next is cancelled.

    Acts of the same turn are done in the order in which they are listed.
    """
    for event, cancel in itertools.product(range(ITERATIONS), [None, *range(ITERATIONS)]):
        acts = [(0, "leave"), (event, "event")]
        if cancel is not None:
            acts.append((cancel, "cancel"))
        yield from map(list, itertools.permutations(acts))


class Scene:
    """Three tasks of one client: one holds, and two wait in the local queue.

    Attributes:
        holders: The tasks.
    """

    def __init__(self, stage: Stage, party: Party, short: bool) -> None:
        self.holders: list[Holder] = []
        self._stage, self._party, self._short = stage, party, short

    async def begin(self) -> None:
        """Return when the first holds and the others wait."""
        for number in range(3):
            thing = self._party.thing
            self.holders.append(Holder(thing if self._short else thing.hold(timeout=60)))
            if number:
                await until(lambda: self._party.waiters == number)  # noqa: B023
            else:
                await until(lambda: self.holders[0].lease)

    def play(self, order: Order, event: Callable[[], object]) -> None:
        """Do these things in this order from now on."""
        acts = {
            "leave": self.holders[0].may_leave.set,
            "event": event,
            "cancel": self.holders[1].task.cancel,
        }
        for iteration, act in order:
            after(iteration, acts[act])

    async def assert_one_holder(self, rival: Any) -> None:
        """Fail if a task believes that it holds what the server gives to another client."""
        for client in self._party.clients:
            check_client(client)
        lease = await rival.try_acquire()
        if lease is not None:
            assert not any(holder.believes for holder in self.holders), "two holders"
            await lease.release()

    async def assert_all_reported(self, order: Order, *also: type[BaseException]) -> None:
        """Let all go on; each must end undisturbed, or because it was told of the loss."""
        for holder in self.holders:
            holder.may_leave.set()
        tasks = [each.task for each in self.holders]
        first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in (first, third):
            assert outcome is None or isinstance(outcome, (LeaseLostError, *also)), order
        cancelled = (LeaseLostError, asyncio.CancelledError, *also)
        assert second is None or isinstance(second, cancelled), order


async def scenes(stage: Stage, party: Party, short: bool) -> AsyncIterator[tuple[Order, Scene]]:
    """Yield a scene for each order in which things can happen."""
    for order in orders():
        scene = Scene(stage, party, short)
        await scene.begin()
        yield order, scene


@both_ways
@pytest.mark.parametrize("stage", PASSING, indirect=True)
async def test_nobody_believes_in_a_hold_that_was_forced(stage: Stage, short: bool) -> None:
    party, rival = await stage.party(turn=60).connected(), await stage.rival().connected()
    async for order, scene in scenes(stage, party, short):
        forced = stage.kind.make(party.clients, stage.name, 1)
        gate = Gate(Party(party.clients, forced))
        forcing = asyncio.create_task(forced.force_release())
        await until(lambda: gate.answered == gate.number)  # noqa: B023
        scene.play(order, gate.open)
        await forcing
        await scene.assert_one_holder(rival.thing)
        await scene.assert_all_reported(order)
    await stage.assert_nothing_held(party)


@both_ways
@pytest.mark.parametrize("stage", PASSED_ON, indirect=True)
async def test_nobody_believes_in_a_hold_that_the_server_has_lost(
    stage: Stage, short: bool
) -> None:
    party, rival = await stage.party(turn=60).connected(), await stage.rival().connected()

    def lose() -> None:
        # As when the answer to a renewal comes.
        for client in party.clients:
            for hold in list(client._watchdog.holds):
                client._watchdog.lose(hold, "taken")

    async for order, scene in scenes(stage, party, short):
        await stage.wipe()
        scene.play(order, lose)
        await iterations()
        await scene.assert_one_holder(rival.thing)
        await scene.assert_all_reported(order)
    await stage.assert_nothing_held(party)


@pytest.mark.parametrize("stage", LOCKS, indirect=True)
async def test_a_lease_learns_of_it_whose_task_has_ended(stage: Stage) -> None:
    party = await stage.party().connected()
    lease = await in_a_task(party.thing.acquire())
    gc.collect()
    assert party.thing.statistics().held_leases == 1
    assert await party.thing.force_release()
    assert lease.lost
    assert party.thing.statistics().held_leases == 0
    with pytest.raises(LeaseLostError) as caught:
        await lease.release()
    assert reason_of(caught.value) == "forced"
    await stage.assert_nothing_held(party)


locks = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
"""For those that have `force_release()`."""

#: Less than a third of the lease, so that no renewal reports the loss first.
SOON = 5


@pytest.mark.parametrize("stage", ["red_lock"], indirect=True)
async def test_forced_release_spares_what_is_granted_behind_it(stage: Stage) -> None:
    party = stage.party()
    for client in party.clients:
        await answered(client)
    await stage.servers[0].hset(stage.name, "somebody:1", 1)
    forcing = asyncio.create_task(party.clients[0].get_lock(stage.name).force_release())
    lease = await in_a_task(party.thing.acquire())
    assert await forcing is True
    await lease.release()
    await stage.assert_nothing_held(party)


@locks
async def test_forced_inside_two_blocks_ends_both(stage: Stage) -> None:
    party = stage.party()
    leases: list[Any] = []

    async def work() -> None:
        async with party.thing as outer:
            leases.append(outer)
            async with party.thing as inner:
                leases.append(inner)
                await asyncio.sleep(30)

    task = asyncio.create_task(work())
    await until(lambda: len(leases) == 2)
    assert await party.thing.force_release() is True
    assert [lease.lost for lease in leases] == [True, True]
    with pytest.raises(LeaseLostError) as caught:
        async with asyncio.timeout(SOON):
            await task
    await stage.assert_nothing_held(party)
    assert reason_of(caught.value) == "forced"
