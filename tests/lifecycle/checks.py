"""The invariants between any two steps, checked from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from redisson_py._engine.context import check_client
from tests.lifecycle.subjects import PERMITS
from tests.lifecycle.world import CLIENTS, SOON, World

#: How often an observation may be overtaken by a change and is repeated.
TRIES = 4

#: Seconds for which the server may keep a short lease that is over here: it began when its request
#: arrived, which a busy machine delays. Less than any lease that ends only when it is released.
_LATE = 2.0


async def check(world: World) -> None:
    """Fail unless every invariant of a step holds."""
    world.collect()
    for actor in world.actors + world.ended:
        assert not actor.findings, actor.findings
    assert not world.findings, world.findings
    _nothing_ended_without_a_cause(world)
    _nobody_holds_what_another_has(world)
    _no_block_ended_with_its_acquisition(world)
    await _leases_are_covered_by_the_server(world)
    await _somebody_is_served(world)
    _nobody_holds_what_another_has(world)
    await _soon(lambda: _counted_here(world))
    await _soon(lambda: _counted_there(world))
    for number, client in enumerate(world.clients):
        if number not in world.closed:
            check_client(client)


async def check_end(world: World) -> None:
    """Fail unless nothing is left after every block was left."""
    world.collect()
    await check(world)
    for number, client in enumerate(world.clients):
        if number in world.closed:
            continue
        statistics = client.statistics()
        assert (statistics.waiters, statistics.held_leases) == (0, 0), statistics
        for target in world.targets[number].values():
            async with asyncio.timeout(SOON), target:
                pass
        # With several connections, what a cancelled wait had sent, and its undo, may come later.
        await world.surroundings.answered(client)
    # What has ended by itself ends later on the server: by as much as its request was under way.
    ended = any(grip.own_end and grip.lost for grip in world.grips)
    await _soon(lambda: _still_counted(world), _LATE if ended else 0.0)
    # A request that was under way when its connection broke may come now, and is undone.
    await _soon(lambda: _lasting(world))


async def _still_counted(world: World) -> str:
    counts = await world.subject.taken(world.redis, world.observer)
    return f"the server still counts {counts}" if any(counts) else ""


async def _lasting(world: World) -> str:
    lasting = await world.surroundings.lasting()
    return f"never expire: {lasting}" if lasting else ""


def _nothing_ended_without_a_cause(world: World) -> None:
    for grip in world.grips:
        if grip.held or grip.client in world.closed:
            continue
        if grip.lost:
            # The second client may lose leases on a stalled machine; the first has half a minute.
            excused = grip.own_end or grip.severed or CLIENTS[grip.client]["lease_time"] < 10
            assert excused, f"lost without a cause: {grip}"
        else:
            assert grip.may_go, f"released by somebody whom it does not concern: {grip}"


def _nobody_holds_what_another_has(world: World) -> None:
    held = [grip for grip in world.held() if not grip.severed]
    if world.subject.is_semaphore:
        assert sum(grip.units for grip in held) <= PERMITS, f"more are out than there are: {held}"
        return
    writers = {grip.task for grip in held if grip.side != "read"}
    if writers:
        everybody = {grip.task for grip in held}
        assert len(everybody) == 1, f"held by several: {held}"


def _no_block_ended_with_its_acquisition(world: World) -> None:
    for grip in world.grips:
        if grip.block is not None and grip.block.ended:
            assert not grip.held, f"left, and still held: {grip}, {grip.block.error!r}"


async def _leases_are_covered_by_the_server(world: World) -> None:
    """No holder may rely on a lease for longer than the server keeps it."""
    wrong: list[str] = []
    for _ in range(TRIES):
        leases = [grip.lease for grip in world.held() if not grip.severed]
        if not leases:
            return
        ends = await world.subject.lease_ends(world.redis, world.observer, leases)
        wrong = [
            f"the server keeps it for {left} s more: {lease!r}"
            for lease, left in ends
            if lease.remaining > max(0.0, left)
        ]
        if not wrong:
            return
    raise AssertionError(wrong)


async def _somebody_is_served(world: World) -> None:
    """A waiter acquires as soon as nothing is held."""

    def served() -> bool:
        world.collect()
        waits = [wait for n in range(len(CLIENTS)) for wait in world.pending(n)]
        if len(world.subject.keys) > 1 and any(
            grip.lost and not grip.reported for grip in world.grips
        ):
            return True
        # A waiter that no message reached delays those behind it, until it asks by itself.
        return bool(world.held()) or not waits or any(wait.untold for wait in waits)

    async def refused() -> str:
        if served():
            return ""
        kept = await world.subject.taken(world.redis, world.observer)
        waits = [repr(wait) for n in range(len(CLIENTS)) for wait in world.pending(n)]
        return f"nobody holds it, and nobody who waits gets it: {kept}, {waits}"

    if not world.closed:
        await _soon(refused)


async def _counted_here(world: World) -> str:
    for number, client in enumerate(world.clients):
        if number in world.closed:
            continue
        world.collect()
        waits = world.pending(number)
        statistics = client.statistics()
        each = world.subject.leases
        if each > 1 and waits:
            continue  # it may have some members and wait for others
        grips = [grip for grip in world.grips if grip.client == number]
        held = sum(grip.held for grip in grips)
        unreported = sum(grip.lost and not grip.reported for grip in grips)
        if not held * each <= statistics.held_leases <= (held + unreported) * each:
            return f"client {number} counts {statistics.held_leases} leases: {grips}"
        if statistics.waiters != len(waits) and each == 1:
            return f"client {number} counts {statistics.waiters} waiters of {len(waits)}"
    return ""


async def _counted_there(world: World) -> str:
    grips = world.grips
    if any(grip.severed and grip.held for grip in grips):
        return ""
    if len(world.subject.keys) > 1 and world.waits:
        return ""
    counts = await world.subject.taken(world.redis, world.observer)
    world.collect()
    held = sum(grip.units for grip in world.held())
    unreported = sum(grip.units for grip in grips if grip.lost and not grip.reported)
    if "read" in world.subject.sides:
        # A reader's hold that has ended stays in the hash until the next script runs.
        unreported = sum(grip.units for grip in grips if grip.lost)
    # The other members are there until the composite is released.
    most = held + unreported if held or len(world.subject.keys) > 1 else 0
    # A late duplicate of a request may get it for a waiter whom no message reached: it asks later.
    most += sum(wait.units for wait in world.waits if wait.untold)
    if not world.subject.counts_holds:
        held, most = min(held, 1), min(most, 1)
    if any(not held <= count <= most for count in counts):
        return f"the server counts {counts}: {grips}"
    return ""


async def _soon(problem: Callable[[], Awaitable[str]], seconds: float = SOON) -> None:
    """Fail if there is still a problem after `seconds`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while text := await problem():
        assert loop.time() < end, text
        await asyncio.sleep(0.002)
