"""What a client has in etcd: holds, places in queues, and what it still has to give back.

Invariants: an owner with a place is in `_places` until it is granted the hold or gives back; its
key is under the session. `_own` has the holds under a lease of their own, from before they are
moved there. What ends with the session is forgotten with it; holds under their own leases go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from redisson_py._stores.contract import Granted, Renewal, Wish
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.link import LeaseEndedError, telling
from redisson_py._stores.etcd.queue import GivenBackError, Place, Queue, key_of, plain, prefix_of
from redisson_py._stores.etcd.session import Session, Sessions
from redisson_py._stores.etcd.watches import Waiter
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError

#: Seconds in which a lease is ended that no key needs any more.
_PARTING = 1.0
#: How many owners are remembered that were given back later.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _OwnHold:
    """A hold under a lease of its own.

    Attributes:
        key: Its key.
        revision: The create revision of its key.
        written: The revision at which its key was last written, as far as is known.
        lease: The lease.
        moved: Whether etcd has said so; if not, the key may still be under the lease before.
    """

    key: bytes
    revision: int
    written: int
    lease: Session
    moved: bool


@dataclass(frozen=True, slots=True)
class _Debt:
    """What is to be given back.

    Attributes:
        unsure: A request of the owner had no answer.
        waited: The owner had a place in the queue, and no hold.
        sent: It may have been given back, without an answer.
        refused: etcd refused it, which the engine was told: it does not ask again.
    """

    unsure: bool
    waited: bool
    sent: bool = False
    refused: bool = False


class Holds:
    """The holds and waits of a client.

    Args:
        queue: Where they are.
        sessions: The lease that they are under.
    """

    def __init__(self, queue: Queue, sessions: Sessions) -> None:
        self._queue = queue
        self._sessions = sessions
        # The create revisions of keys in the queue that had others before them.
        self._places: dict[Waiter, int] = {}
        # Those of whose first request a copy may arrive later.
        self._repeated: set[Waiter] = set()
        # Holds under a lease of their own.
        self._own: dict[Waiter, _OwnHold] = {}
        # What was to be given back, but there was no answer yet, or a refusal.
        self._owed: dict[Waiter, _Debt] = {}
        # Those that the engine gives back at this moment.
        self._leaving: set[Waiter] = set()
        # Whether those that were given back later had the hold: the engine may ask again.
        self._given: dict[Waiter, bool | None] = {}

    def may_have(self, waiter: Waiter) -> bool:
        """Return whether an owner has a place, or may have got or yet get a hold."""
        return waiter in self._places or waiter in self._own or waiter in self._repeated

    def session_ended(self) -> None:
        """Forget what was under the session."""
        self._places.clear()
        self._repeated.clear()
        self._owed = {each: debt for each, debt in self._owed.items() if each in self._own}
        self._given.clear()

    async def place(
        self, wish: Wish, session: Session, if_free: bool, deadline: float
    ) -> Place | None:
        """Return the place of an owner, which enters the queue; None if it was removed there."""
        waiter = wish.name, wish.owner
        own = self._own.get(waiter)
        if own is not None:
            place = await self._queue.place(wish.name, own.key, own.revision, deadline)
            if place is None:
                self._own.pop(waiter, None)
            return place
        revision = self._places.get(waiter)
        if revision is not None:
            key = key_of(wish.name, wish.owner, session.number)
            place = await self._queue.place(wish.name, key, revision, deadline)
            if place is None:
                self._places.pop(waiter, None)
            return place
        try:
            place = await self._queue.enter(
                wish.name, wish.owner, session.number, if_free, deadline, wish.proposal
            )
        except LeaseEndedError:
            self._sessions.drop(session)
            return None
        except GivenBackError:
            raise BackendError(
                f"{wish.owner} has given back {plain(wish.name)!r}: it cannot ask again"
            ) from None
        if self._sessions.current is not session:
            return None
        if place.revision:
            # Known before anything else is asked: what follows may be refused.
            self._places[waiter] = place.revision
        if place.repeated:
            self._repeated.add(waiter)
        entered = self.may_have(waiter) or None
        place = await telling(self._queue.seen(wish.name, place, deadline), entered)
        return place if self._sessions.current is session else None

    async def granted(
        self, wish: Wish, session: Session, place: Place, deadline: float
    ) -> Granted | None:
        """Return the grant of an owner with nobody before it; None if it has to ask again."""
        waiter = wish.name, wish.owner
        own = self._own.get(waiter)
        if not wish.renewed and (own is None or not own.moved):
            key = key_of(wish.name, wish.owner, session.number)
            hold = own or _OwnHold(key, place.revision, place.revision, session, moved=False)
            own = await self._moved(waiter, hold, wish.lease, deadline)
            if own is None:
                return None
        if own is None and await self._sessions.fresh(deadline) is not session:
            return None
        self._places.pop(waiter, None)
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
                written = await self._queue.move(
                    hold.key, hold.revision, hold.written, new.number, deadline
                )
            except LeaseEndedError:
                # It ended before it was used, if it was short and etcd slow.
                continue
            moved = replace(hold, written=written, lease=new, moved=True)
            if self._own.pop(waiter, None) is None:
                # It was given back meanwhile.
                written = 0
            if written:
                self._own[waiter] = moved
            old = hold.lease if written else new
            if old is not self._sessions.current:
                await self._end_lease(old, deadline)
            return moved if written else None

    async def give_back(self, waiter: Waiter, unsure: bool, deadline: float) -> bool | None:
        """End a hold or a wait; return whether it was a hold, or None; see the contract."""
        if waiter in self._given:
            return self._given.pop(waiter)
        debt = self._owed.get(waiter, _Debt(unsure, waiter in self._places))
        debt = replace(debt, unsure=debt.unsure or unsure or waiter in self._repeated)
        self._places.pop(waiter, None)
        self._leaving.add(waiter)
        try:
            held = await self._deleted(waiter, debt, deadline)
        except ConnectionLostError as error:
            self._owed[waiter] = replace(debt, sent=debt.sent or error.maybe_held)
            raise
        except BackendError:
            self._owed[waiter] = replace(debt, refused=True)
            raise
        except asyncio.CancelledError:
            self._owed[waiter] = replace(debt, sent=True)
            raise
        finally:
            self._leaving.discard(waiter)
        self._owed.pop(waiter, None)
        self._repeated.discard(waiter)
        # If it was given back here meanwhile, that was the first of the two.
        return self._given.pop(waiter, held)

    async def _deleted(self, waiter: Waiter, debt: _Debt, deadline: float) -> bool | None:
        """Delete the key of an owner, and return whether it had the hold; None: not known."""
        name, owner = waiter
        own, session = self._own.get(waiter), self._sessions.current
        if own is None and session is None:
            return False
        key = own.key if own else key_of(name, owner, session.number if session else 0)
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
        deleted, again = bool(answer.reply.succeeded), debt.sent or answer.repeated
        if not debt.unsure:
            # Where it was asked before without an answer, it was that request that deleted the key.
            return deleted or again
        if not deleted:
            return None if again else False
        first = messages.first_entry(answer.reply, 0)
        return first is not None and first.key == key

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """Renew holds, with one renewal of the session; return until when each is kept."""
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
        if own is None and (
            session is None or session.ending or session is not self._sessions.current
        ):
            return None
        lease = own.lease if own else session
        assert lease is not None
        enough = own.lease.left if own else lease.seconds
        if not renewal.lease or (not renewal.exact and enough >= renewal.lease):
            return lease.until
        hold = own or _OwnHold(
            self._key_of(renewal), renewal.token, renewal.token, lease, moved=False
        )
        moved = await self._moved(waiter, hold, renewal.lease, deadline)
        return moved.lease.until if moved else None

    def _key_of(self, renewal: Renewal) -> bytes:
        own, session = self._own.get((renewal.name, renewal.owner)), self._sessions.current
        if own is not None:
            return own.key
        # Without a session nothing of it is there: the prefix is the key of nothing.
        if session is None:
            return prefix_of(renewal.name)
        return key_of(renewal.name, renewal.owner, session.number)

    async def _end_lease(self, lease: Session, deadline: float) -> None:
        """End a lease that no key needs; without an answer it ends by itself."""
        with suppress(ConnectionLostError, BackendError):
            await self._sessions.end(lease, min(deadline, now() + _PARTING))

    async def tend(self, deadline: float) -> None:
        """Renew the session for waits, and give back what could not be given back before.

        What etcd refuses stays owed, and ends with its session at the latest, which is not renewed
        for it.
        """
        session = self._sessions.current
        if session is not None and (self._places or self._owed):
            if session.left <= 0:
                await self._sessions.fresh(deadline)
            elif self._places or not all(each.refused for each in self._owed.values()):
                await self._sessions.renew(session, deadline)
        for waiter in list(self._owed):
            debt = self._owed.get(waiter)
            if debt is None or waiter in self._leaving:
                # The engine was faster.
                continue
            # If the engine asks meanwhile, this request may be why nothing is found.
            self._owed[waiter] = replace(debt, sent=True)
            try:
                held = await self._deleted(waiter, debt, deadline)
            except ConnectionLostError as error:
                self._still_owed(waiter, debt.sent or error.maybe_held)
                raise
            except BackendError:
                self._still_owed(waiter, debt.sent)
                continue
            self._repeated.discard(waiter)
            if self._owed.pop(waiter, None) is not None and not debt.refused:
                self._given[waiter] = held
                if len(self._given) > _REMEMBERED:
                    # The engine asked for the last time before that.
                    del self._given[next(iter(self._given))]

    def _still_owed(self, waiter: Waiter, sent: bool) -> None:
        """Note that a debt could not be paid, and whether it may have been all the same."""
        if (debt := self._owed.get(waiter)) is not None:
            self._owed[waiter] = replace(debt, sent=sent)
