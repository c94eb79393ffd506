"""The nodes of the owners of one client: how they are made, found again and deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, final

from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create2, Delete, Exists, GetChildren, Sync
from kazoo.security import OPEN_ACL_UNSAFE

from redisson_py._stores.contract import Kind

from .ensemble import Ensemble
from .names import blocker, in_order, levels_of, prefix_of
from .session import Session

_EPHEMERAL: Final = 1
_EPHEMERAL_SEQUENTIAL: Final = 3
_CONTAINER: Final = 4


@final
class CreateContainer:
    """A request for a node that the server deletes once its last child is gone."""

    type = 19

    def __init__(self, path: str) -> None:
        """Ask for an empty node."""
        self._request: Any = Create2(path, b"", OPEN_ACL_UNSAFE, _CONTAINER)
        self.deserialize: Callable[[Any, int], object] = self._request.deserialize

    def serialize(self) -> bytes:
        """Return it as it goes over the wire."""
        return bytes(self._request.serialize())


def create_contender(path: str, data: bytes, number: str | None = None) -> object:
    """Return a request for a node that ends with its session.

    The server adds a new number to its path, unless there is one already.
    """
    if number is not None:
        return Create2(path + number, data, OPEN_ACL_UNSAFE, _EPHEMERAL)
    return Create2(path, data, OPEN_ACL_UNSAFE, _EPHEMERAL_SEQUENTIAL)


@dataclass(slots=True)
class OwnNode:
    """The node of an owner.

    Attributes:
        kind: What it asks for.
        under: The node of the write hold under which it reads.
        node: Its name; None while no answer has named it.
        token: Its czxid.
        held: Whether it was granted the hold.
        deleting: Whether a deletion was sent.
    """

    kind: Kind
    under: str | None = None
    node: str | None = None
    token: int = 0
    held: bool = False
    deleting: bool = False


N = TypeVar("N", bound=OwnNode)
Key = tuple[str, str]
"""A name and an owner."""


class OwnNodes(Generic[N]):
    """The nodes of the owners of one client, each in the directory of a name.

    Attributes:
        own: Them, by name and owner.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.own: Final[dict[Key, N]] = {}
        self._ensemble: Final = ensemble

    def clear(self) -> None:
        """Forget all: they end with their session."""
        self.own.clear()

    async def enter(
        self, session: Session, key: Key, own: N, create: object, path: str, deadline: float
    ) -> Any:
        """Have a node made if there is a request for that; return the reply with all nodes there.

        None: there was no directory for it, and now there is.
        """
        if create is None:
            _, listed = await self._ensemble.exchange(
                session, deadline, Sync(path), GetChildren(path, None)
            )
            return listed
        self.own[key] = own
        # The server answers in order: these are the children after the creation.
        made, listed = await self._ensemble.exchange(
            session, deadline, create, GetChildren(path, None)
        )
        if isinstance(made, Exception):
            del self.own[key]
            self._ensemble.check(made, path, NoNodeError)
            await self.make_directory(session, path, deadline)
            return None
        own.node, own.token = made[0].rpartition("/")[2], made[1].czxid
        return listed

    async def find(
        self, session: Session, own: N, owner: str, path: str, nodes: list[str], deadline: float
    ) -> None:
        """Look for the node of an owner whose creation had no answer."""
        prefix = prefix_of(owner, own.kind)
        for node in nodes:
            if node.startswith(prefix):
                exists = Exists(f"{path}/{node}", None)
                _, stat = await self._ensemble.exchange(session, deadline, Sync(path), exists)
                if self._ensemble.check(stat, path) is not None:
                    own.node, own.token = node, stat.czxid
                    return

    async def remove(
        self, session: Session, key: Key, path: str, unsure: bool, deadline: float
    ) -> bool | None:
        """Delete the node of an owner; see `Store.give_back`."""
        own = self.own.get(key)
        if own is None:
            return False
        prefix, held = prefix_of(key[1], own.kind), own.held
        ours = [] if own.node is None else [own.node]
        if unsure or not ours:
            nodes = await self.nodes(session, path, own.kind, deadline)
            ours = [node for node in nodes if node.startswith(prefix)]
            free = bool(ours) and blocker(nodes, ours[0], own.kind, own.under) is None
            held = held or free
        again, own.deleting = own.deleting, True
        replies = await self._ensemble.exchange(
            session, deadline, *(Delete(f"{path}/{node}", -1) for node in ours)
        )
        there = [self.is_there(reply, path) for reply in replies]
        self.own.pop(key, None)
        if held and again and not any(there):
            return None
        return held and any(there)

    async def nodes(self, session: Session, path: str, kind: Kind, deadline: float) -> list[str]:
        """Return the contenders as the leader has them, in their order."""
        _, listed = await self._ensemble.exchange(
            session, deadline, Sync(path), GetChildren(path, None)
        )
        return in_order(self.children(listed, path), kind)

    async def make_directory(self, session: Session, path: str, deadline: float) -> None:
        """Make a node, and those above it, if they are missing."""
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

    def children(self, reply: Any, path: str) -> list[str]:
        """Return the names that a reply lists; none if there is no such node."""
        children: list[str] = reply if self.is_there(reply, path) else []
        return children

    def is_there(self, reply: Any, path: str) -> bool:
        """Return whether a reply says that its node is there."""
        return not isinstance(self._ensemble.check(reply, path, NoNodeError), NoNodeError)
