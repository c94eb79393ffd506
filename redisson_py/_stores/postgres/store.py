"""Keeps holds in PostgreSQL: a row for each name, one statement for each question.

- The row says who holds the name, until when by the server's clock, and with which token. `sql` has
  the table and the statements, with what makes each of them safe.
- A pair is two round trips. `connections` has a small pool, and sends a question again whose
  connection died: an owner that asked twice may be granted twice, so its release leaves a
  tombstone, as if the engine had said `unsure`.
- Clients wait in a queue (`queue`). A release calls the first of it with NOTIFY, which is sent only
  if somebody waits (`listening`). Where nothing is delivered, as behind a pooler in transaction
  mode, they poll and do not queue.
- No question waits for a transaction of a user's, such as one with a `guard`: it is answered by
  `Busy` with a time after which to ask again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final, Self, final
from weakref import WeakValueDictionary

import asyncpg

from redisson_py._stores.contract import (
    Bell,
    Busy,
    Done,
    Granted,
    HolderState,
    Kind,
    OtherNumber,
    Permits,
    RecordState,
    Renewal,
    Sighting,
    State,
    Verb,
    Wish,
)
from redisson_py._stores.last_failure import LastFailure
from redisson_py._stores.postgres import once, queue, sql
from redisson_py._stores.postgres.connections import Answer, Connections, Target
from redisson_py._stores.postgres.freeing import Freeing
from redisson_py._stores.postgres.listening import (
    WATCH_TIME,
    Listening,
    channel_of,
    observers_of,
)
from redisson_py._stores.postgres.renewing import renew
from redisson_py._stores.postgres.shared import SHARED_KINDS, Shared, family_of
from redisson_py._stores.postgres.table import (
    ONCE,
    SHARED,
    Table,
    id_of,
    in_schema,
    prepare_beside,
    prepare_for_elections,
    prepare_table,
)
from redisson_py._stores.postgres.url import check_url, database_of, search_path_of
from redisson_py._stores.published import published, said_by
from redisson_py._stores.remembered import Remembered
from redisson_py._time import now
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError
from redisson_py.locks.once import recorded_in, result_of

#: Seconds until a caller asks again for a free row that a transaction has locked: a guard.
LOCKED_SECONDS: Final = 0.1
#: Seconds for which an answer waits until a change of a leader is announced.
_ANNOUNCING_SECONDS: Final = 1.0
#: How often we ask again at once for a row that changes while we look.
_TRIES: Final = 3
#: A request for a hold does not wait for a row that somebody has locked: it is busy.
_LOCKED_ROW: Final = (asyncpg.LockNotAvailableError,)


@final
class PostgresStore:
    """Keeps holds in a table of a PostgreSQL database.

    Args:
        url: `postgresql://user:password@host:port/database`, with what asyncpg knows of libpq's
            arguments; several hosts with commas, of which the primary is used.
        connections: At most that many carry questions; from the first wait on, one more listens.
        statement_cache_size: 0 behind a pooler in transaction mode that does not keep prepared
            statements.
    """

    title: str = "PostgreSQL"
    ends_leases: bool = True
    leases_are_exact: bool = True

    def __init__(self, url: str, *, connections: int = 4, statement_cache_size: int = 100) -> None:
        _check_count("connections", connections, 1)
        _check_count("statement_cache_size", statement_cache_size, 0)
        urls, self.where = check_url(url)
        self._database: Final = database_of(url)
        self._search_path: Final = search_path_of(url)
        #: Where the tables are, once that is known.
        self._schema = ""
        #: Those beside the table of locks that are known to be there.
        self._there: set[Table] = set()
        self.last_failure: LastFailure = LastFailure(f"{self.title} at {self.where}")
        self._target: Final = Target(urls, self.where, statement_cache_size)
        self._most: Final = connections
        self._connections: Connections | None = None
        self._freeing: Freeing | None = None
        self._listening: Listening | None = None
        self._bell: Bell | None = None
        #: Owners of which a copy of a request may still arrive, the oldest first.
        self._repeated: Remembered[str, None] = Remembered()
        self._shared: Final = Shared(self._fetch, self._free, self._repeated, self.last_failure)
        #: Whether the table is known to have what elections need.
        self._has_values = False
        #: Owners that lead, or may.
        self._candidates: set[str] = set()
        #: Held while a candidate joins those of a name.
        self._coming: Final[WeakValueDictionary[str, asyncio.Lock]] = WeakValueDictionary()
        #: Numbers what leaders publish.
        self._numbers: Final = itertools.count(1)
        #: Names of which the row has a queue or tombstones, as far as we know: there the plain
        #: statements decide nothing. Right or wrong, what is granted is the same.
        self._crowded: Remembered[str, None] = Remembered()

    @classmethod
    def from_url(cls, url: str, **options: int) -> Self:
        """Make a store; nothing connects before `start`."""
        return cls(url, **options)

    def __repr__(self) -> str:
        return f"<PostgresStore {self.where}>"

    async def start(self, bell: Bell, deadline: float) -> None:
        """Connect, and create the table unless it is there."""
        await self.stop()
        self._bell = bell
        self._there.clear()
        self._has_values = False
        self._connections = Connections(
            self._target, self._most, self.last_failure, self._recovered
        )
        self._freeing = Freeing(self._connections, self.where)
        self._listening = Listening(self._target, self._notify, bell)
        try:
            self._schema = await prepare_table(
                self._connections, self._search_path, self.where, deadline
            )
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Disconnect."""
        self._candidates.clear()
        listening, self._listening = self._listening, None
        connections, self._connections, self._freeing = self._connections, None, None
        if listening is not None:
            await listening.stop()
        if connections is not None:
            await connections.close()

    def leave_behind(self) -> None:
        """Disconnect without waiting: the event loop was closed, or ends now."""
        self._candidates.clear()
        listening, self._listening = self._listening, None
        connections, self._connections, self._freeing = self._connections, None, None
        if listening is not None:
            listening.leave_behind()
        if connections is not None:
            connections.leave_behind()

    async def ping(self, deadline: float) -> None:
        """Return when the server has answered."""
        await self._fetch(sql.PING, (), deadline)

    async def guard(self, connection: Any, name: str, owner: str, token: int) -> bool:
        """Keep others from being granted a hold until a transaction of the user's ends.

        It locks the row of the hold FOR KEY SHARE: renewals and the release pass, a grant to
        another owner does not, even if the lease runs out meanwhile. So what the transaction writes
        is written under the hold, without a look at fencing tokens.

        Errors of the driver are the user's, as the transaction is: in one with REPEATABLE READ or
        SERIALIZABLE it may be a serialization failure, after which the transaction must be
        repeated.

        Args:
            connection: An asyncpg connection inside a transaction, to the database of the locks.
            name: The name.
            owner: The owner of the hold.
            token: The first of its fencing tokens.

        Returns:
            Whether the hold is still there. If not, nothing is locked.

        Raises:
            RuntimeError: The connection is not inside a transaction.
            BackendError: The database of the connection has no table of these locks.
        """
        if not connection.is_in_transaction():
            raise RuntimeError(
                "guard needs a transaction: call it inside `async with connection.transaction():`,"
                " before anything that it must protect"
            )
        statement, arguments = self.guarding(name, owner, token)
        try:
            row = await connection.fetchrow(statement, *arguments)
        except asyncpg.UndefinedTableError as error:
            raise BackendError(sql.no_table_for("guard")) from error
        return row is not None

    def guarding(self, name: str, owner: str, token: int) -> tuple[str, tuple[object, ...]]:
        """Return the statement of a guard, and its arguments. A row says that the hold is there."""
        return in_schema(sql.GUARD, self._schema), (id_of(name), owner, token)

    def keys(self, name: str, kind: Kind = "lock") -> tuple[str]:
        """Return where a lock is kept: each name on its own, in its database."""
        if kind in SHARED_KINDS:
            return (f"{self._database}\0{family_of(kind)}\0{name}",)
        return (f"{self._database}\0{name}",)

    async def ask(self, wish: Wish, deadline: float) -> Granted | Busy | Done | OtherNumber:
        """Take the hold if it is free, or held by this owner already."""
        if wish.kind in SHARED_KINDS:
            return await (await self._several(deadline)).ask(wish, self._listening, deadline)
        if wish.kind == "once":
            return await self._ask_unless_done(wish, deadline)
        if wish.proposal is not None:
            return await self._ask_for_leadership(wish, deadline)
        return await self._ask_or_wait(wish, deadline)

    async def _ask_unless_done(self, wish: Wish, deadline: float) -> Granted | Busy | Done:
        if (done := await self._find(wish.name, deadline)) is not None:
            return done
        answer = await self._ask_or_wait(wish, deadline)
        if isinstance(answer, Busy):
            return answer
        try:
            # It may have been done between the two questions.
            done = await self._find(wish.name, deadline)
        except BackendError as error:
            raise self.last_failure.no_answer(maybe_held=True) from error
        if done is None:
            return answer
        await self.give_back(wish.name, wish.owner, False, deadline)
        return done

    # What is done once: `OnceStore`.

    async def complete(
        self,
        name: str,
        owner: str,
        token: int,
        result: str | bytes,
        keep: float,
        deadline: float,
    ) -> str | bytes | None:
        """Record a result if this owner holds the lock; return what it has recorded."""
        arguments = _record_of(name, owner, token, result, keep)
        found = (await self._fetch_once(once.COMPLETE, arguments, deadline)).value
        return recorded_in(found[0], result) if found else None

    async def complete_inside(
        self, connection: Any, name: str, owner: str, token: int, result: str | bytes, keep: float
    ) -> str | bytes | None:
        """Do the same in a transaction of the user's; see `guard` for its errors.

        Raises:
            TypeError: It is no connection of asyncpg.
        """
        if not callable(getattr(connection, "is_in_transaction", None)):
            raise TypeError(
                "complete takes a connection of asyncpg, not"
                f" {type(connection).__module__}.{type(connection).__qualname__}"
            )
        if not connection.is_in_transaction():
            raise RuntimeError(
                "complete(connection=...) needs a transaction: call it inside"
                " `async with connection.transaction():`, beside what it must be committed with"
            )
        statement = in_schema(once.COMPLETE, self._schema)
        arguments = _record_of(name, owner, token, result, keep)
        try:
            row = await connection.fetchrow(statement, *arguments)
        except asyncpg.UndefinedTableError as error:
            raise BackendError(sql.no_table_for("complete")) from error
        return None if row is None else recorded_in(row, result)

    def recording(
        self, name: str, owner: str, token: int, result: str | bytes, keep: float
    ) -> tuple[tuple[str, tuple[object, ...]], ...]:
        """Return the statements that do it on a connection of the user's, and their arguments."""
        guard = self.guarding(name, owner, token)
        recorded = _record_of(name, owner, token, result, keep)
        return guard, (in_schema(once.COMPLETE, self._schema), recorded)

    async def look_for_record(self, name: str, deadline: float) -> RecordState | None:
        """Return what is recorded; None: it is not done."""
        found = (await self._fetch_once(once.LOOK, (id_of(name),), deadline)).value
        return RecordState(**found[0]) if found else None

    async def forget(self, name: str, deadline: float) -> bool:
        """Delete the record; return whether there was one. Two round trips.

        A request that arrives late deletes no later record.
        """
        found = (await self._fetch_once(once.FIND, (id_of(name),), deadline)).value
        if not found:
            return False
        arguments = id_of(name), found[0]["token"]
        answer = await self._fetch_once(once.FORGET, arguments, deadline)
        # A request without an answer may have deleted it.
        return answer.repeated or bool(answer.value)

    async def _find(self, name: str, deadline: float) -> Done | None:
        found = (await self._fetch_once(once.FIND, (id_of(name),), deadline)).value
        if not found:
            return None
        token, result, is_text = found[0]
        return Done(token, result_of(result, is_text))

    async def _fetch_once(
        self, statement: str, arguments: Sequence[object], deadline: float
    ) -> Answer:
        """Ask about what is done once; find or make its table before the first time."""
        await self._prepare(ONCE, deadline)
        return await self._fetch(statement, arguments, deadline)

    async def _ask_for_leadership(self, wish: Wish, deadline: float) -> Granted | Busy:
        await self._prepare_for_elections(deadline)
        try:
            if wish.owner in self._candidates:
                answer = await self._ask_or_wait(wish, deadline)
            else:
                # Those of one client come one by one, or which connection is faster would decide.
                async with self._alone(wish.name, deadline):
                    self._candidates.add(wish.owner)
                    answer = await self._ask_or_wait(wish, deadline)
        except BackendError as error:
            if not (isinstance(error, ConnectionLostError) and error.maybe_held):
                self._candidates.discard(wish.owner)
            raise
        if isinstance(answer, Granted):
            await self._announce(wish.name, deadline)
        elif not wish.waits:
            self._candidates.discard(wish.owner)
        return answer

    async def _ask_or_wait(self, wish: Wish, deadline: float) -> Granted | Busy:
        if not wish.waits:
            return await self._ask(wish, deadline)
        listening = self._listening
        if listening is None:
            raise _stopped()
        listening.add(id_of(wish.name), wish.name, wish.owner)
        try:
            return await self._ask_and_listen(wish, listening, deadline)
        except BackendError as error:
            if not (isinstance(error, ConnectionLostError) and error.maybe_held):
                listening.discard(id_of(wish.name), wish.owner)
            raise

    async def _ask_and_listen(
        self, wish: Wish, listening: Listening, deadline: float
    ) -> Granted | Busy:
        heard = listening.hears
        # What nobody hears must not be called: it asks as a newcomer first.
        answer = await self._ask(wish, deadline, station=listening.station if heard else None)
        if isinstance(answer, Busy) and not heard:
            heard = await listening.wait_until_heard(deadline)
            station = listening.station if heard else None
            answer = await self._ask(wish, deadline, station=station, barges=not heard)
        if isinstance(answer, Granted):
            listening.discard(id_of(wish.name), wish.owner)
            return answer
        longest = queue.LONGEST_WAIT_SECONDS if heard else queue.POLL_SECONDS
        return Busy(min(answer.retry_in or longest, longest))

    async def give_back(
        self, name: str, owner: str, unsure: bool, deadline: float, kind: Kind = "lock"
    ) -> int | None:
        """End a hold, or the wait of an owner; return whether it held, and whether others wait."""
        if kind in SHARED_KINDS:
            shared = await self._several(deadline)
            return await shared.give_back(name, owner, unsure, kind, self._listening, deadline)
        if self._listening is not None:
            self._listening.discard(id_of(name), owner)
        if unsure or owner in self._repeated:
            arguments = id_of(name), channel_of(name), owner, name
            answer = await self._free(sql.GIVE_BACK_UNSURE, arguments, deadline)
        else:
            answer = await self._give_back(name, owner, deadline)
        self._repeated.pop(owner, None)
        held = bool(answer.value and answer.value[0]["held"])
        if owner in self._candidates:
            self._candidates.discard(owner)
            if held or answer.repeated:
                await self._announce(name, deadline)
        if not held:
            # The row remembers only who gave back last.
            return None if answer.repeated else 0
        return 2 if answer.value[0].get("wanted") else 1

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """Renew holds, all in one statement; those with a lease of 0 are looked at in another.

        An exact lease takes one round trip more: the statement that sets them names the end of the
        lease that it replaces. So a copy of it that arrives late undoes nothing newer.
        """
        shared = [each for each in batch if each.kind in SHARED_KINDS]
        if not shared:
            return await renew(self._fetch, self._ring, batch, deadline)
        locks = [each for each in batch if each.kind not in SHARED_KINDS]
        several = await self._several(deadline)
        kept = dict(zip(shared, await several.renew(shared, deadline), strict=True))
        if locks:
            answer = await renew(self._fetch, self._ring, locks, deadline)
            kept |= zip(locks, answer, strict=True)
        return [kept[each] for each in batch]

    async def look(self, name: str, deadline: float, kind: Kind = "lock") -> State:
        """Return who holds a name, and who waits: of a lock, one of each client."""
        if kind in SHARED_KINDS:
            return await (await self._several(deadline)).look(name, kind, deadline)
        answer = await self._fetch(sql.LOOK, (id_of(name),), deadline)
        holder, waiters = None, ()
        for row in answer.value:
            waiters = tuple(row["waiters"])
            if row["held"]:
                holder = HolderState(row["owner"], row["remaining"], row["token"])
        return State(holder, waiters, (f"{sql.TABLE} where id = '\\x{id_of(name).hex()}'",))

    async def force_release(self, name: str, deadline: float, kind: Kind = "lock") -> bool:
        """End the hold that there is, and ring; return whether there was one. Two round trips.

        A request that arrives late ends no later hold.
        """
        if kind in SHARED_KINDS:
            return await (await self._several(deadline)).force_release(name, kind, deadline)
        state = await self.look(name, deadline)
        if (holder := state.holder) is None:
            return False
        arguments = id_of(name), channel_of(name), holder.owner, holder.token
        answer = await self._free(sql.FORCE_RELEASE, arguments, deadline)
        if kind == "election":
            await self._announce(name, deadline)
        # A request without an answer may have ended it.
        return answer.repeated or bool(answer.value and answer.value[0]["held"])

    # Elections: see `contract.ElectionStore`.

    async def leader(self, name: str, deadline: float) -> Sighting:
        """Return who leads, and what it says."""
        await self._prepare_for_elections(deadline)
        answer = await self._fetch(sql.LEADER, (id_of(name),), deadline)
        for row in answer.value:
            if (said := said_by(row["owner"], row["value"])) is not None:
                ends_in = answer.sent + row["remaining"] - now()
                return Sighting(said, row["token"], ends_in=max(0.0, ends_in))
        return Sighting(None, 0)

    def observe(self, observer: tuple[str, str], seen: Sighting) -> None:
        """Ring for an observer once, when anything has changed since a sighting."""
        if self._listening is not None:
            self._listening.observe(observer)

    def observes(self, observer: tuple[str, str]) -> bool:
        """Return whether it will ring for an observer."""
        return self._listening is not None and self._listening.observes(observer)

    def unobserve(self, observer: tuple[str, str]) -> None:
        """Forget an observer."""
        if self._listening is not None:
            self._listening.unobserve(observer)

    async def proclaim(
        self, name: str, owner: str, token: int, written: int, value: bytes, deadline: float
    ) -> int:
        """Have a leader say something else; return the number of that, 0 if it leads no more."""
        number = next(self._numbers)
        said = published(owner, number, value)
        arguments = id_of(name), observers_of(name), owner, said
        answer = await self._free(sql.PROCLAIM, arguments, deadline)
        return number if answer.value else 0

    @asynccontextmanager
    async def _alone(self, name: str, deadline: float) -> AsyncGenerator[None]:
        coming = self._coming.get(name)
        if coming is None:
            coming = self._coming[name] = asyncio.Lock()
        try:
            async with asyncio.timeout(deadline - now()):
                await coming.acquire()
        except TimeoutError:
            raise self.last_failure.no_answer(maybe_held=False) from None
        try:
            yield
        finally:
            coming.release()

    async def _prepare_for_elections(self, deadline: float) -> None:
        if self._has_values:
            return
        if self._connections is None:
            raise _stopped()
        await prepare_for_elections(self._connections, self._schema, self.where, deadline)
        self._has_values = True

    async def _announce(self, name: str, deadline: float) -> None:
        """Have who observes look again. Whom that does not reach looks when the lease ends."""
        with suppress(BackendError, asyncpg.PostgresError):
            arguments, soon = (observers_of(name), ""), min(deadline, now() + _ANNOUNCING_SECONDS)
            await self._fetch(sql.NOTIFY, arguments, soon, (asyncpg.PostgresError,))

    async def permits(self, name: str, deadline: float) -> Permits:
        """Return the permits of a semaphore."""
        return await (await self._several(deadline)).permits(name, deadline)

    async def change_permits(
        self, name: str, request: str, verb: Verb, units: int, start: int | None, deadline: float
    ) -> int:
        """Change the number of permits, once for a request."""
        shared = await self._several(deadline)
        return await shared.change_permits(name, request, verb, units, start, deadline)

    async def lower_units(self, name: str, owner: str, units: int, deadline: float) -> int | None:
        """Lower the units of a hold."""
        return await (await self._several(deadline)).lower_units(name, owner, units, deadline)

    async def _prepare(self, table: Table, deadline: float) -> None:
        """Find or make a table beside that of locks, before it is first used."""
        if table in self._there:
            return
        if self._connections is None:
            raise _stopped()
        await prepare_beside(self._connections, self._schema, self.where, deadline, table)
        self._there.add(table)

    async def _several(self, deadline: float) -> Shared:
        """Return what keeps holds that several have at once; find or make its table first."""
        await self._prepare(SHARED, deadline)
        return self._shared

    async def _give_back(self, name: str, owner: str, deadline: float) -> Answer:
        key, repeated = id_of(name), False
        if name not in self._crowded:
            answer = await self._fetch(sql.GIVE_BACK_PLAIN, (key, owner), deadline)
            if answer.value:
                return answer
            repeated = answer.repeated
        answer = await self._free(sql.GIVE_BACK, (key, channel_of(name), owner), deadline)
        if answer.value and answer.value[0]["crowded"]:
            self._crowded[name] = None
        else:
            self._crowded.pop(name, None)
        return replace(answer, repeated=answer.repeated or repeated)

    async def _ask(
        self, wish: Wish, deadline: float, *, station: str | None = None, barges: bool = False
    ) -> Granted | Busy:
        try:
            answer = await self._ask_once_or_again(wish, deadline, station, barges)
        except BackendError as error:
            if wish.owner in self._repeated:
                # Not this statement, but the one before it may still arrive.
                raise self.last_failure.no_answer(maybe_held=True) from error
            raise
        if isinstance(answer, Busy) and not wish.waits and wish.owner in self._repeated:
            # The caller would leave without giving back, and the first copy may still arrive.
            raise self.last_failure.lost_answer()
        return answer

    async def _ask_once_or_again(
        self, wish: Wish, deadline: float, station: str | None, barges: bool
    ) -> Granted | Busy:
        lease, tokens = float(wish.lease), wish.tokens
        plainly = (id_of(wish.name), wish.name, wish.owner, lease, tokens)
        said: tuple[bytes, ...] = ()
        if wish.proposal is not None:
            said = (published(wish.owner, 0, wish.proposal),)
        for _ in range(_TRIES):
            plain = wish.name not in self._crowded
            try:
                if plain:
                    statement = sql.ASK_PLAIN if wish.proposal is None else sql.CAMPAIGN_PLAIN
                    arguments = *plainly, *said
                else:
                    statement = sql.ASK if wish.proposal is None else sql.CAMPAIGN
                    arguments = *plainly, station, barges, *said
                answer = await self._fetch(statement, arguments, deadline, _LOCKED_ROW)
            except BackendError as error:
                if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                    raise
                if isinstance(error, ConnectionLostError):
                    self._repeated[wish.owner] = None
                break
            if answer.repeated:
                self._repeated[wish.owner] = None
            # No row: it is made or deleted at this moment, or the plain statement cannot decide.
            for row in answer.value:
                if row["granted"] or (row["owner"] == wish.owner and row["remaining"] > 0):
                    until = answer.sent + row["remaining"]
                    return Granted(until, row["token"], row["tokens"])
                held = row["owner"] is not None and row["remaining"] > 0
                if plain and held and not wish.waits:
                    return Busy(row["remaining"])
                if plain:
                    break
                if row["refused"]:
                    raise BackendError(f"{wish.owner} gave {wish.name!r} back and cannot ask again")
                if station is not None and row["ahead"] >= queue.WATCHERS:
                    return Busy(None)
                if held and station is not None and not _queues(row["owner"]):
                    return Busy(min(row["remaining"], queue.POLL_SECONDS))
                if held:
                    return Busy(row["remaining"])
                if row["reserved"]:
                    return Busy(WATCH_TIME)
            if plain:
                self._crowded[wish.name] = None
        return Busy(LOCKED_SECONDS)

    async def _fetch(
        self,
        statement: str,
        arguments: Sequence[object],
        deadline: float,
        final: tuple[type[Exception], ...] = (),
        *,
        urgent: bool = False,
    ) -> Answer:
        if self._connections is None:
            raise _stopped()
        located = in_schema(statement, self._schema)
        return await self._connections.fetch(located, arguments, deadline, final, urgent=urgent)

    async def _free(self, statement: str, arguments: Sequence[object], deadline: float) -> Answer:
        if self._freeing is None:
            raise _stopped()
        located = in_schema(statement, self._schema)
        return await self._freeing.free(located, arguments, deadline)

    async def _ring(self, name: str, _kind: Kind) -> None:
        """Have who waits ask again, because a lease ends sooner than they know."""
        with suppress(BackendError, asyncpg.PostgresError):
            await self._fetch(
                sql.RING, (id_of(name), channel_of(name)), now() + 5.0, (asyncpg.PostgresError,)
            )

    async def _notify(self, channel: str, message: str) -> None:
        await self._fetch(sql.NOTIFY, (channel, message), now() + 5.0, (asyncpg.PostgresError,))

    def _recovered(self) -> None:
        if self._listening is not None:
            self._listening.suspect()
        if self._bell is not None:
            asyncio.get_running_loop().call_soon(self._bell.ring_all)


def _record_of(
    name: str, owner: str, token: int, result: str | bytes, keep: float
) -> tuple[object, ...]:
    is_text = isinstance(result, str)
    data = result.encode() if isinstance(result, str) else result
    return id_of(name), name, owner, token, data, is_text, float(keep)


def _check_count(what: str, count: object, least: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"{what} must be int, not {type(count).__name__}")
    if count < least:
        raise ValueError(f"{what} must be {least} or more, not {count!r}")


def _queues(owner: str) -> bool:
    """Return whether the release of an owner calls the first waiter; older versions' do not."""
    return owner.rpartition(":")[2].startswith("0")


def _stopped() -> ClientClosedError:
    return ClientClosedError("the store was stopped, or not started yet")
