"""Holds as keys of etcd, as Go's `concurrency.Mutex` and `etcdctl lock` keep them.

A contender for `name` puts the key `name/<its lease in hex>`. The key that was created first has
the hold, and the revision at which it was created is its fencing token. The others wait until the
one before theirs is deleted; so the queue is in etcd, and fair. We write the owner as the value,
which Go leaves empty and nobody else reads.

Invariants:

- A client has one session, the lease that its keys are under. A hold that is not to be renewed is
  moved to a lease of its own, which ends by itself; its key stays, and so does its token.
- A key is deleted only if its value is the owner who gives it back, so a late release cannot
  delete a newer hold. Owners of one client have the same key for a name: the next one is busy
  until the one before has gone.
- A request without an answer may arrive late. Its undo puts `redisson_py/undone/<owner>` under the
  session; a request to enter the queue is refused if that exists, or if its session has ended.
- A hold is granted only after etcd has shown its key without another before it, and while the
  session has time left, counted from before its last renewal was written.
- A key that could not be deleted would live as long as the session. So what was not given back for
  want of an answer is given back later, while the session lives.

A key `name/a/<lease>` belongs to the lock `name/a`, although it begins with `name/`: it is not
taken for a contender here. Go does, and waits for it too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from redisson_py._stores.contract import (
    Bell,
    Busy,
    Granted,
    HolderState,
    Renewal,
    State,
    Wish,
)
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.link import LeaseEndedError, Link, telling
from redisson_py._stores.etcd.queue import GivenBackError, Place, Queue, key_of, owner_of, prefix_of
from redisson_py._stores.etcd.session import Session, Sessions
from redisson_py._stores.etcd.url import Target, read_url
from redisson_py._stores.etcd.watches import Waiter, Watches
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError

_OLDEST_VERSION = (3, 4)
#: Seconds in which the session is ended when the store stops.
_PARTING = 1.0


@dataclass(frozen=True, slots=True)
class _OwnHold:
    """A hold under a lease of its own.

    Attributes:
        key: Its key.
        revision: The create revision of its key.
        lease: The lease.
        moved: Whether etcd has said so; if not, the key may still be under the lease before.
    """

    key: bytes
    revision: int
    lease: Session
    moved: bool


@dataclass(frozen=True, slots=True)
class _Debt:
    """What is to be given back.

    Attributes:
        unsure: A request of the owner had no answer.
        waited: The owner had a place in the queue, and no hold.
        sent: It may have been given back, without an answer.
    """

    unsure: bool
    waited: bool
    sent: bool


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

    def __init__(
        self,
        target: Target,
        lease: float,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
    ) -> None:
        self._link = Link(target, ca, cert, key, self._recovered)
        self._lease = lease
        self.where = self._link.where
        self._sessions = Sessions(self._link, lease, self._session_ended)
        self._queue = Queue(self._link)
        self._watches = Watches(self._link, self._ring)
        self._bell: Bell | None = None
        # The create revisions of keys in the queue that had others before them.
        self._places: dict[Waiter, int] = {}
        # Holds under a lease of their own.
        self._own: dict[Waiter, _OwnHold] = {}
        # What was to be given back, but there was no answer yet.
        self._owed: dict[Waiter, _Debt] = {}
        # Whether those that were given back later had the hold: the engine may ask again.
        self._given: dict[Waiter, bool] = {}
        self._tending: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

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
        except BaseException:
            await self._link.close()
            raise
        version = answer.reply.version
        numbers = tuple(int(each) for each in version.split(".")[:2] if each.isdigit())
        if numbers < _OLDEST_VERSION:
            raise UnsupportedServerError(
                f"etcd at {self.where} has version {version}: 3.4 or newer is needed"
            )
        self._bell = bell
        self._news = asyncio.Event()
        self._sessions = Sessions(self._link, self._lease, self._session_ended)
        self._tending = asyncio.create_task(self._tend(), name="redisson_py etcd session")

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
                await self._sessions.end(session, now() + _PARTING)
            self._sessions.drop(session)
        self._own.clear()
        await self._link.close()

    async def ping(self, deadline: float) -> None:
        """See the contract."""
        await self._link.call(messages.STATUS, messages.status(), deadline)

    async def ask(self, wish: Wish, deadline: float) -> Granted | Busy:
        """See the contract."""
        waiter = wish.name, wish.owner
        # Whether our key may be in the queue, whatever becomes of the next call.
        entered = waiter in self._places or waiter in self._own
        if_free = not wish.waits
        while True:
            session = await telling(self._sessions.fresh(deadline), entered)
            place = await telling(self._place(wish, session, if_free, deadline), entered or None)
            entered = True
            if place is None:
                continue
            if place.ahead is None and place.revision:
                granted = await telling(self._granted(wish, session, place, deadline), entered)
                if granted is not None:
                    return granted
            elif place.ahead is None:
                # Only names inside this one have keys there.
                if_free = False
            else:
                if wish.waits:
                    self._watches.watch(waiter, place.ahead.key, place.at + 1)
                elif not if_free:
                    await telling(self.give_back(*waiter, False, deadline), entered)
                return Busy(None)

    async def _place(
        self, wish: Wish, session: Session, if_free: bool, deadline: float
    ) -> Place | None:
        """Return the place of an owner, which enters the queue; None if it was removed there."""
        waiter = wish.name, wish.owner
        own = self._own.get(waiter)
        if own is not None:
            place = await self._queue.place(wish.name, own.key, own.revision, deadline)
            if place is None:
                del self._own[waiter]
            return place
        revision = self._places.get(waiter)
        if revision is not None:
            key = key_of(wish.name, session.number)
            place = await self._queue.place(wish.name, key, revision, deadline)
            if place is None:
                self._places.pop(waiter, None)
            return place
        try:
            place = await self._queue.enter(
                wish.name, wish.owner, session.number, if_free, deadline
            )
        except LeaseEndedError:
            self._sessions.drop(session)
            return None
        except GivenBackError:
            raise BackendError(
                f"{wish.owner} has given back {wish.name!r}: it cannot ask again"
            ) from None
        if self._sessions.current is not session:
            return None
        if place.revision:
            self._places[waiter] = place.revision
        return place

    async def _granted(
        self, wish: Wish, session: Session, place: Place, deadline: float
    ) -> Granted | None:
        """Return the grant of an owner with nobody before it; None if it has to ask again."""
        waiter = wish.name, wish.owner
        own = self._own.get(waiter)
        if not wish.renewed and (own is None or not own.moved):
            key = key_of(wish.name, session.number)
            hold = own or _OwnHold(key, place.revision, session, moved=False)
            try:
                own = await self._moved(waiter, hold, wish.lease, deadline)
            except ConnectionLostError:
                raise
            except BackendError:
                # Nothing may be left of what is refused.
                await self.give_back(*waiter, False, deadline)
                raise
            if own is None:
                return None
        if own is None and await self._sessions.fresh(deadline) is not session:
            return None
        self._places.pop(waiter, None)
        self._watches.forget(waiter)
        return Granted(own.lease.until if own else session.until, place.revision)

    async def _moved(
        self, waiter: Waiter, hold: _OwnHold, lease: float, deadline: float
    ) -> _OwnHold | None:
        """Put a hold under a new lease of its own; return None if there is no such hold."""
        while True:
            new = await self._sessions.grant(lease, deadline)
            # Until the answer it may be under either, and is given back wherever it is.
            until = min(new.until, hold.lease.until)
            self._own[waiter] = replace(hold, lease=replace(new, until=until), moved=False)
            try:
                there = await self._queue.move(hold.key, hold.revision, new.number, deadline)
            except LeaseEndedError:
                # It ended before it was used, if it was short and etcd slow.
                continue
            moved = replace(hold, lease=new, moved=True)
            if there:
                self._own[waiter] = moved
            else:
                del self._own[waiter]
            old = hold.lease if there else new
            if old is not self._sessions.current:
                await self._end_lease(old, deadline)
            return moved if there else None

    async def give_back(self, name: str, owner: str, unsure: bool, deadline: float) -> bool:
        """See the contract."""
        waiter = name, owner
        if waiter in self._given:
            return self._given.pop(waiter)
        debt = self._owed.get(waiter, _Debt(unsure, waiter in self._places, sent=False))
        debt = replace(debt, unsure=debt.unsure or unsure)
        self._places.pop(waiter, None)
        self._watches.forget(waiter)
        try:
            held = await self._deleted(waiter, debt, deadline)
        except ConnectionLostError as error:
            self._owed[waiter] = replace(debt, sent=debt.sent or error.maybe_held)
            raise
        except asyncio.CancelledError:
            self._owed[waiter] = replace(debt, sent=True)
            raise
        self._owed.pop(waiter, None)
        return held

    async def _deleted(self, waiter: Waiter, debt: _Debt, deadline: float) -> bool:
        """Delete the key of an owner, and return whether it had the hold."""
        name, owner = waiter
        own, session = self._own.get(waiter), self._sessions.current
        if own is None and session is None:
            return False
        key = own.key if own else key_of(name, session.number if session else 0)
        lease = session.number if debt.unsure and session is not None else None
        try:
            answer = await self._queue.delete(name, key, owner, lease, deadline)
        except LeaseEndedError:
            # With the session, so that a late request is refused for that.
            if session is not None:
                self._sessions.drop(session)
            if own is None:
                return False
            return await self._deleted(waiter, replace(debt, unsure=False), deadline)
        self._own.pop(waiter, None)
        if own is not None:
            await self._end_lease(own.lease, deadline)
        if debt.waited:
            return False
        if debt.unsure:
            first = messages.first_entry(answer.reply, 0) if answer.reply.succeeded else None
            return first is not None and first.key == key
        # Where it was asked before without an answer, it was that request that deleted the key.
        return bool(answer.reply.succeeded) or debt.sent or answer.repeated

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """See the contract."""
        session = self._sessions.current
        in_session = [each for each in batch if (each.name, each.owner) not in self._own]
        if session is not None and any(each.lease for each in in_session):
            await self._sessions.renew(session, deadline)
        keys = [self._key_of(each) for each in batch]
        kept: list[float | None] = []
        for each, revision in zip(batch, await self._queue.present(keys, deadline), strict=True):
            there = revision == each.token
            kept.append(await self._kept(each, session, deadline) if there else None)
        return kept

    async def _kept(
        self, renewal: Renewal, session: Session | None, deadline: float
    ) -> float | None:
        """Return until when a hold that is there is kept; give it another lease if it needs one."""
        waiter = renewal.name, renewal.owner
        own = self._own.get(waiter)
        if own is None and (session is None or session is not self._sessions.current):
            return None
        lease = own.lease if own else session
        assert lease is not None
        enough = own.lease.left if own else lease.seconds
        if not renewal.lease or (not renewal.exact and enough >= renewal.lease):
            return lease.until
        hold = own or _OwnHold(self._key_of(renewal), renewal.token, lease, moved=False)
        moved = await self._moved(waiter, hold, renewal.lease, deadline)
        return moved.lease.until if moved else None

    def _key_of(self, renewal: Renewal) -> bytes:
        own, session = self._own.get((renewal.name, renewal.owner)), self._sessions.current
        if own is not None:
            return own.key
        # Without a session nothing of it is there: the prefix is the key of nothing.
        return prefix_of(renewal.name) if session is None else key_of(renewal.name, session.number)

    async def look(self, name: str, deadline: float) -> State:
        """See the contract."""
        contenders = await self._queue.contenders(name, deadline)
        holder = None
        if contenders:
            first = contenders[0]
            remaining = math.inf
            if first.lease:
                request = messages.lease(first.lease)
                answer = await self._link.call(messages.LEASE_LOOK, request, deadline)
                remaining = max(0.0, float(answer.reply.seconds))
            holder = HolderState(owner_of(first), remaining, first.create_revision)
        return State(holder, tuple(owner_of(each) for each in contenders[1:]), (f"{name}/",))

    async def force_release(self, name: str, deadline: float) -> bool:
        """See the contract."""
        while contenders := await self._queue.contenders(name, deadline):
            first = contenders[0]
            if await self._queue.delete_created(first.key, first.create_revision, deadline):
                self._ring(name)
                return True
        return False

    async def _end_lease(self, lease: Session, deadline: float) -> None:
        """End a lease that no key needs; without an answer it ends by itself."""
        with suppress(ConnectionLostError, BackendError):
            await self._sessions.end(lease, min(deadline, now() + _PARTING))

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
            with suppress(ConnectionLostError, BackendError):
                await self._tend_once(now() + period)

    async def _tend_once(self, deadline: float) -> None:
        session = self._sessions.current
        if session is not None and (self._places or self._owed):
            if session.left > 0:
                await self._sessions.renew(session, deadline)
            else:
                await self._sessions.fresh(deadline)
        for waiter, debt in list(self._owed.items()):
            self._given[waiter] = await self._deleted(waiter, debt, deadline)
            self._owed.pop(waiter, None)

    def _recovered(self) -> None:
        self._news.set()
        if self._bell is not None:
            self._bell.ring_all()

    def _session_ended(self) -> None:
        # With all keys that were under it.
        self._places.clear()
        self._owed.clear()
        self._given.clear()
        self._watches.clear()
        if self._bell is not None:
            self._bell.ring_all()

    def _ring(self, name: str) -> None:
        if self._bell is not None:
            self._bell.ring(name)
