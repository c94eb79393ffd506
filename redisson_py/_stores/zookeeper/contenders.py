"""The contenders of a name: which of them has a lock, or a side of a read-write lock.

The nodes, their order and the node that each waits for are those of Curator's InterProcessMutex and
InterProcessReadWriteLock; `names` has the rules. A lock and a read-write lock of one name have one
directory, and do not see each other.

A task that writes reads under its write hold: the contender of that read is a node with the number
of the write's, as Curator makes it, and so comes before every writer that waits already. It counts
only if the write's contender was there after it was made. Then the write may go, and the read
stays: no writer comes in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, final

from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import WatchedEvent

from redisson_py._stores.contract import Bell, Busy, Granted, HolderState, Wish
from redisson_py._time import now
from redisson_py.errors import BackendError

from .ensemble import Ensemble
from .names import blocker, directory_of, has_order, in_order, number_of, prefix_of
from .nodes import OwnNode, OwnNodes, create_contender
from .session import Session


@final
@dataclass(slots=True)
class Contender(OwnNode):
    """The node of an owner in the directory of a name.

    Attributes:
        before: The path of the node that it waits for.
    """

    before: str = ""


@final
@dataclass(slots=True)
class _Watch:
    """A watch of a node for which contenders of this client wait.

    There is one for each node, however many wait for it, or have given up: it stays until the node
    has changed, which may take weeks.

    Attributes:
        watcher: What kazoo calls. It is one object: kazoo keeps each one that it is given.
        is_set: Whether the server has it.
        waiters: The owners that wait, and the names for which the bell rings for them.
    """

    watcher: Callable[[WatchedEvent], None]
    is_set: bool = False
    waiters: dict[str, str] = field(default_factory=dict)


@final
class Contenders(OwnNodes[Contender]):
    """The contenders that one client has.

    Attributes:
        bell: Rung when a contender has gone for which another waits.
    """

    def __init__(self, ensemble: Ensemble, root: str) -> None:
        """Prepare; `root` comes before every path."""
        super().__init__(ensemble)
        self.bell: Bell | None = None
        self._root: Final = root
        #: By path, on the connection of that number.
        self._watches: Final[dict[str, _Watch]] = {}
        self._watches_on: int = 0

    def clear(self) -> None:
        """Forget all: they end with their session."""
        super().clear()
        self._watches.clear()

    async def ask(
        self, session: Session, wish: Wish, deadline: float, rings: str | None = None
    ) -> Granted | Busy | None:
        """Answer a wish; None if something has changed meanwhile, and it must be asked again.

        Args:
            session: Where to ask.
            wish: What is asked for.
            deadline: When to give up.
            rings: The name for which the bell rings, if that is not the name of the wish.
        """
        key, path, kind = (wish.name, wish.owner), self.path(wish.name), wish.kind
        contender, under = self.own.get(key), None
        if contender is None:
            under = self._write_node(wish)
            if not wish.waits and under is None:
                nodes = await self.nodes(session, path, kind, deadline)
                if blocker([*nodes, ""], "", kind) is not None:
                    return Busy(None)
        began, create = now(), None
        if contender is None:
            contender = Contender(kind, under)
            number = None if under is None else number_of(under)
            data = wish.owner.encode() if wish.proposal is None else wish.proposal
            create = create_contender(f"{path}/{prefix_of(wish.owner, kind)}", data, number)
        listed = await self.enter(session, key, contender, create, path, deadline)
        if listed is None:
            return None
        try:
            nodes = in_order(self.children(listed, path), kind)
        except BackendError:
            await self.delete(session, key, False, deadline)
            raise
        if contender.node is None:
            await self.find(session, contender, wish.owner, path, nodes, deadline)
        if contender.node is not None and not has_order(contender.node, kind):
            await self.delete(session, key, False, deadline)
            raise self._ensemble.refusal(
                path,
                "its 2,147,483,647 contender numbers are used up; delete that node when nobody uses"
                " it",
            )
        if contender.node not in nodes:
            self.own.pop(key, None)
            return None
        if contender.under is not None and not contender.held and contender.under not in nodes:
            # Perhaps another writer came before this read was made.
            self._write_is_gone(wish)
            await self.delete(session, key, False, deadline)
            return None
        before = blocker(nodes, contender.node, kind, contender.under)
        if before is None:
            contender.held = True
            kept = self._ensemble.kept_until(session, began)
            until = kept if wish.renewed else min(kept, began + wish.lease)
            return Granted(until, contender.token)
        if not wish.waits:
            await self.delete(session, key, False, deadline)
            return Busy(None)
        self._stop_waiting(contender, wish.owner)
        contender.before = f"{path}/{before}"
        watch = self._watch_of(session, contender.before)
        watch.waiters[wish.owner] = rings or wish.name
        if watch.is_set:
            return Busy(None)
        # Not by `exists`: that would leave a watch on a node that never comes back.
        look = GetData(contender.before, watch.watcher)
        (reply,) = await self._ensemble.exchange(session, deadline, look)
        watch.is_set = self.is_there(reply, path)
        if watch.is_set:
            return Busy(None)
        self._watches.pop(contender.before, None)
        return None

    def _write_node(self, wish: Wish) -> str | None:
        """Return the node of the write hold under which a task asks to read."""
        write = None if wish.within is None else self.own.get((wish.name, wish.within))
        return None if write is None or not write.held else write.node

    def _write_is_gone(self, wish: Wish) -> None:
        """Note that the node is gone of the write hold under which a task asks to read."""
        write = None if wish.within is None else self.own.get((wish.name, wish.within))
        if write is not None:
            write.held = False

    def _watch_of(self, session: Session, path: str) -> _Watch:
        """Return the watch of a node on the present connection, which may not be set yet."""
        if self._watches_on != session.connections:
            # They have ended with their connection.
            self._watches.clear()
            self._watches_on = session.connections

        def ring() -> None:
            gone = self._watches.pop(path, None)
            if self.bell is not None and gone is not None:
                for owner, name in gone.waiters.items():
                    self.bell.ring(name, owner)

        if path not in self._watches:
            self._watches[path] = _Watch(session.watcher(ring))
        return self._watches[path]

    def _stop_waiting(self, contender: Contender, owner: str) -> None:
        """Have the bell rung no more for an owner."""
        if (watch := self._watches.get(contender.before)) is not None:
            watch.waiters.pop(owner, None)

    async def delete(
        self, session: Session, key: tuple[str, str], unsure: bool, deadline: float
    ) -> bool | None:
        """Delete the contender of an owner; see `Store.give_back`."""
        contender = self.own.get(key)
        held = await self.remove(session, key, self.path(key[0]), unsure, deadline)
        if contender is not None:
            self._stop_waiting(contender, key[1])
        return held

    def path(self, name: str) -> str:
        """Return the directory of a name."""
        return self._root + directory_of(name)


def holder_of(reply: Any, remaining: float) -> HolderState:
    """Return what the data of a node say; those of another client may be null."""
    data, stat = reply
    return HolderState((data or b"").decode(errors="replace"), remaining, stat.czxid)
