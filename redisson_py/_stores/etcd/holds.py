"""What a client has in etcd: holds, places in queues, and what it still has to give back.

Invariants: an owner with a place is in `_revisions` until it is granted the hold or gives back; its
key is under the session. `_own` has the holds under a lease of their own, from before they are
moved there. What ends with the session is forgotten with it; holds under their own leases go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from redisson_py._stores.contract import Granted, Renewal, Wish
from redisson_py._stores.etcd.claims import Claim, Claims
from redisson_py._stores.etcd.link import LeaseEndedError, telling
from redisson_py._stores.etcd.queue import (
    GivenBackError,
    Position,
    Queue,
    key_of,
    lock_claim,
    prefix_of,
)
from redisson_py._stores.etcd.session import Session, Sessions
from redisson_py._stores.etcd.watches import Waiter
from redisson_py._stores.remembered import Remembered
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError

#: Seconds in which a lease is ended that no key needs any more.
_PARTING_SECONDS = 1.0
#: Seconds for which an undo is noted. A request that comes later than that, from a member that hung
#: for so long, would leave a key until the session ends.
_NOTED_SECONDS = 3600.0


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
        refused: etcd refused it, and the engine knows: it does not ask again.
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
        self._revisions: dict[Waiter, int] = {}
        # Those of whose first request a copy may arrive later.
        self._repeated: set[Waiter] = set()
        # Holds under a lease of their own.
        self._own: dict[Waiter, _OwnHold] = {}
        # What was to be given back, but there was no answer yet, or a refusal.
        self._owed: dict[Waiter, _Debt] = {}
        # Those that the engine gives back at this moment.
        self._leaving: set[Waiter] = set()
        # Whether those that were given back later had the hold: the engine may ask again.
        self._given: Remembered[Waiter, bool | None] = Remembered()
        # When undos of which owners were noted in etcd, the oldest first.
        self._noted: deque[tuple[float, str]] = deque()
        # What was asked for, where it is no lock.
        self._claims = Claims()

    def may_have(self, waiter: Waiter) -> bool:
        """Return whether an owner has a place, or may have got or yet get a hold."""
        return waiter in self._revisions or waiter in self._own or waiter in self._repeated

    def session_ended(self) -> None:
        """Forget what was under the session."""
        self._revisions.clear()
        self._repeated.clear()
        self._owed = {each: debt for each, debt in self._owed.items() if each in self._own}
        self._given.clear()
        self._noted.clear()
        self._claims.clear(but=self._own)

    async def position(
        self, wish: Wish, session: Session, if_free: bool, deadline: float
    ) -> Position | None:
        """Return the place of an owner, which enters the queue; None if it was removed there."""
        waiter = wish.name, wish.owner
        own = self._own.get(waiter)
        if own is not None:
            claim = self._claims.of(waiter) or lock_claim(wish.name, own.key)
            position = await self._queue.position(claim, own.revision, deadline)
            if position is None:
                self._own.pop(waiter, None)
            return position
        lock = lock_claim(wish.name, key_of(wish.name, session.number))
        claim = lock if wish.kind == "lock" else self._claims.asked(wish)
        revision = self._revisions.get(waiter)
        if revision is not None:
            position = await self._queue.position(claim, revision, deadline)
            if position is None:
                self._revisions.pop(waiter, None)
            return position
        try:
            position = await self._queue.enter(claim, wish.owner, session.number, if_free, deadline)
        except LeaseEndedError:
            self._sessions.drop(session)
            return None
        except GivenBackError:
            self._claims.forget(waiter)
            raise BackendError(
                f"{wish.owner} gave {wish.name!r} back and cannot ask again"
            ) from None
        except BackendError as error:
            sent = isinstance(error, ConnectionLostError) and error.maybe_held
            if not (sent or self.may_have(waiter)):
                self._claims.forget(waiter)
            raise
        if self._sessions.current is not session:
            return None
        if claim.within is not None and not position.revision:
            # The write is gone, for good: it reads as others do.
            self._claims.forget(waiter)
            self._claims.writes_no_more((wish.name, wish.within or ""))
            return None
        if not (position.revision or position.repeated):
            self._claims.forget(waiter)
        if position.revision:
            # Known before anything else is asked: what follows may be refused.
            self._revisions[waiter] = position.revision
        if position.repeated:
            self._repeated.add(waiter)
        entered = self.may_have(waiter) or None
        position = await telling(self._queue.seen(claim, position, deadline), entered)
        return position if self._sessions.current is session else None

    async def granted(
        self, wish: Wish, session: Session, position: Position, deadline: float
    ) -> Granted | None:
        """Return the grant of an owner with nobody before it; None if it has to ask again."""
        waiter = wish.name, wish.owner
        own = self._own.get(waiter)
        if not wish.renewed and (own is None or not own.moved):
            asked = self._claims.of(waiter)
            key = key_of(wish.name, session.number) if asked is None else asked.key
            hold = own or _OwnHold(key, position.revision, position.revision, session, moved=False)
            own = await self._moved(waiter, hold, wish.lease, deadline)
            if own is None:
                return None
        if own is None and await self._sessions.fresh(deadline) is not session:
            return None
        self._revisions.pop(waiter, None)
        if wish.kind == "write":
            self._claims.writes(waiter, position.revision)
        return Granted(own.lease.until if own else session.until, position.revision)

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
        debt = self._owed.get(waiter, _Debt(unsure, waiter in self._revisions))
        debt = replace(debt, unsure=debt.unsure or unsure or waiter in self._repeated)
        self._revisions.pop(waiter, None)
        self._claims.writes_no_more(waiter)
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
        _, owner = waiter
        own, session = self._own.get(waiter), self._sessions.current
        if own is None and session is None:
            return False
        claim = self._claim_of(waiter)
        lease = session.number if debt.unsure and session is not None else None
        try:
            answer = await self._queue.delete(claim, owner, lease, deadline)
        except LeaseEndedError:
            # With the session, so that a late request is refused for that.
            if session is not None:
                self._sessions.drop(session)
            if own is None:
                return False
            return await self._deleted(waiter, replace(debt, unsure=False), deadline)
        if lease is not None:
            self._noted.append((now(), owner))
        self._own.pop(waiter, None)
        self._claims.forget(waiter)
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
        # It is deleted, whatever becomes of this look.
        return await telling(self._queue.was_first(claim, answer.reply, deadline), True)

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """Renew holds, with one renewal of the session; return until when each is kept."""
        session = self._sessions.current
        in_session = [each for each in batch if (each.name, each.owner) not in self._own]
        if session is not None and any(each.lease for each in in_session):
            await self._sessions.renew(session, deadline)
        keys = [self._claim_of((each.name, each.owner)).key for each in batch]
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
        claim = self._claim_of(waiter)
        if not claim.movable:
            # The client ends it.
            return lease.until
        key = claim.key
        hold = own or _OwnHold(key, renewal.token, renewal.token, lease, moved=False)
        moved = await self._moved(waiter, hold, renewal.lease, deadline)
        return moved.lease.until if moved else None

    def _claim_of(self, waiter: Waiter) -> Claim:
        """Return what an owner that may have a key asked for."""
        asked = self._claims.of(waiter)
        if asked is not None:
            return asked
        name, own, session = waiter[0], self._own.get(waiter), self._sessions.current
        if own is not None:
            return lock_claim(name, own.key)
        # Without a session nothing of it is there: the prefix is the key of nothing.
        key = prefix_of(name) if session is None else key_of(name, session.number)
        return lock_claim(name, key)

    async def _end_lease(self, lease: Session, deadline: float) -> None:
        """End a lease that no key needs; without an answer it runs out."""
        with suppress(ConnectionLostError, BackendError):
            await self._sessions.end(lease, min(deadline, now() + _PARTING_SECONDS))

    async def tend(self, deadline: float) -> None:
        """Renew the session for waits, and give back what could not be given back before.

        What etcd refuses stays owed, and ends with its session at the latest, which is not renewed
        for it.
        """
        session = self._sessions.current
        refused: BackendError | None = None
        if session is not None and (self._revisions or self._owed):
            try:
                if session.left <= 0:
                    await self._sessions.fresh(deadline)
                elif self._revisions or not all(each.refused for each in self._owed.values()):
                    await self._sessions.renew(session, deadline)
            except ConnectionLostError:
                raise
            except BackendError as error:
                # What is owed may be taken all the same.
                refused = error
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
        await self._delete_notes(deadline)
        if refused is not None:
            raise refused

    async def _delete_notes(self, deadline: float) -> None:
        """Delete notes of undos that no request is late for any more."""
        before = now() - _NOTED_SECONDS
        while self._noted and self._noted[0][0] < before:
            moment, owner = self._noted.popleft()
            try:
                await self._queue.delete_note(owner, deadline)
            except BackendError:
                self._noted.appendleft((moment, owner))
                raise

    def _still_owed(self, waiter: Waiter, sent: bool) -> None:
        """Note that a debt could not be paid, and whether it may have been all the same."""
        if (debt := self._owed.get(waiter)) is not None:
            self._owed[waiter] = replace(debt, sent=sent)
