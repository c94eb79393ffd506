"""The store itself: each call is one query, and what its answer means."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Final, Self, final

from redisson_py._stores.contract import (
    Bell,
    Busy,
    Granted,
    HolderState,
    Kind,
    Renewal,
    Sighting,
    State,
    Wish,
)
from redisson_py._stores.last_failure import LastFailure
from redisson_py._stores.mysql import queue, sql
from redisson_py._stores.mysql.address import Target, read_url
from redisson_py._stores.mysql.connections import Answer, Connections
from redisson_py._stores.mysql.polling import Polls
from redisson_py._stores.published import published, said_by
from redisson_py._stores.remembered import Remembered
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError

#: The most holds that one query renews.
_MOST_RENEWALS: Final = 200
_MICRO: Final = 1_000_000
#: Seconds after which one that does not wait may ask again.
_RETRY_SECONDS: Final = 0.01
#: Table not there; not allowed to make it.
_NO_TABLE, _NOT_ALLOWED = 1146, (1142, 1044, 1227)
#: A column that is not there; one that is.
_NO_COLUMN, _COLUMN_EXISTS = 1054, 1060
#: Others have locked the row: MariaDB's number, and MySQL's.
_LOCKED: Final = (1205, 3572)
#: What a query is for, in errors.
_ACQUIRE: Final = "an acquire request"
_RELEASE: Final = "a release"


@final
class MySQLStore:
    """Keeps holds in a table of a MySQL (8.0 or newer) or MariaDB (10.5 or newer) server.

    Attributes:
        title: The server for people.
        where: Its address and database, without credentials.
    """

    title: str = "MySQL"
    ends_leases: bool = True
    leases_are_exact: bool = True

    def __init__(self, target: Target) -> None:
        self.where: str = target.where
        self.last_failure: LastFailure = LastFailure(f"{self.title} at {self.where}")
        self._target = target
        self._bell: Bell | None = None
        self._connections: Connections | None = None
        #: The owners that wait.
        self._polls: Final = Polls(target.poll_interval, self._ring)
        #: Whether the table is known to have what elections need.
        self._has_values = False
        #: Numbers what leaders publish.
        self._numbers: Final = itertools.count(1)
        #: When those that observe an election look again: nothing tells them of a change.
        self._looks: Final[dict[tuple[str, str], asyncio.TimerHandle]] = {}
        #: Names of which the row has a queue or tombstones, as far as we know. Right or wrong, what
        #: is granted is the same.
        self._crowded: Remembered[str, None] = Remembered()
        #: Owners one of whose requests had no answer, and may still be carried out: the oldest
        #: first. Some never give back, as their leases ended in an outage.
        self._uncertain: Remembered[str, None] = Remembered()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a store for a URL: see `address.read_url`.

        Raises:
            TypeError: It is not a str.
            ValueError: It is malformed.
        """
        return cls(read_url(url))

    def __repr__(self) -> str:
        return f"<MySQLStore {self.where}>"

    async def start(self, bell: Bell, deadline: float) -> None:
        """Connect, and make the table if it is not there.

        Raises:
            BackendError: It may not be made; the text has the SQL for somebody with more rights.
            ConnectionLostError: The server did not answer.
        """
        self._bell = bell
        self._polls.clear()
        self._crowded.clear()
        self._uncertain.clear()
        self._connections = Connections(self._target, self.title, self.last_failure, bell.ring_all)
        try:
            await self._check_table(deadline)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Disconnect. Holds that were not given back end with their leases."""
        connections, self._connections = self._connections, None
        self._bell = None
        self._polls.clear()
        self._forget_observers()
        if connections is not None:
            await connections.quit()

    def leave_behind(self) -> None:
        """Disconnect without waiting: the event loop was closed, or ends now."""
        connections, self._connections = self._connections, None
        self._bell = None
        self._polls.clear()
        self._forget_observers()
        if connections is not None:
            connections.leave_behind()

    async def ping(self, deadline: float) -> None:
        """Return when the server has answered."""
        await self._run(sql.PING, deadline, "a ping")

    def keys(self, name: str, kind: Kind = "lock") -> tuple[str]:
        """Return where a lock is kept: each name on its own."""
        return (name,)

    async def ask(self, wish: Wish, deadline: float) -> Granted | Busy:
        """Take a hold if it is free. One round trip, and two where a queue is met or begins.

        Most asks of one that waits only look: that changes nothing, so it is not replicated.
        """
        if wish.proposal is not None:
            await self._prepare_for_elections(deadline)
        if wish.waits and wish.owner in self._polls:
            query = sql.poll(wish.name, wish.owner, self._polls.patience(wish.owner)[1])
            answer = await self._run(query, deadline, _ACQUIRE)
            for action, left, position, open_for in answer.rows:
                remaining = max(0.0, left / _MICRO)
                if not action:
                    quiet = max(0.0, float(open_for or 0) / _MICRO)
                    return Busy(
                        self._polls.again(wish.name, wish.owner, position, remaining, quiet)
                    )
                return await self._take(wish, deadline, remaining, position)
        return await self._take(wish, deadline)

    async def _take(
        self,
        wish: Wish,
        deadline: float,
        remaining: float | None = None,
        position: int | None = None,
    ) -> Granted | Busy:
        """Take a hold if it is free.

        `remaining`: what was left to its holder, and `position`: how many came before this owner,
        both as far as they are known.
        """
        answer, resent = None, False
        said = None if wish.proposal is None else published(wish.owner, 0, wish.proposal)
        if remaining is None:
            crowded = wish.name in self._crowded
            query = sql.ask(wish.name, wish.owner, wish.lease, wish.tokens, crowded, said)
            answer = await self._ask(query, wish, deadline)
            resent = answer.resent
            remaining = max(0.0, answer.rows[0][1] / _MICRO) if answer.rows else None
        if answer is None or _needs_queue(answer, wish):
            patience = self._polls.patience(wish.owner) if wish.waits else None
            query = sql.ask_in_queue(wish.name, wish.owner, wish.lease, wish.tokens, patience, said)
            unless: Sequence[int] = ()
            if wish.waits and remaining is not None and (remaining or position != 0):
                query, unless = sql.unless_locked(wish.name, query), _LOCKED
            try:
                answer = await self._ask(query, wish, deadline, unless)
            except BackendError as error:
                if isinstance(error, ConnectionLostError) or _code(error) not in unless:
                    raise
                # It is the turn of another, so there is time to join the queue later.
                return Busy(self._polls.again(wish.name, wish.owner, position, remaining or 0.0))
            resent = resent or answer.resent
            if answer.rows and answer.rows[0][4]:
                self._crowded[wish.name] = None
            else:
                self._crowded.pop(wish.name, None)
            position = answer.rows[0][5] if answer.rows else None
        remaining = 0.0  # without a row: it was deleted just now
        if answer.rows:
            mine, left, token, tokens = answer.rows[0][:4]
            remaining = max(0.0, left / _MICRO)
            if mine and left > 0:
                self._polls.granted(wish.name, wish.owner)
                return Granted(answer.before + remaining, token, tokens)
        if wish.waits:
            return Busy(self._polls.again(wish.name, wish.owner, position, remaining))
        if resent:
            # The caller would leave without giving back, and the first sending may still arrive.
            raise self.last_failure.lost_answer()
        return Busy(min(remaining, _RETRY_SECONDS) or _RETRY_SECONDS)

    async def _ask(
        self, query: str, wish: Wish, deadline: float, unless: Sequence[int] = ()
    ) -> Answer:
        try:
            answer = await self._run(query, deadline, _ACQUIRE, unless=unless)
        except BackendError as error:
            if isinstance(error, ConnectionLostError):
                if error.maybe_held:
                    self._uncertain[wish.owner] = None
            elif wish.owner in self._uncertain:
                # Not this query, but the one before it may still arrive.
                raise self.last_failure.no_answer(maybe_held=True) from error
            raise
        if answer.resent:
            self._uncertain[wish.owner] = None
        return answer

    async def give_back(
        self, name: str, owner: str, unsure: bool, deadline: float, kind: Kind = "lock"
    ) -> int | None:
        """End a hold, or the wait of an owner. One round trip, and two if it did neither."""
        waited = self._polls.forget(owner)
        if unsure or owner in self._uncertain:
            answer = await self._run(sql.give_back_unsure(name, owner), deadline, _RELEASE)
            self._uncertain.pop(owner, None)
            held = bool(answer.rows and answer.rows[0][0])
            return None if answer.resent and not held else int(held)
        if waited:
            # It holds nothing: each request of it was answered, by "busy".
            await self._run(sql.leave(name, owner), deadline, _RELEASE)
            return 0
        answer = await self._run(sql.give_back(name, owner), deadline, _RELEASE)
        if answer.changed:
            return 1
        # Maybe an earlier call had no answer, but was carried out; or one that was to leave.
        resent = answer.resent
        answer = await self._run(sql.leave_or_released(name, owner), deadline, _RELEASE)
        held = bool(answer.rows and answer.rows[0][0])
        # The row remembers only some that gave back last.
        return None if resent and not held else int(held)

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """Renew holds, two hundred in one round trip; an exact lease takes two of its own."""
        ordinary = [each for each in batch if not each.exact or each.lease == 0]
        kept: dict[Renewal, float] = {}
        for start in range(0, len(ordinary), _MOST_RENEWALS):
            kept |= await self._renew(ordinary[start : start + _MOST_RENEWALS], deadline)
        for each in batch:
            if each.exact and each.lease > 0:
                until = await self._set_lease(each, deadline)
                if until is not None:
                    kept[each] = until
        return [kept.get(each) for each in batch]

    async def _renew(self, some: Sequence[Renewal], deadline: float) -> dict[Renewal, float]:
        query, half = sql.renew(some), len(some) // 2
        if half and self._connections is not None and not self._connections.takes(query):
            first = await self._renew(some[:half], deadline)
            return first | await self._renew(some[half:], deadline)
        answer = await self._run(query, deadline, "a renewal", urgent=True)
        found = {(key, owner, token): left for key, owner, token, left, _ in answer.rows}
        kept: dict[Renewal, float] = {}
        for each in some:
            left = found.get((sql.hash_of(each.name), each.owner, each.token))
            if left is not None:
                kept[each] = answer.before + left / _MICRO
        return kept

    async def _set_lease(self, renewal: Renewal, deadline: float) -> float | None:
        """Set an exact lease; return until when the hold is kept, or None if it is not there.

        The query names the end of the lease that it replaces, so a copy that arrives late undoes
        nothing newer.
        """
        answer = await self._run(
            sql.still_there([renewal]), deadline, "a look at a hold", urgent=True
        )
        while answer.rows:
            end = answer.rows[0][-1]
            answer = await self._run(
                sql.set_lease(renewal, end), deadline, "a new lease", urgent=True
            )
            # If it changed nothing, another request of its owner came in between: once more.
            if answer.changed and answer.rows:
                remaining: float = answer.rows[0][-2] / _MICRO
                return answer.before + remaining
        return None

    async def look(self, name: str, deadline: float, kind: Kind = "lock") -> State:
        """Return the holder of a name, and who waits: one of each client."""
        answer = await self._run(sql.look(name), deadline, "a look")
        holder = None
        waiters: tuple[str, ...] = ()
        for owner, left, token, entries, present in answer.rows:
            waiters = queue.waiters(entries, present)
            if owner is not None:
                holder = HolderState(owner, left / _MICRO, token)
        row = f"{self._target.database}.{sql.TABLE} WHERE id = {sql.key(name)}"
        return State(holder, waiters, (row,))

    async def force_release(self, name: str, deadline: float, kind: Kind = "lock") -> bool:
        """End the hold that there is, and ring; return whether there was one. Two round trips.

        A request that arrives late ends no later hold.
        """
        state, ended = await self.look(name, deadline), False
        if state.holder is not None:
            query = sql.force_release(name, state.holder.owner, state.holder.token)
            answer = await self._run(query, deadline, "a forced release")
            # A request without an answer may have ended it.
            ended = answer.resent or bool(answer.changed)
        self._ring(name)
        return ended

    # Elections: see `contract.ElectionStore`.

    async def leader(self, name: str, deadline: float) -> Sighting:
        """Return who leads, and what it says."""
        await self._prepare_for_elections(deadline)
        answer = await self._run(sql.leader(name), deadline, "a look at a leader")
        for owner, left, token, found in answer.rows:
            if (said := said_by(owner, found)) is not None:
                ends_in = max(0.0, answer.before + left / _MICRO - now())
                return Sighting(said, token, ends_in=ends_in)
        return Sighting(None, 0)

    def observe(self, observer: tuple[str, str], seen: Sighting) -> None:
        """Ring for an observer after a while: the server cannot say when anything changes."""
        self.unobserve(observer)
        look = asyncio.get_running_loop().call_later(
            self._target.poll_interval, self._look_again, observer
        )
        self._looks[observer] = look

    def observes(self, observer: tuple[str, str]) -> bool:
        """Return whether it will ring for an observer."""
        return observer in self._looks

    def unobserve(self, observer: tuple[str, str]) -> None:
        """Forget an observer."""
        if (look := self._looks.pop(observer, None)) is not None:
            look.cancel()

    def _look_again(self, observer: tuple[str, str]) -> None:
        del self._looks[observer]
        self._ring(*observer)

    def _forget_observers(self) -> None:
        for observer in list(self._looks):
            self.unobserve(observer)

    async def proclaim(
        self, name: str, owner: str, token: int, written: int, value: bytes, deadline: float
    ) -> int:
        """Have a leader say something else; return the number of that, 0 if it leads no more."""
        number = next(self._numbers)
        query = sql.proclaim(name, owner, published(owner, number, value))
        answer = await self._run(query, deadline, "a proclamation")
        return number if answer.rows else 0

    async def _prepare_for_elections(self, deadline: float) -> None:
        """Give a table that was made before there were elections what they need."""
        if self._has_values:
            return
        try:
            await self._run(sql.CHECK_VALUE, deadline, "a look at its table")
        except BackendError as error:
            if _code(error) != _NO_COLUMN:
                raise
            await self._add_value(deadline)
        self._has_values = True

    async def _add_value(self, deadline: float) -> None:
        try:
            await self._run(sql.ADD_VALUE, deadline, "to change its table")
        except BackendError as error:
            if _code(error) == _COLUMN_EXISTS:
                # Another client has made it just now.
                return
            if _code(error) not in _NOT_ALLOWED:
                raise
            raise BackendError(
                f"{error}\nThe table was made before there were elections. A user who may change"
                f" it must run once:\n{sql.ADD_VALUE};"
            ) from error.__cause__

    def _ring(self, name: str, owner: str | None = None) -> None:
        if self._bell is not None:
            self._bell.ring(name, owner)

    async def _check_table(self, deadline: float) -> None:
        await self._refuse_view(deadline)
        try:
            await self._run(sql.CHECK, deadline, "a look at its table")
        except BackendError as error:
            if _code(error) != _NO_TABLE:
                raise
        else:
            return
        try:
            await self._run(sql.CREATE, deadline, "to create its table")
        except BackendError as error:
            if _code(error) not in _NOT_ALLOWED:
                raise
            raise BackendError(
                f"{error}\nA user who may create tables must create it once:\n{schema_sql()};"
            ) from error.__cause__
        await self._refuse_view(deadline)

    async def _refuse_view(self, deadline: float) -> None:
        answer = await self._run(sql.IS_VIEW, deadline, "a look at its table")
        if answer.rows:
            raise BackendError(
                f"{self.title} at {self.where}: {sql.TABLE} is a view, not a table: it could run"
                " its creator's code"
            )

    async def _run(
        self,
        query: str,
        deadline: float,
        about: str,
        *,
        urgent: bool = False,
        unless: Sequence[int] = (),
    ) -> Answer:
        if self._connections is None:
            raise BackendError("the store was not started, or was stopped")
        return await self._connections.run(query, deadline, about, urgent=urgent, unless=unless)


def _needs_queue(answer: Answer, wish: Wish) -> bool:
    """Return whether a plain ask decides nothing, or is not enough."""
    if not answer.rows:
        return False
    mine, left, _, _, crowded = answer.rows[0]
    if left > 0 and (mine or not wish.waits):
        return False
    return bool(wish.waits or crowded)


def schema_sql() -> str:
    """Return the SQL that makes the table."""
    return sql.CREATE


def _code(error: BackendError) -> object:
    cause = error.__cause__
    return cause.args[0] if cause is not None and cause.args else None
