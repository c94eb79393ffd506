"""A process's part of a crowd: clients with a connection and one task each; `crowd.py` counts."""

from __future__ import annotations

import asyncio
from time import monotonic, monotonic_ns
from typing import Any, NotRequired, TypedDict

import hiredis

from benchmarks.rivals.kinds import READ, WRITE
from benchmarks.rivals.side import ProgramSide, Side, TaskSide

#: Clients with odd numbers write, the others read.
BOTH_SIDES = "read and write side, half each"

#: Seconds after the end in which all should have left.
_GRACE = 10.0


class Found(TypedDict):
    """What a worker saw, in nanoseconds of the clock that all processes of a machine share.

    Attributes:
        visits: When each asked and was in (0: not any more), and its number.
        pushes: When a message came in; left out where that is not noted.
    """

    visits: list[tuple[int, int, int]]
    pushes: NotRequired[list[int]]


#: The clients of this worker, in the order of their numbers.
_CLIENTS: list[TaskSide] = []

#: When a message came in, to any of them.
_PUSHES: list[int] = []


class _Reader(hiredis.Reader):
    """Notes when messages come in."""

    def gets(self, *args: Any) -> Any:
        """As hiredis does."""
        reply = super().gets(*args)
        if type(reply) is hiredis.PushNotification and reply[0] in (b"message", b"smessage"):
            _PUSHES.append(monotonic_ns())
        return reply


async def gather_crowd(side: Side, *, url: str, clients: int) -> None:
    """Connect clients until there are so many."""
    if isinstance(side, ProgramSide):
        await side.order("gather_crowd", clients=clients)
        return
    assert isinstance(side, TaskSide)
    hiredis.Reader = _Reader  # type: ignore[misc]
    while len(_CLIENTS) < clients:
        one = type(side)()
        await one.open(url)
        _CLIENTS.append(one)


async def in_crowd(side: Side, **order: Any) -> Found:
    """Have one task of each client go in and out of one name; return what they saw.

    Args:
        side: Whose clients.
        order: What `_in_crowd` takes.
    """
    if isinstance(side, ProgramSide):
        found: Found = await side.order("in_crowd", **order)
        return found
    return await _in_crowd(**order)


async def _in_crowd(
    *,
    clients: int,
    first: int,
    kind: str,
    name: str,
    hold: float,
    pause: float,
    start_at: float,
    end_at: float,
) -> Found:
    _PUSHES.clear()
    found: list[list[int]] = []

    async def visit(client: TaskSide, number: int) -> None:
        its = kind
        if kind == BOTH_SIDES:
            its = WRITE if number % 2 else READ
        # Whatever only the first pair of a client costs.
        async with client.made(its, f"{name}:{number}"):
            pass
        await asyncio.sleep(start_at - monotonic())
        entered = client.made(its, name)
        while monotonic() < end_at:
            ask = [monotonic_ns(), 0, number]
            found.append(ask)
            async with entered:
                ask[1] = monotonic_ns()
                if hold:
                    await asyncio.sleep(hold)
            if pause:
                await asyncio.sleep(pause)

    users = [
        asyncio.create_task(visit(client, first + number))
        for number, client in enumerate(_CLIENTS[:clients])
    ]
    done, late = await asyncio.wait(users, timeout=end_at - monotonic())
    for one in done:
        one.result()
    for one in late:
        one.cancel()
    if late:
        await asyncio.wait(late, timeout=_GRACE)
    return {"visits": [(asked, begin, party) for asked, begin, party in found], "pushes": _PUSHES}
