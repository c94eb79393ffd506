"""Elections as Curator's LeaderSelector keeps them: contenders of a lock, with what they say.

The contenders are those of a lock, in the same directory: Curator's LeaderSelector is an
InterProcessMutex that writes the id of the participant into its node.

An observer is rung for by watches on the directory and on the node of the leader. They are set by
the look that it makes once it is known, on the connection of that look.

Invariant: an observer is armed only if no watch of its election has fired since its look began, on
the same connection. What fires later rings for it, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from kazoo.protocol.serialization import Exists, GetChildren, GetData, SetData, Sync
from kazoo.protocol.states import WatchedEvent

from redisson_py._stores.contract import Bell, Sighting

from .contenders import Contenders
from .ensemble import Ensemble
from .names import in_order
from .session import Session

#: A server drops the connection of a request that is longer than 1 MiB with what is around it.
MOST_BYTES: Final = 1_000_000


@final
@dataclass(slots=True)
class _Observed:
    """An election that this client observes.

    Attributes:
        observers: Those that do, and whether a change is to ring for them.
        fired: How often a watch has fired.
        connection: Of which session, and the number of its connection, the watches are.
        watcher: What kazoo calls. It is one object: kazoo keeps each one that it is given.
    """

    observers: dict[str, bool] = field(default_factory=dict)
    fired: int = 0
    connection: tuple[int, int] = (0, 0)
    watcher: Callable[[WatchedEvent], None] | None = None

    @property
    def mark(self) -> bytes:
        """Says which watches were set when a look began."""
        return repr((self.connection, self.fired)).encode()


@final
class Elections:
    """The elections of one client."""

    def __init__(self, ensemble: Ensemble, contenders: Contenders) -> None:
        self._ensemble: Final = ensemble
        self._contenders: Final = contenders
        self._observed: Final[dict[str, _Observed]] = {}

    async def leader(self, session: Session, name: str, deadline: float) -> Sighting:
        """Return who leads, and what it says; set watches if anybody observes it."""
        path, observed = self._contenders.path(name), self._observed.get(name)
        watcher = None if observed is None else self._watcher(session, name, observed)
        mark = b"" if observed is None else observed.mark
        while True:
            _, there, listed = await self._ensemble.exchange(
                session, deadline, Sync(path), Exists(path, watcher), GetChildren(path, watcher)
            )
            self._ensemble.check(there, path)
            nodes = in_order(self._contenders.children(listed, path), "election")
            if not nodes:
                return Sighting(None, 0, mark)
            look = GetData(f"{path}/{nodes[0]}", watcher)
            (reply,) = await self._ensemble.exchange(session, deadline, look)
            if self._contenders.is_there(reply, path):
                said, stat = reply
                return Sighting(said or b"", stat.czxid, mark, stat.mzxid)

    def _watcher(
        self, session: Session, name: str, observed: _Observed
    ) -> Callable[[WatchedEvent], None]:
        connection = (id(session), session.connections)
        if observed.watcher is None or observed.connection != connection:
            observed.connection = connection

            def fire() -> None:
                if observed.connection == connection:
                    self._ring(name, observed)

            observed.watcher = session.watcher(fire)
        return observed.watcher

    def _ring(self, name: str, observed: _Observed) -> None:
        observed.fired += 1
        bell: Bell | None = self._contenders.bell
        for owner in [each for each, armed in observed.observers.items() if armed]:
            observed.observers[owner] = False
            if bell is not None:
                bell.ring(name, owner)

    def observe(self, observer: tuple[str, str], seen: Sighting) -> None:
        """Arm an observer, if watches were set before it looked, and none has fired since.

        If one has, it rang for nobody who is armed now: it rings again.
        """
        name, owner = observer
        observed = self._observed.setdefault(name, _Observed())
        observed.observers[owner] = seen.key == observed.mark
        bell: Bell | None = self._contenders.bell
        if seen.key and seen.key != observed.mark and bell is not None:
            bell.ring(name, owner)

    def observes(self, observer: tuple[str, str]) -> bool:
        """Return whether a change will ring for an observer."""
        name, owner = observer
        observed = self._observed.get(name)
        return observed is not None and observed.observers.get(owner, False)

    def unobserve(self, observer: tuple[str, str]) -> None:
        """Forget an observer."""
        name, owner = observer
        if (observed := self._observed.get(name)) is not None:
            observed.observers.pop(owner, None)
            if not observed.observers:
                del self._observed[name]

    def disarm(self) -> None:
        """Hear that watches have ended with their connection: all are rung for now."""
        for observed in self._observed.values():
            observed.fired += 1
            observed.observers = dict.fromkeys(observed.observers, False)

    async def proclaim(
        self, session: Session, name: str, owner: str, value: bytes, deadline: float
    ) -> int:
        """Write what a leader says into its node; return the transaction, 0 if it leads no more.

        An earlier request of this session cannot come later: see `store`.
        """
        contender = self._contenders.own.get((name, owner))
        if contender is None or contender.node is None:
            return 0
        path = f"{self._contenders.path(name)}/{contender.node}"
        (stat,) = await self._ensemble.exchange(session, deadline, SetData(path, value, -1))
        if not self._contenders.is_there(stat, path):
            return 0
        written: int = stat.mzxid
        return written
