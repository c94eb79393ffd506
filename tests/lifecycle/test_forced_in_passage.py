"""A forced release at every point of a hand-off between tasks of its own client (issue 31).

While the local queue passes a hold, no task has it: the one that released it does not any more, and
the next one has had no turn yet. Whoever asks which holds there are must find it all the same.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redisson_py import LeaseLostError
from redisson_py._engine.invariants import check_client
from tests.support.kinds import KINDS, Party, Stage
from tests.support.waiting import until

#: Those that a task can hand to another, and that have `force_release()`.
PASSING = [name for name, kind in KINDS.items() if kind.passes and not kind.semaphore]
#: Those that every task asks the server for.
NOT_PASSING = [name for name, kind in KINDS.items() if not (kind.passes or kind.semaphore)]

#: Turns of the event loop over which a hand-off goes, a pass that is taken back included.
TURNS = 4


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
            member.view = _Gated(member.view, self)

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


def after(turns: int, act: Callable[[], object]) -> None:
    """Act after this many turns of the event loop."""
    loop = asyncio.get_running_loop()
    loop.call_soon(act if turns == 0 else lambda: after(turns - 1, act))


Order = list[tuple[int, str]]


def orders() -> Iterator[Order]:
    """Yield what is done in which turn: the holder leaves, the answer comes, the next is cancelled.

    Acts of the same turn are done in the order in which they are listed.
    """
    for answer, cancel in itertools.product(range(TURNS), [None, *range(TURNS)]):
        acts = [(0, "leave"), (answer, "answer")]
        if cancel is not None:
            acts.append((cancel, "cancel"))
        yield from map(list, itertools.permutations(acts))


async def hand_off(stage: Stage, party: Party, rival: Any, short: bool, order: Order) -> None:
    """Force the release of a lock that one task hands to the next, in this order."""
    thing = party.thing
    queued = party.waiters
    holders = [Holder(thing if short else thing.hold(timeout=60))]
    await until(lambda: holders[0].lease)
    for number in (1, 2):
        holders.append(Holder(thing if short else thing.hold(timeout=60)))
        await until(lambda number=number: party.waiters == queued + number)  # type: ignore[misc]
    forcing_thing = stage.kind.make(party.clients, stage.name, 1)
    gate = Gate(Party(party.clients, forcing_thing))
    forcing = asyncio.create_task(forcing_thing.force_release())
    await until(lambda: gate.answered == gate.number)
    acts = {
        "leave": holders[0].may_leave.set,
        "answer": gate.open,
        "cancel": holders[1].task.cancel,
    }
    for turn, act in order:
        after(turn, acts[act])
    await forcing
    for each in party.clients:
        check_client(each)
    lease = await rival.try_acquire()
    if lease is not None:
        # The server has let another client in.
        assert not any(holder.believes for holder in holders), f"two holders after {order}"
        await lease.release()
    for holder in holders:
        holder.may_leave.set()
    outcomes = await asyncio.gather(*(each.task for each in holders), return_exceptions=True)
    assert isinstance(outcomes[0], LeaseLostError | None), order
    assert isinstance(outcomes[1], LeaseLostError | asyncio.CancelledError | None), order
    assert isinstance(outcomes[2], LeaseLostError | None), order


@pytest.mark.parametrize("short", [True, False], ids=["async_with", "with_a_timeout"])
@pytest.mark.parametrize("stage", PASSING, indirect=True)
async def test_nobody_believes_in_a_hold_that_was_forced(stage: Stage, short: bool) -> None:
    party, rival = stage.party(turn=60), stage.rival()
    await party.connected()
    await rival.connected()
    for order in orders():
        await hand_off(stage, party, rival.thing, short, order)
    await stage.assert_nothing_held(party)
