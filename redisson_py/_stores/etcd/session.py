"""The lease of a client: all keys of its holds and waits are under it, unless they have their own.

Invariants: there is one session at a time; one that ended never comes back, and all its keys are
gone before another begins. `until` counts from before the renewal was written that etcd answered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.link import LeaseEndedError, Link
from redisson_py._time import now

#: The part of a session that must be left for a new hold.
_FRESH_SHARE = 2 / 3
#: A key that is not there, and that those may read who may use locks.
_NOTHING = b"redisson_py/"


@dataclass(slots=True)
class Session:
    """A lease of etcd.

    Attributes:
        number: Its id.
        seconds: What etcd granted.
        until: The moment until which etcd keeps it without a renewal.
        ending: Whether etcd was asked to end it: it is not used any more, also without an answer.
    """

    number: int
    seconds: int
    until: float
    ending: bool = False

    @property
    def left(self) -> float:
        """Seconds until it ends if it is not renewed."""
        return 0.0 if self.ending else self.until - now()


class Sessions:
    """The present session of a client.

    Args:
        link: Where.
        lease: Seconds of a session, at least.
        ended: Called when a session ended.
    """

    def __init__(self, link: Link, lease: float, ended: Callable[[], object]) -> None:
        self.current: Session | None = None
        self._link = link
        self._lease = lease
        self._ended = ended
        self._beginning = asyncio.Lock()

    async def fresh(self, deadline: float) -> Session:
        """Return the session, with enough of it left for a hold; begin one if there is none."""
        session = self.current
        if session is not None and session.left > _FRESH_SHARE * session.seconds:
            return session
        try:
            async with asyncio.timeout(max(0.0, deadline - now())):
                await self._beginning.acquire()
        except TimeoutError:
            raise self._link.last_failure.no_answer(maybe_held=False) from None
        try:
            return await self._made_fresh(deadline)
        finally:
            self._beginning.release()

    async def _made_fresh(self, deadline: float) -> Session:
        session = self.current
        if session is not None:
            if session.left > _FRESH_SHARE * session.seconds:
                return session
            if session.left > 0 and await self.renew(session, deadline):
                return session
            if self.current is session:
                # Its holds count as lost: none of them may come back with a renewal.
                await self.end(session, deadline)
        # Nothing begins that could not be ended.
        largest = messages.txn([], [messages.get(_NOTHING)] * messages.MOST_OPERATIONS)
        await self._link.call(messages.TXN, largest, deadline)
        self.current = await self.grant(self._lease, deadline)
        return self.current

    async def grant(self, lease: float, deadline: float) -> Session:
        """Return a new lease of at least that many seconds, which nobody renews."""
        request = messages.lease_grant(math.ceil(lease))
        answer = await self._link.call(messages.LEASE_GRANT, request, deadline)
        seconds = answer.reply.seconds
        return Session(answer.reply.id, seconds, answer.written + seconds)

    async def renew(self, session: Session, deadline: float) -> bool:
        """Renew a session; return whether it was there."""
        if session.ending:
            return False
        while True:
            request = messages.lease(session.number)
            answer = await self._link.call(messages.LEASE_RENEW, request, deadline)
            if answer.reply.seconds <= 0:
                self.drop(session)
                return False
            # A leader that was replaced while it hung renews, and the new one knows nothing of it.
            # A read is answered in the present term only.
            look = messages.get(_NOTHING).range
            present = await self._link.call(messages.RANGE, look, deadline)
            if present.reply.header.term == answer.reply.header.term:
                break
        session.until = max(session.until, answer.written + answer.reply.seconds)
        return self.current is session and not session.ending

    async def end(self, session: Session, deadline: float) -> None:
        """End a session or another lease, with all its keys."""
        session.ending = True
        request = messages.lease(session.number)
        with suppress(LeaseEndedError):
            await self._link.call(messages.LEASE_REVOKE, request, deadline)
        self.drop(session)

    def drop(self, session: Session) -> None:
        """Forget a session that etcd does not know any more."""
        if self.current is session:
            self.current = None
            self._ended()
