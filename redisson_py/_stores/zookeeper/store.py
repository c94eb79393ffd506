"""Keeps locks in ZooKeeper, exactly as Curator's InterProcessMutex does.

A name is a directory (`names`). An owner that wants it makes a contender in it: an ephemeral node,
whose name begins with the owner's own prefix and ends with a number from the server. The contender
with the lowest number is the holder; a waiter watches the contender right before its own. The token
is the contender's czxid, which grows over the whole ensemble. Empty directories are containers: the
server deletes them.

Invariants:

- A contender is ours only in the session that made it. It is written down here before the request
  is sent, and forgotten when a deletion was answered, or when the session has ended.
- A grant or a renewal is read from the ensemble after something that went through its leader in
  the same exchange: our own `create`, or a `sync`. A follower that is cut off still answers reads.
- `until` is when the session ends if that exchange was its last: see `session`.

A request whose answer was lost is looked for by its prefix, after a `sync`. It cannot arrive later
than that: a server closes the old connection of a session when that session connects again, and
the leader refuses what still comes through another server (SessionMoved).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, final

from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Delete, Exists, GetChildren, GetData, Sync

from redisson_py._stores.contract import (
    Bell,
    Busy,
    Granted,
    HolderState,
    Kind,
    Renewal,
    State,
    Wish,
)
from redisson_py._time import now
from redisson_py.errors import BackendError

from .ensemble import Ensemble
from .names import directory_of, in_order, levels_of, prefix_of
from .session import CreateContainer, Session, create_contender
from .url import Target, read_url

#: How many owners that gave back are remembered.
_REMEMBERED: Final = 10_000


@final
@dataclass(slots=True)
class _Contender:
    """The node of an owner.

    Attributes:
        node: Its name; None while no answer has told it.
        token: Its czxid.
        held: Whether it was granted the hold.
        deleting: Whether a deletion was sent.
        watched: The node before it that is watched, and the number of the connection.
    """

    node: str | None = None
    token: int = 0
    held: bool = False
    deleting: bool = False
    watched: tuple[str, int] | None = None


@final
class ZooKeeperStore:
    """Keeps holds in one session with an ensemble.

    Attributes:
        title: The server for people.
        where: Its addresses and the path of the URL, without credentials.
    """

    title: str = "ZooKeeper"
    ends_leases: bool = False

    def __init__(self, target: Target, session: float, least: float = 0.0) -> None:
        """Prepare a store; see `from_url`."""
        self._least: Final = least
        self._root: Final = target.root
        self._contenders: Final[dict[tuple[str, str], _Contender]] = {}
        #: Those that gave back last; they are granted nothing.
        self._left: Final[dict[tuple[str, str], None]] = {}
        self._bell: Bell | None = None
        self._ensemble: Final = Ensemble(
            target, session, ended=self._contenders.clear, again=self._ring_all
        )
        self.where: str = self._ensemble.where

    @classmethod
    def from_url(cls, url: str, session: float = 40.0, least: float = 0.0) -> Self:
        """Make a store for `zookeeper://h1:2181,h2:2181/chroot`.

        Args:
            url: See `url.read_url`.
            session: Seconds: the session timeout to ask for. See `session_timeout`.
            least: Seconds: the shortest session timeout that will do.

        Raises:
            ValueError: The URL is malformed. The error does not quote it.
        """
        return cls(read_url(url), session, least)

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
        self._bell = bell
        await self._ensemble.start(deadline)
        granted = self.session_timeout
        if granted < self._least:
            await self._ensemble.stop()
            raise BackendError(
                f"ZooKeeper at {self.where} grants sessions of {granted:g} s at most, and the"
                f" lease_time needs {self._least:g} s: choose a shorter one, or raise"
                " maxSessionTimeout of the servers"
            )

    async def stop(self) -> None:
        """End the session, and with it all that it still has."""
        self._bell = None
        self._contenders.clear()
        await self._ensemble.stop()

    def leave_behind(self) -> None:
        """Disconnect without waiting: the event loop was closed, or ends now."""
        self._bell = None
        self._contenders.clear()
        self._ensemble.leave_behind()

    async def ping(self, deadline: float) -> None:
        """Return when the leader has answered."""

        async def attempt(session: Session) -> None:
            (reply,) = await self._ensemble.exchange(session, deadline, Sync("/"))
            self._ensemble.check(reply, "/")

        await self._ensemble.call(attempt, deadline, changes=False)

    async def ask(self, wish: Wish, deadline: float) -> Granted | Busy:
        """Make a contender, if the owner has none, and see whether it is the first."""

        async def attempt(session: Session) -> Granted | Busy:
            while True:
                if (answer := await self._ask(session, wish, deadline)) is not None:
                    return answer

        return await self._ensemble.call(attempt, deadline, changes=True)

    async def give_back(self, name: str, owner: str, unsure: bool, deadline: float) -> bool | None:
        """Delete the contender. One whose creation had no answer is looked for by its prefix."""
        self._left[name, owner] = None
        if len(self._left) > _REMEMBERED:
            del self._left[next(iter(self._left))]
        if (name, owner) not in self._contenders:
            return False

        async def attempt(session: Session) -> bool | None:
            return await self._delete(session, (name, owner), unsure, deadline)

        return await self._ensemble.call(attempt, deadline, changes=True)

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        """See whether the contenders are there, which renews the session; their lease is its."""
        asked = [
            (place, hold, f"{self._path(hold.name)}/{contender.node}")
            for place, hold in enumerate(batch)
            if (contender := self._contenders.get((hold.name, hold.owner))) is not None
        ]
        ends: list[float | None] = [None] * len(batch)
        if not asked:
            return ends

        async def attempt(session: Session) -> list[float | None]:
            began = now()
            _, *stats = await self._ensemble.exchange(
                session, deadline, Sync("/"), *(Exists(path, None) for _, _, path in asked)
            )
            until = session.kept_until(began)
            for (place, hold, path), stat in zip(asked, stats, strict=True):
                self._ensemble.check(stat, path)
                there = stat is not None and stat.czxid == hold.token
                ends[place] = until if there else None
            return ends

        return await self._ensemble.call(attempt, deadline, changes=True)

    async def look(self, name: str, deadline: float, kind: Kind = "lock") -> State:
        """Return the contenders. How long the session of another one still has, nobody knows.

        Its `remaining` is therefore the session timeout of this client.
        """
        path = self._path(name)

        async def attempt(session: Session) -> State:
            nodes = await self._nodes(session, path, deadline)
            replies = await self._ensemble.exchange(
                session, deadline, *(GetData(f"{path}/{node}", None) for node in nodes)
            )
            there = [
                (node, reply[0].decode(errors="replace"), reply[1].czxid)
                for node, reply in zip(nodes, replies, strict=True)
                if self._is_there(reply, path)
            ]
            if not there:
                return State(None, (), (path,))
            (node, owner, token), *others = there
            holder = HolderState(owner, session.timeout, token)
            waiters = tuple(other for _, other, _ in others)
            return State(holder, waiters, (path, f"{path}/{node}"))

        return await self._ensemble.call(attempt, deadline, changes=False)

    async def force_release(self, name: str, deadline: float, kind: Kind = "lock") -> bool:
        """Delete the first contender. The next one is told by its watch."""
        path = self._path(name)

        async def attempt(session: Session) -> bool:
            nodes = await self._nodes(session, path, deadline)
            if not nodes:
                return False
            delete = Delete(f"{path}/{nodes[0]}", -1)
            (reply,) = await self._ensemble.exchange(session, deadline, delete)
            return self._is_there(reply, path)

        return await self._ensemble.call(attempt, deadline, changes=True)

    async def _ask(self, session: Session, wish: Wish, deadline: float) -> Granted | Busy | None:
        """Answer a wish; None if something has changed meanwhile, and it must be asked again."""
        key, path = (wish.name, wish.owner), self._path(wish.name)
        contender = self._contenders.get(key)
        if key in self._left:
            raise BackendError(f"{wish.owner} has given {wish.name!r} back: it cannot ask again")
        if contender is None and not wish.waits:
            children = GetChildren(path, None)
            (listed,) = await self._ensemble.exchange(session, deadline, children)
            if in_order(self._children(listed, path)):
                return Busy(None)
        began = now()
        if contender is None:
            contender = self._contenders[key] = _Contender()
            create = create_contender(f"{path}/{prefix_of(wish.owner)}", wish.owner.encode())
            # The server answers in order: these are the children after the creation.
            made, listed = await self._ensemble.exchange(
                session, deadline, create, GetChildren(path, None)
            )
            if isinstance(made, Exception):
                del self._contenders[key]
                self._ensemble.check(made, path, NoNodeError)
                await self._make_directory(session, path, deadline)
                return None
            contender.node, contender.token = made[0].rpartition("/")[2], made[1].czxid
        else:
            _, listed = await self._ensemble.exchange(
                session, deadline, Sync(path), GetChildren(path, None)
            )
        try:
            nodes = in_order(self._children(listed, path))
        except BackendError:
            await self._delete(session, key, False, deadline)
            raise
        if contender.node is None:
            await self._find(session, wish, contender, nodes, deadline)
        if contender.node not in nodes:
            self._contenders.pop(key, None)
            return None
        place = nodes.index(contender.node)
        if place == 0:
            contender.held = True
            kept = session.kept_until(began)
            until = kept if wish.renewed else min(kept, began + wish.lease)
            return Granted(until, contender.token)
        if not wish.waits:
            await self._delete(session, key, False, deadline)
            return Busy(None)
        return await self._watch(session, wish.name, contender, nodes[place - 1], deadline)

    async def _find(
        self,
        session: Session,
        wish: Wish,
        contender: _Contender,
        nodes: list[str],
        deadline: float,
    ) -> None:
        """Look for the node of a creation that had no answer."""
        path, prefix = self._path(wish.name), prefix_of(wish.owner)
        for node in nodes:
            if node.startswith(prefix):
                exists = Exists(f"{path}/{node}", None)
                (stat,) = await self._ensemble.exchange(session, deadline, exists)
                if self._ensemble.check(stat, path) is not None:
                    contender.node, contender.token = node, stat.czxid
                    return

    async def _watch(
        self, session: Session, name: str, contender: _Contender, before: str, deadline: float
    ) -> Busy | None:
        """Have the bell rung when the contender before has gone; None if it has already."""
        watched = (before, session.connections)
        if contender.watched == watched:
            return Busy(None)

        def ring() -> None:
            contender.watched = None
            if self._bell is not None:
                self._bell.ring(name)

        path = self._path(name)
        # Not by `exists`: that would leave a watch on a node that never comes back.
        (reply,) = await self._ensemble.exchange(
            session, deadline, GetData(f"{path}/{before}", session.watcher(ring))
        )
        if not self._is_there(reply, path):
            return None
        contender.watched = watched
        return Busy(None)

    async def _delete(
        self, session: Session, key: tuple[str, str], unsure: bool, deadline: float
    ) -> bool | None:
        """Delete the contender of an owner; see `give_back`."""
        contender = self._contenders.get(key)
        if contender is None:
            return False
        path, prefix = self._path(key[0]), prefix_of(key[1])
        held = contender.held
        ours = [] if contender.node is None else [contender.node]
        if unsure or not ours:
            nodes = await self._nodes(session, path, deadline)
            ours = [node for node in nodes if node.startswith(prefix)]
            held = held or (bool(ours) and ours[0] == nodes[0])
        again, contender.deleting = contender.deleting, True
        replies = await self._ensemble.exchange(
            session, deadline, *(Delete(f"{path}/{node}", -1) for node in ours)
        )
        there = [self._is_there(reply, path) for reply in replies]
        self._contenders.pop(key, None)
        if held and again and not any(there):
            return None
        return held and any(there)

    async def _nodes(self, session: Session, path: str, deadline: float) -> list[str]:
        """Return the contenders as the leader has them, the holder first."""
        _, listed = await self._ensemble.exchange(
            session, deadline, Sync(path), GetChildren(path, None)
        )
        return in_order(self._children(listed, path))

    async def _make_directory(self, session: Session, path: str, deadline: float) -> None:
        levels = levels_of(path)
        stats = await self._ensemble.exchange(
            session, deadline, *(Exists(level, None) for level in levels)
        )
        missing = [level for level, stat in zip(levels, stats, strict=True) if stat is None]
        for reply in await self._ensemble.exchange(
            session, deadline, *map(CreateContainer, missing)
        ):
            # NoNode: one above was deleted meanwhile, as it was empty.
            self._ensemble.check(reply, path, NodeExistsError, NoNodeError)

    def _children(self, reply: Any, path: str) -> list[str]:
        children: list[str] = reply if self._is_there(reply, path) else []
        return children

    def _is_there(self, reply: Any, path: str) -> bool:
        return not isinstance(self._ensemble.check(reply, path, NoNodeError), NoNodeError)

    def _path(self, name: str) -> str:
        return self._root + directory_of(name)

    def _ring_all(self) -> None:
        if self._bell is not None:
            self._bell.ring_all()
