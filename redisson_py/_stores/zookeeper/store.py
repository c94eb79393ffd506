"""Keeps locks, read-write locks, semaphore mutexes and elections in ZooKeeper, as Curator does.

A name is a directory (`names`). An owner that wants it makes a contender in it: an ephemeral node,
whose name begins with the owner's own prefix and ends with a number from the server. The contender
with the lowest number is the holder; a waiter watches the contender right before its own. The token
is the contender's czxid, which grows over the whole ensemble. Empty directories are containers: the
server deletes them.

Invariants:

- A contender is ours only in the session that made it. It is written down here before the request
  is sent, and forgotten when a deletion was answered, or when the session has ended.
- What the store says of a name is read after something that went through the leader in the same
  exchange: our own `create`, or a `sync`. A follower that is cut off, or behind, still answers
  reads.
- `until` is when the session ends if that exchange was its last: see `session`.

A request whose answer was lost is looked for by its prefix, after a `sync`. It cannot arrive later
than that: a server closes the old connection of a session when that session connects again, and
the leader refuses what still comes through another server (SessionMoved).

A contender that could not be deleted would stay for as long as the session lives, which beats on.
So what was not given back, without an answer or because the ensemble refused it, is given back
later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self, final

from kazoo.protocol.serialization import Delete, Exists, GetData, Sync

from redisson_py._loop import end_task
from redisson_py._stores.contract import (
    Bell,
    Busy,
    Granted,
    Kind,
    Renewal,
    Sighting,
    State,
    Wish,
)
from redisson_py._stores.last_failure import LastFailure
from redisson_py._stores.remembered import Remembered
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError

from .contenders import Contenders, holder_of
from .elections import MOST_BYTES, Elections
from .ensemble import Ensemble
from .names import holding
from .semaphore_mutex import SemaphoreMutexes
from .session import Session
from .url import Target, read_url

log = logging.getLogger("redisson_py")

#: Part of the session timeout after which what was refused is given back again.
_REFUSED_PAUSE: Final = 1 / 12


@final
class ZooKeeperStore:
    """Keeps holds in one session with an ensemble.

    Attributes:
        title: The server for people.
        where: Its addresses and the path of the URL, without credentials.
    """

    title: str = "ZooKeeper"
    ends_leases: bool = False
    leases_are_exact: bool = False

    def __init__(self, target: Target, session: float, lease: float | None = None) -> None:
        """Prepare a store; see `from_url`."""
        self._least: Final = lease or 0.0
        #: Those that gave back last, and the answer to those of them that ask again. They are
        #: granted nothing.
        self._left: Final[Remembered[tuple[str, str], bool | None]] = Remembered()
        #: What could not be given back, and whether a request of its owner had no answer.
        self._owed: Final[dict[tuple[str, str], bool]] = {}
        self._paying: asyncio.Task[None] | None = None
        self.where: str = target.hosts + target.root
        self.last_failure: LastFailure = LastFailure(f"{self.title} at {self.where}")
        self._ensemble: Final = Ensemble(
            target,
            session,
            lease or session,
            self.last_failure,
            ended=self._ended,
            again=self._again,
        )
        self._contenders: Final = Contenders(self._ensemble, target.root)
        self._semaphores: Final = SemaphoreMutexes(self._ensemble, self._contenders)
        self._elections: Final = Elections(self._ensemble, self._contenders)

    @classmethod
    def from_url(cls, url: str, session: float = 40.0, lease: float | None = None) -> Self:
        """Make a store for `zookeeper://h1:2181,h2:2181/chroot`.

        Args:
            url: See `url.read_url`.
            session: Seconds: the session timeout to ask for. See `session_timeout`.
            lease: Seconds: the client's lease time. A session with a shorter timeout will not do,
                and one ends when the event loop was blocked for as long. None: the same as
                `session`, and any timeout will do.

        Raises:
            ValueError: The URL is malformed. The error does not quote it.
        """
        return cls(read_url(url), session, lease)

    @property
    def session_timeout(self) -> float:
        """The seconds after which the ensemble frees the holds of a client that died.

        What was asked for, unless the server has limits that differ: `minSessionTimeout` and
        `maxSessionTimeout`, by default 2 and 20 times its `tickTime`.
        """
        return self._ensemble.session_timeout

    def __repr__(self) -> str:
        return f"<ZooKeeperStore {self.where}>"

    async def start(self, bell: Bell, deadline: float) -> None:
        """Begin a session. Nothing must be there: directories are made when they are needed."""
        self._contenders.bell = bell
        await self._ensemble.start(deadline)
        granted = self.session_timeout
        if granted < self._least:
            await self._ensemble.stop()
            raise BackendError(
                f"ZooKeeper at {self.where} grants sessions of at most {granted:g} s, but the"
                f" lease_time needs {self._least:g} s: shorten lease_time, or raise"
                " maxSessionTimeout on the servers"
            )

    async def stop(self) -> None:
        """End the session, and with it all that it still has."""
        self._contenders.bell = None
        self._ended()
        paying, self._paying = self._paying, None
        if paying is not None:
            paying.cancel()
            await asyncio.wait([paying])
        await self._ensemble.stop()

    def leave_behind(self) -> None:
        """Disconnect without waiting: the event loop was closed, or ends now."""
        self._contenders.bell = None
        self._ended()
        self._ensemble.leave_behind()
        paying, self._paying = self._paying, None
        if paying is not None:
            end_task(paying)

    async def ping(self, deadline: float) -> None:
        """Return when the leader has answered."""

        async def attempt(session: Session) -> None:
            (reply,) = await self._ensemble.exchange(session, deadline, Sync("/"))
            self._ensemble.check(reply, "/")

        await self._ensemble.call(attempt, deadline, changes=False)

    def keys(self, name: str, kind: Kind = "lock") -> tuple[str, ...]:
        """Return the directories of a lock: a semaphore mutex has two of its own."""
        if kind == "semaphore":
            return self._semaphores.directories(name)
        return (self._contenders.path(name),)

    async def ask(self, wish: Wish, deadline: float) -> Granted | Busy:
        """Make a contender, if the owner has none, and see whether it is the first."""
        key = wish.name, wish.owner
        if wish.proposal is not None:
            self._check_length(wish.proposal)

        async def attempt(session: Session) -> Granted | Busy:
            while True:
                if key in self._left:
                    text = f"{wish.owner} gave {wish.name!r} back and cannot ask again"
                    raise BackendError(text)
                asked = self._semaphores if wish.kind == "semaphore" else self._contenders
                if (answer := await asked.ask(session, wish, deadline)) is not None:
                    return answer

        try:
            return await self._ensemble.call(attempt, deadline, changes=True)
        except ConnectionLostError:
            raise
        except BackendError:
            if self._has(key) and key not in self._left:
                # Nothing may be left of what is refused, but that was refused too.
                self._leave(key, False)
                self._owe(key, unsure=False)
            raise

    async def give_back(
        self, name: str, owner: str, unsure: bool, deadline: float, kind: Kind = "lock"
    ) -> bool | None:
        """Delete the contender. One whose creation had no answer is looked for by its prefix."""
        key = name, owner
        unsure = unsure or self._owed.get(key, False)
        self._leave(key, self._left.get(key, False))
        if not self._has(key):
            return self._left[key]
        try:
            held = await self._delete(key, unsure, deadline)
        except BackendError:
            self._owe(key, unsure)
            raise
        self._owed.pop(key, None)
        return held

    async def _delete(self, key: tuple[str, str], unsure: bool, deadline: float) -> bool | None:
        """Delete what an owner has; see `Store.give_back`."""
        left = self._semaphores if self._semaphores.knows(*key) else self._contenders

        async def attempt(session: Session) -> bool | None:
            if not self._has(key):
                # While this waited for a session, another call of ours gave it back.
                return self._left.get(key, False)
            held = await left.delete(session, key, unsure, deadline)
            if key in self._owed:
                self._leave(key, held)
            return held

        return await self._ensemble.call(attempt, deadline, changes=True)

    def _leave(self, key: tuple[str, str], held: bool | None) -> None:
        """Note that an owner gave back, and the answer if it asks to give back again."""
        self._left[key] = held

    def _has(self, key: tuple[str, str]) -> bool:
        """Return whether an owner may have a contender, or a place in a semaphore mutex."""
        return key in self._contenders.own or self._semaphores.knows(*key)

    def _owe(self, key: tuple[str, str], unsure: bool) -> None:
        """Give back later what could not be given back."""
        self._owed[key] = unsure
        self._pay()

    def _pay(self) -> None:
        if self._owed and (self._paying is None or self._paying.done()):
            self._paying = asyncio.create_task(self._paid(), name="redisson_py ZooKeeper debts")

    async def _paid(self) -> None:
        """Give back what is owed, until nothing is, or the session has ended with it."""
        while self._owed:
            for key, unsure in list(self._owed.items()):
                try:
                    await self._delete(key, unsure, now() + self.session_timeout)
                    self._owed.pop(key, None)
                except BackendError:
                    continue
                except Exception:
                    # A defect, of the driver maybe: no reason to leave it there.
                    log.exception("giving back to ZooKeeper at %s failed", self.where)
            if self._owed:
                await asyncio.sleep(self.session_timeout * _REFUSED_PAUSE)

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """See whether the contenders are there, which renews the session; their lease is its."""
        asked = [
            (index, hold, path)
            for index, hold in enumerate(batch)
            if (path := self._node(hold.name, hold.owner)) is not None
        ]
        ends: list[float | None] = [None] * len(batch)
        if not asked:
            return ends

        async def attempt(session: Session) -> list[float | None]:
            began = now()
            _, *stats = await self._ensemble.exchange(
                session, deadline, Sync("/"), *(Exists(path, None) for _, _, path in asked)
            )
            until = self._ensemble.kept_until(session, began)
            for (index, hold, path), stat in zip(asked, stats, strict=True):
                self._ensemble.check(stat, path)
                there = stat is not None and stat.czxid == hold.token
                ends[index] = until if there else None
            return ends

        return await self._ensemble.call(attempt, deadline, changes=True)

    async def look(self, name: str, deadline: float, kind: Kind = "lock") -> State:
        """Return the contenders. How long the session of another one still has, nobody knows.

        The `remaining` of a holder is therefore the session timeout of this client.
        """
        contenders, path = self._contenders, self._contenders.path(name)

        async def attempt(session: Session) -> State:
            if kind == "semaphore":
                return await self._semaphores.look(session, name, deadline)
            nodes = await contenders.nodes(session, path, kind, deadline)
            replies = await self._ensemble.exchange(
                session, deadline, *(GetData(f"{path}/{node}", None) for node in nodes)
            )
            there = {
                node: holder_of(reply, session.timeout)
                for node, reply in zip(nodes, replies, strict=True)
                if contenders.is_there(reply, path)
            }
            if kind == "election":
                # Their data is what they say. Whose they are, is known of our own.
                for (_, owner), own in contenders.own.items():
                    if own.node in there:
                        there[own.node] = replace(there[own.node], owner=owner)
            alone, readers = holding(list(there))
            holders = readers if alone is None else [alone, *readers]
            return State(
                None if alone is None else there[alone],
                tuple(each.owner for node, each in there.items() if node not in holders),
                (path, *(f"{path}/{node}" for node in holders)),
                tuple(there[node] for node in readers),
            )

        return await self._ensemble.call(attempt, deadline, changes=False)

    async def force_release(self, name: str, deadline: float, kind: Kind = "lock") -> bool:
        """Delete the contenders that hold it; reads under a write hold go with that.

        Their watches wake the next ones.
        """
        contenders, path = self._contenders, self._contenders.path(name)

        async def attempt(session: Session) -> bool:
            if kind == "semaphore":
                return await self._semaphores.force_release(session, name, deadline)
            alone, readers = holding(await contenders.nodes(session, path, kind, deadline))
            holders = [] if alone is None else [alone, *readers]
            if kind == "read":
                holders = readers
            replies = await self._ensemble.exchange(
                session, deadline, *(Delete(f"{path}/{node}", -1) for node in holders)
            )
            there = [contenders.is_there(reply, path) for reply in replies]
            return any(there)

        return await self._ensemble.call(attempt, deadline, changes=True)

    # Elections: see `contract.ElectionStore`.

    async def leader(self, name: str, deadline: float) -> Sighting:
        """Return who leads, and what it says."""

        async def attempt(session: Session) -> Sighting:
            return await self._elections.leader(session, name, deadline)

        return await self._ensemble.call(attempt, deadline, changes=False)

    def observe(self, observer: tuple[str, str], seen: Sighting) -> None:
        """Ring for an observer once, when anything has changed since a sighting."""
        self._elections.observe(observer, seen)

    def observes(self, observer: tuple[str, str]) -> bool:
        """Return whether it will ring for an observer."""
        return self._elections.observes(observer)

    def unobserve(self, observer: tuple[str, str]) -> None:
        """Forget an observer."""
        self._elections.unobserve(observer)

    async def proclaim(
        self, name: str, owner: str, token: int, written: int, value: bytes, deadline: float
    ) -> int:
        """Have a leader say something else; return the transaction, 0 if it leads no more."""
        self._check_length(value)

        async def attempt(session: Session) -> int:
            return await self._elections.proclaim(session, name, owner, value, deadline)

        return await self._ensemble.call(attempt, deadline, changes=True)

    def _check_length(self, value: bytes) -> None:
        if len(value) > MOST_BYTES:
            raise BackendError(
                f"ZooKeeper at {self.where}: a value of {len(value)} bytes is too large; at most"
                f" {MOST_BYTES}"
            )

    def _ended(self) -> None:
        """Forget the contenders: they end with their session."""
        self._contenders.clear()
        self._semaphores.clear()
        self._owed.clear()

    def _node(self, name: str, owner: str) -> str | None:
        """Return the path of the node of an owner, if it has one."""
        contender = self._contenders.own.get((name, owner))
        if contender is None:
            return self._semaphores.node(name, owner)
        return f"{self._contenders.path(name)}/{contender.node}"

    def _again(self) -> None:
        """Hear that the session is connected once more, or that another one begins."""
        # An event loop that ends has cancelled every task; blocks still clean up.
        self._pay()
        self._elections.disarm()
        if self._contenders.bell is not None:
            self._contenders.bell.ring_all()
