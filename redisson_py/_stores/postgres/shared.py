"""Keeps what several may hold at once: the sides of read-write locks, and permits of semaphores.

`shared_sql` has the table, the statements and who may go on. A waiter is called alone, by its
owner's name; where nothing is delivered it polls, in the same queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, final

import asyncpg

from redisson_py._stores.contract import (
    Busy,
    Granted,
    HolderState,
    Kind,
    OtherNumber,
    Permits,
    Renewal,
    State,
    Verb,
    Wish,
)
from redisson_py._stores.last_failure import LastFailure
from redisson_py._stores.postgres import queue, shared_sql
from redisson_py._stores.postgres.connections import Answer
from redisson_py._stores.postgres.listening import WATCH_TIME, Listening
from redisson_py._stores.postgres.renewing import Statements, renew
from redisson_py._stores.postgres.table import shared_id_of
from redisson_py._stores.remembered import Remembered
from redisson_py._time import now
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError

#: The station of a waiter that polls.
_NOWHERE: Final = ""

_MODES: Final[dict[Kind, str]] = {"read": "r", "write": "w", "permit": "p"}
#: What a name is of those kinds: for people, and in the key of its row.
_FAMILIES: Final[dict[Kind, str]] = {
    "read": "read-write lock",
    "write": "read-write lock",
    "permit": "semaphore",
}
#: What is kept here. Leaders, and who runs what is done once, hold locks.
SHARED_KINDS: Final = frozenset(_FAMILIES)


def family_of(kind: Kind) -> str:
    """Return what a name is of which something of a kind is held."""
    return _FAMILIES[kind]


def _id_of(name: str, kind: Kind) -> bytes:
    return shared_id_of(_FAMILIES[kind], name)


_STATEMENTS: Final = Statements(shared_sql.RENEW, shared_sql.CONFIRM, _id_of)


@final
class Shared:
    """Asks one statement for each question.

    Args:
        fetch: Fetches the rows of a statement.
        free: The same, for one that rings.
        repeated: Owners of which a copy of a request may still arrive.
        last_failure: Why there was no answer.
    """

    def __init__(
        self,
        fetch: Callable[..., Awaitable[Answer]],
        free: Callable[[str, Sequence[object], float], Awaitable[Answer]],
        repeated: Remembered[str, None],
        last_failure: LastFailure,
    ) -> None:
        self._fetch: Final = fetch
        self._free: Final = free
        self._repeated: Final = repeated
        self._last_failure: Final = last_failure

    async def ask(
        self, wish: Wish, listening: Listening | None, deadline: float
    ) -> Granted | Busy | OtherNumber:
        """Take the hold if it is free, or held by this owner already."""
        if not wish.waits:
            return await self._ask(wish, None, deadline)
        if listening is None:
            raise ClientClosedError("the store was stopped, or not started yet")
        key = _id_of(wish.name, wish.kind)
        listening.add(key, wish.name, wish.owner)
        try:
            heard = listening.hears
            # What nobody hears must not be called: it asks as a newcomer first.
            answer = await self._ask(wish, listening.station if heard else None, deadline)
            if isinstance(answer, Busy) and not heard:
                heard = await listening.wait_until_heard(deadline)
                station = listening.station if heard else _NOWHERE
                answer = await self._ask(wish, station, deadline)
        except BackendError as error:
            if not (isinstance(error, ConnectionLostError) and error.maybe_held):
                listening.discard(key, wish.owner)
            raise
        if not isinstance(answer, Busy):
            listening.discard(key, wish.owner)
            return answer
        longest = queue.LONGEST_WAIT_SECONDS if heard else queue.POLL_SECONDS
        retry_in = longest if answer.retry_in is None else min(answer.retry_in, longest)
        return replace(answer, retry_in=retry_in)

    async def _ask(
        self, wish: Wish, station: str | None, deadline: float
    ) -> Granted | Busy | OtherNumber:
        try:
            answer = await self._decide(wish, station, deadline)
        except BackendError as error:
            if wish.owner in self._repeated:
                # Not this statement, but the one before it may still arrive.
                raise self._last_failure.no_answer(maybe_held=True) from error
            raise
        if isinstance(answer, Busy) and not wish.waits and wish.owner in self._repeated:
            # The first copy may still arrive.
            return replace(answer, unsure=True)
        return answer

    async def _decide(
        self, wish: Wish, station: str | None, deadline: float
    ) -> Granted | Busy | OtherNumber:
        arguments = (
            *(_MODES[wish.kind], wish.units, float(wish.lease), station, wish.within),
            wish.permits,
            wish.compares,
        )
        row, sent = await self._row(
            shared_sql.ASK, wish.name, wish.kind, (wish.owner, *arguments), deadline, wish.owner
        )
        if row["granted"]:
            token = row["moment"] if row["token"] is None else row["token"]
            return Granted(sent + row["remaining"] / 1e6, token)
        if row["refused"]:
            raise BackendError(f"{wish.owner} gave {wish.name!r} back and cannot ask again")
        if row["disagrees"]:
            return OtherNumber(row["total"])
        return Busy(_retry_in(row), row["total"] is None)

    async def _row(
        self,
        statement: str,
        name: str,
        kind: Kind,
        arguments: Sequence[object],
        deadline: float,
        owner: str = "",
    ) -> tuple[Any, float]:
        """Return the row that a statement answers, and when it was sent; make the table's first."""
        key = _id_of(name, kind)
        while True:
            answer = await self._free(statement, (key, *arguments), deadline)
            if answer.repeated and owner:
                self._repeated[owner] = None
            if answer.value:
                return answer.value[0], answer.sent
            await self._fetch(shared_sql.MAKE, (key, name, _FAMILIES[kind]), deadline)

    async def give_back(
        self,
        name: str,
        owner: str,
        unsure: bool,
        kind: Kind,
        listening: Listening | None,
        deadline: float,
    ) -> int | None:
        """End a hold, or the wait of an owner; return whether it held."""
        key = _id_of(name, kind)
        if listening is not None:
            listening.discard(key, owner)
        refuse, repeated = unsure or owner in self._repeated, False
        while True:
            answer = await self._free(shared_sql.GIVE_BACK, (key, owner, refuse), deadline)
            repeated = repeated or answer.repeated
            if answer.value or not refuse:
                break
            await self._fetch(shared_sql.MAKE, (key, name, _FAMILIES[kind]), deadline)
        self._repeated.pop(owner, None)
        held = bool(answer.value and answer.value[0]["result"])
        # An earlier copy without an answer may have ended it.
        return 1 if held else None if repeated else 0

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """Renew holds, all in one statement; see `Store.renew`."""
        ring = partial(self._ring, deadline)
        return await renew(self._fetch, ring, batch, deadline, _STATEMENTS)

    async def _ring(self, deadline: float, name: str, kind: Kind) -> None:
        """Have who waits ask again, because a lease ends sooner than they know."""
        with suppress(BackendError, asyncpg.PostgresError):
            await self._free(shared_sql.RING, (_id_of(name, kind),), min(deadline, now() + 5.0))

    async def _look(self, name: str, kind: Kind, deadline: float) -> list[Any]:
        found: list[Any] = (
            await self._fetch(shared_sql.LOOK, (_id_of(name, kind),), deadline)
        ).value
        return found

    def _keys(self, name: str, kind: Kind) -> tuple[str, ...]:
        quoted = name.replace("'", "''")
        return (
            f"{shared_sql.SHARED_TABLE} where kind = '{_FAMILIES[kind]}' and name = '{quoted}'",
        )

    async def look(self, name: str, kind: Kind, deadline: float) -> State:
        """Return who reads and writes, and who waits."""
        rows = await self._look(name, kind, deadline)
        writers = [_holder_of(each) for each in rows if each["mode"] == "w" and _is_hold(each)]
        readers = [_holder_of(each) for each in rows if each["mode"] == "r" and _is_hold(each)]
        holder = writers[0] if writers else None
        return State(holder, _waiters(rows), self._keys(name, kind), tuple(readers))

    async def force_release(self, name: str, kind: Kind, deadline: float) -> bool:
        """End all reads; or the write, and the reads of its writer. Two round trips.

        A request that arrives late ends no later hold.
        """
        rows = [each for each in await self._look(name, kind, deadline) if _is_hold(each)]
        if kind == "read":
            ending = [each for each in rows if each["mode"] == "r"]
        else:
            writers = {each["owner"] for each in rows if each["mode"] == "w"}
            ending = [each for each in rows if {each["owner"], each["under"]} & writers]
        if not ending:
            return False
        holds = [f"{each['owner']} {each['token']}" for each in ending]
        answer = await self._free(shared_sql.FORCE_RELEASE, (_id_of(name, kind), holds), deadline)
        # A request without an answer may have ended them.
        return answer.repeated or bool(answer.value and answer.value[0]["result"])

    async def permits(self, name: str, deadline: float) -> Permits:
        """Return the permits of a semaphore."""
        rows = await self._look(name, "permit", deadline)
        holders = tuple((_holder_of(each), each["units"]) for each in rows if _is_hold(each))
        number = rows[0]["total"] if rows else None
        return Permits(number, holders, _waiters(rows), self._keys(name, "permit"))

    async def change_permits(
        self, name: str, request: str, verb: Verb, units: int, start: int | None, deadline: float
    ) -> int:
        """Change the number of permits, once for a request."""
        arguments = request, verb, units, start
        row, _ = await self._row(shared_sql.CHANGE, name, "permit", arguments, deadline)
        return int(row["result"])

    async def lower_units(self, name: str, owner: str, units: int, deadline: float) -> int | None:
        """Lower the units of a hold."""
        key = _id_of(name, "permit")
        answer = await self._free(shared_sql.LOWER, (key, owner, units), deadline)
        return 1 if answer.value and answer.value[0]["result"] else None


def _retry_in(row: Any) -> float | None:
    """Return after how many seconds to ask again although nobody rings."""
    if row["first_blocked"] and row["called"]:
        return WATCH_TIME
    if row["nth"] is None or row["nth"] > queue.WATCHERS or row["held_for"] is None:
        return None
    return max(0.0, float(row["held_for"])) / 1e6


def _is_hold(row: Any) -> bool:
    return bool(row["what"] == "h")


def _holder_of(row: Any) -> HolderState:
    return HolderState(row["owner"], row["remaining"], row["token"])


def _waiters(rows: Sequence[Any]) -> tuple[str, ...]:
    return tuple(each["owner"] for each in rows if each["what"] == "w")
