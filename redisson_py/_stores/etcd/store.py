"""Holds as keys of etcd, as Go's `concurrency.Mutex` and `etcdctl lock` keep them.

A contender for `name` puts the key `name/<its lease in hex>`. The key that was created first has
the hold, and the revision at which it was created is its fencing token. The others wait until the
one before theirs is deleted; so the queue is in etcd, and fair. We write the owner as the value,
which Go leaves empty and nobody else reads.

Invariants:

- A client has one session, the lease that its keys are under. A hold that is not to be renewed is
  moved to a lease of its own, which runs out; its key stays, and so does its token.
- A key is deleted only if its value is the owner that gives it back, so a late release cannot
  delete a newer hold. Owners of one client have the same key for a name: the next one is busy
  until the one before has gone.
- A request without an answer may arrive late, and so may the first copy of one that was sent again.
  Its undo puts `redisson_py/undone/<owner>` under the session, for an hour; a request to enter the
  queue is refused if that exists, or if its session has ended.
- A hold is granted only after etcd has shown its key without another before it, and while the
  session has time left, counted from before its last renewal was written.
- A key that could not be deleted would live as long as its lease. So what was not given back,
  without an answer or because etcd refused it, is given back later.

A candidate of an election for `name` is a contender as well, as in Go's `concurrency.Election`. The
value of its key is what it says, so the key has its owner: `name/<owner>`. A leader gives it
another value only if the key was not created or written again since it looked, so a late request
changes neither a newer leadership nor a newer value.

A key `name/a/<lease>` belongs to the lock `name/a`, although it begins with `name/`: it is not
taken for a contender here. Go does, and waits for it too. The keys of read-write locks and their
invariants are in `claims`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from redisson_py._loop import end_task
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
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.claims import candidate_key, claim_of, owner_of
from redisson_py._stores.etcd.holds import Holds
from redisson_py._stores.etcd.link import Link, telling
from redisson_py._stores.etcd.messages import Message
from redisson_py._stores.etcd.queue import Queue, lock_claim, prefix_of
from redisson_py._stores.etcd.session import Sessions
from redisson_py._stores.etcd.url import Target, read_url
from redisson_py._stores.etcd.watches import Waiter, Watches
from redisson_py._stores.last_failure import LastFailure
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError

log = logging.getLogger("redisson_py")

_OLDEST_VERSION = (3, 4)
#: The kinds that are sides of a read-write lock.
_SIDES: tuple[Kind, ...] = ("read", "write")
#: Seconds in which the session is ended when the store stops.
_PARTING_SECONDS = 1.0


class EtcdStore:
    """Keeps holds on etcd.

    Args:
        target: The cluster.
        lease: The client's lease time, in seconds: whole ones, rounded up, are its session's.
        ca: A file with the authorities to trust, for TLS; None: those of the system.
        cert: A file with the client's own certificates, if the cluster wants some.
        key: A file with their key.

    Raises:
        ValueError: A file cannot be read.
    """

    title = "etcd"
    ends_leases: bool = True
    leases_are_exact: bool = False

    def __init__(
        self,
        target: Target,
        lease: float,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
    ) -> None:
        self.where = ", ".join(target.endpoints)
        self.last_failure: LastFailure = LastFailure(f"{self.title} at {self.where}")
        self._link = Link(target, ca, cert, key, self.last_failure, self._recovered)
        self._lease = lease
        self._queue = Queue(self._link)
        self._watches = Watches(self._link, self._ring)
        self._bell: Bell | None = None
        self._tending: asyncio.Task[None] | None = None
        self._forget()

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        lease: float = 30.0,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
    ) -> Self:
        """Make the store for `etcd://host:2379,another:2379`; etcds:// is TLS.

        Raises:
            TypeError: `url` is not a str.
            ValueError: It is malformed, or a file cannot be read.
        """
        return cls(read_url(url), lease, ca, cert, key)

    def __repr__(self) -> str:
        return f"<EtcdStore at {self.where}>"

    async def start(self, bell: Bell, deadline: float) -> None:
        """See the contract."""
        try:
            answer = await self._link.call(messages.STATUS, messages.status(), deadline)
            version = answer.reply.version
            numbers = tuple(int(each) for each in version.split(".")[:2] if each.isdigit())
            if numbers < _OLDEST_VERSION:
                raise UnsupportedServerError(
                    f"etcd at {self.where} is version {version}; 3.4 or newer is required"
                )
        except BaseException:
            await self._link.close()
            raise
        self._forget()
        self._bell = bell
        self._begin_to_tend()

    async def stop(self) -> None:
        """See the contract."""
        task, self._tending = self._tending, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._bell = None
        await self._watches.close()
        session = self._sessions.current
        if session is not None:
            with suppress(ConnectionLostError, BackendError):
                await self._sessions.end(session, now() + _PARTING_SECONDS)
            self._sessions.drop(session)
        await self._link.close()

    def leave_behind(self) -> None:
        """See the contract."""
        task, self._tending = self._tending, None
        self._bell = None
        self._link.leave_behind()
        self._watches.leave_behind()
        if task is not None:
            end_task(task)

    async def ping(self, deadline: float) -> None:
        """See the contract."""
        await self._link.call(messages.STATUS, messages.status(), deadline)

    def keys(self, name: str, kind: Kind = "lock") -> tuple[str, ...]:
        """Return where a lock is kept: a read-write lock has two more places inside its name."""
        return (name, f"{name}/read", f"{name}/write") if kind in _SIDES else (name,)

    async def ask(self, wish: Wish, deadline: float) -> Granted | Busy:
        """See the contract."""
        try:
            return await self._ask(wish, deadline)
        except ConnectionLostError:
            raise
        except BackendError:
            waiter = wish.name, wish.owner
            if self._holds.may_have(waiter):
                # Nothing may be left of what is refused; without an answer it is owed.
                self._watches.forget(waiter)
                with suppress(BackendError):
                    await self._holds.give_back(waiter, False, deadline)
            raise

    async def _ask(self, wish: Wish, deadline: float) -> Granted | Busy:
        waiter = wish.name, wish.owner
        holds = self._holds
        # Whether our key may be in the queue, whatever becomes of the next call.
        entered = holds.may_have(waiter)
        if_free = not wish.waits
        while True:
            session = await telling(self._sessions.fresh(deadline), entered)
            position = await telling(
                holds.position(wish, session, if_free, deadline), entered or None
            )
            entered = True
            if position is None:
                continue
            if position.ahead is None and position.revision:
                granted = await telling(holds.granted(wish, session, position, deadline), entered)
                if granted is not None:
                    self._watches.forget(waiter)
                    return granted
            elif position.ahead is None:
                # Only names inside this one have keys there.
                if_free = False
            else:
                if wish.waits:
                    self._watches.watch(waiter, position.ahead.key, position.at + 1)
                elif not if_free or holds.may_have(waiter):
                    await telling(holds.give_back(waiter, False, deadline), entered)
                return Busy(None)

    async def give_back(
        self, name: str, owner: str, unsure: bool, deadline: float, kind: Kind = "lock"
    ) -> bool | None:
        """See the contract."""
        self._watches.forget((name, owner))
        return await self._holds.give_back((name, owner), unsure, deadline)

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """See the contract."""
        return await self._holds.renew(batch, deadline)

    async def look(self, name: str, deadline: float, kind: Kind = "lock") -> State:
        """See the contract."""
        if kind not in _SIDES:
            contenders = await self._queue.contenders(name, deadline)
            holders = await self._holders(contenders[:1], kind, deadline)
            waiters = tuple(owner_of(each, kind) for each in contenders[1:])
            return State(next(iter(holders), None), waiters, (f"{name}/",))
        sides = await self._queue.sides(name, deadline)
        alone = 0 if sides.writer is None else 1
        held = [*([sides.writer] * alone), *sides.readers]
        holders = await self._holders(held, kind, deadline)
        return State(
            holders[0] if alone else None,
            tuple(owner_of(each, kind) for each in sides.waiters),
            (f"{name}/read/", f"{name}/write/"),
            tuple(holders[alone:]),
        )

    async def _holders(
        self, entries: Sequence[Message], kind: Kind, deadline: float
    ) -> list[HolderState]:
        """Return the holders whose keys these are."""
        left: dict[int, float] = {0: math.inf}
        for number in dict.fromkeys(each.lease for each in entries if each.lease):
            request = messages.lease(number)
            answer = await self._link.call(messages.LEASE_LOOK, request, deadline)
            left[number] = max(0.0, float(answer.reply.seconds))
        return [
            HolderState(owner_of(each, kind), left[each.lease], each.create_revision)
            for each in entries
        ]

    async def force_release(self, name: str, deadline: float, kind: Kind = "lock") -> bool:
        """See the contract."""
        while entries := await self._to_end(name, deadline, kind):
            ended = False
            for each in entries:
                claim = claim_of(name, each) if kind in _SIDES else lock_claim(name, each.key)
                revision = each.create_revision
                if await self._queue.delete_created(claim, revision, deadline):
                    ended = True
            if ended:
                return True
        return False

    async def _to_end(self, name: str, deadline: float, kind: Kind) -> Sequence[Message]:
        """Return the keys of the holders of a kind."""
        if kind not in _SIDES:
            return (await self._queue.contenders(name, deadline))[:1]
        sides = await self._queue.sides(name, deadline)
        if kind == "read":
            return sides.readers
        return () if sides.writer is None else (sides.writer,)

    async def leader(self, name: str, deadline: float) -> Sighting:
        """See `ElectionStore`."""
        first, at = await self._queue.leader(name, deadline)
        if first is None:
            return Sighting(None, 0, prefix_of(name), at)
        return Sighting(first.value, first.create_revision, first.key, at)

    def observe(self, observer: Waiter, seen: Sighting) -> None:
        """See `ElectionStore`."""
        # A leader that comes while there is one has to wait: only its own key counts until then.
        how = messages.watch_inside if seen.value is None else messages.watch_changes
        self._watches.watch(observer, seen.key, seen.at + 1, how)

    def observes(self, observer: Waiter) -> bool:
        """See `ElectionStore`."""
        return self._watches.watches(observer)

    def unobserve(self, observer: Waiter) -> None:
        """See `ElectionStore`."""
        self._watches.forget(observer)

    async def proclaim(
        self, name: str, owner: str, token: int, written: int, value: bytes, deadline: float
    ) -> int:
        """See `ElectionStore`."""
        key = candidate_key(name, owner.encode())
        return await self._queue.proclaim(key, token, written, value, deadline)

    def _begin_to_tend(self) -> None:
        self._tending = asyncio.create_task(self._tend(), name="redisson_py etcd session")
        self._tending.add_done_callback(self._tend_again)

    def _tend_again(self, ended: asyncio.Task[None]) -> None:
        """Go on after an event loop that ends has cancelled every task: blocks still clean up."""
        if ended is self._tending and ended.cancelled():
            self._begin_to_tend()

    async def _tend(self) -> None:
        """Renew the session for those that wait, and give back what could not be given back.

        Holds are renewed by the engine, and with them the session.
        """
        while True:
            session = self._sessions.current
            period = (session.seconds if session else self._lease) / 3
            with suppress(TimeoutError):
                async with asyncio.timeout(period):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._holds.tend(now() + period)
            except ConnectionLostError:
                pass
            except BackendError:
                # Waiters ask again and receive the error.
                self._ring_all()
            except Exception:
                # A defect, of the driver maybe: no reason to let the session end.
                log.exception("looking after the session on etcd at %s failed", self.where)

    def _forget(self) -> None:
        """Begin without a session, in this event loop."""
        self._news = asyncio.Event()
        self._sessions = Sessions(self._link, self._lease, self._session_ended)
        self._holds = Holds(self._queue, self._sessions)

    def _recovered(self) -> None:
        self._news.set()
        self._ring_all()

    def _session_ended(self) -> None:
        self._holds.session_ended()
        self._watches.clear()
        self._ring_all()

    def _ring_all(self) -> None:
        if self._bell is not None:
            self._bell.ring_all()

    def _ring(self, name: str, owner: str) -> None:
        if self._bell is not None:
            self._bell.ring(name, owner)
