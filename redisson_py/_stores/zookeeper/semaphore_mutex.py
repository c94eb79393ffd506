"""Semaphore mutexes, exactly as Curator's InterProcessSemaphoreMutex has them.

A name has two directories. In `leases` is the node of the holder. In `locks` are contenders for
the right to make such a node: a lock as any other (`contenders`), here called the gate. The one
that has the gate makes its node in `leases`, waits until that is the only one there, and leaves the
gate. So at most one client waits in `leases`; the others wait at the gate, in their order.

Invariants:

- A node in `leases` that is not granted is there only while its owner has the gate: a client that
  lost the gate deletes it. Otherwise two could wait in `leases`, each for the other.
- A grant is answered after the owner has left the gate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, final

from kazoo.protocol.serialization import Delete, Exists, GetChildren, GetData, Sync

from redisson_py._stores.contract import Busy, Granted, State, Wish
from redisson_py._time import now
from redisson_py.errors import BackendError

from .contenders import Contenders, holder_of
from .ensemble import Ensemble
from .names import directory_of, in_order, prefix_of
from .nodes import OwnNode, OwnNodes, create_contender
from .session import Session


@final
@dataclass(slots=True)
class _Lease(OwnNode):
    """The node of an owner in `leases`.

    Attributes:
        watched: The number of the connection on which the directory is watched.
    """

    watched: int | None = None


@final
class SemaphoreMutexes(OwnNodes[_Lease]):
    """The semaphore mutexes that one client has, or waits for."""

    def __init__(self, ensemble: Ensemble, contenders: Contenders) -> None:
        """Prepare; `contenders` has those at the gates."""
        super().__init__(ensemble)
        self._contenders: Final = contenders

    def directories(self, name: str) -> tuple[str, str]:
        """Return the two directories of a name."""
        return self._leases(name), self._contenders.path(_gate(name))

    def node(self, name: str, owner: str) -> str | None:
        """Return the path of the node of an owner, if it has one."""
        lease_node = self.own.get((name, owner))
        return None if lease_node is None else f"{self._leases(name)}/{lease_node.node}"

    def knows(self, name: str, owner: str) -> bool:
        """Return whether an owner may have anything here."""
        return (name, owner) in self.own or (_gate(name), owner) in self._contenders.own

    async def ask(self, session: Session, wish: Wish, deadline: float) -> Granted | Busy | None:
        """Answer a wish; None if something has changed meanwhile, and it must be asked again."""
        key, path = (wish.name, wish.owner), self._leases(wish.name)
        lease_node = self.own.get(key)
        if lease_node is not None and lease_node.held:
            return await self._granted_already(session, wish, lease_node, deadline)
        if not wish.waits and not self.knows(*key):
            _, listed = await self._ensemble.exchange(
                session, deadline, Sync(path), GetChildren(path, None)
            )
            if self.children(listed, path):
                return Busy(None)
        gate = replace(wish, name=_gate(wish.name), kind="lock")
        answer = await self._contenders.ask(session, gate, deadline, wish.name)
        if not isinstance(answer, Granted):
            if lease_node is not None:
                await self.remove(session, key, path, False, deadline)
            return answer
        try:
            return await self._take(session, wish, lease_node, deadline)
        except BackendError:
            await self.delete(session, key, False, deadline)
            raise

    async def _take(
        self, session: Session, wish: Wish, lease_node: _Lease | None, deadline: float
    ) -> Granted | Busy | None:
        """Take the lease for an owner that has the gate; see `ask`."""
        key, path = (wish.name, wish.owner), self._leases(wish.name)
        began, create = now(), None
        if lease_node is None:
            lease_node, prefix = _Lease("semaphore"), prefix_of(wish.owner, "semaphore")
            create = create_contender(f"{path}/{prefix}", wish.owner.encode())
        listed = await self.enter(session, key, lease_node, create, path, deadline)
        if listed is None:
            return None
        nodes = self.children(listed, path)
        if lease_node.node is None:
            await self.find(session, lease_node, wish.owner, path, nodes, deadline)
        if lease_node.node not in nodes:
            self.own.pop(key, None)
            return None
        if len(nodes) == 1:
            lease_node.held = True
            until = self._until(session, wish, began)
            await self._leave_gate(session, wish, deadline)
            return Granted(until, lease_node.token)
        if not wish.waits:
            await self.delete(session, key, False, deadline)
            return Busy(None)
        return await self._watch(session, key, lease_node, deadline)

    async def _granted_already(
        self, session: Session, wish: Wish, lease_node: _Lease, deadline: float
    ) -> Granted | None:
        """Answer the wish of an owner that has the hold; None if that is gone."""
        path, began = f"{self._leases(wish.name)}/{lease_node.node}", now()
        _, stat = await self._ensemble.exchange(session, deadline, Sync(path), Exists(path, None))
        there = self._ensemble.check(stat, path) is not None
        until = self._until(session, wish, began)
        await self._leave_gate(session, wish, deadline)
        if not there:
            self.own.pop((wish.name, wish.owner), None)
            return None
        return Granted(until, lease_node.token)

    async def _leave_gate(self, session: Session, wish: Wish, deadline: float) -> None:
        await self._contenders.delete(session, (_gate(wish.name), wish.owner), False, deadline)

    async def _watch(
        self, session: Session, key: tuple[str, str], lease_node: _Lease, deadline: float
    ) -> Busy | None:
        """Have the bell rung when `leases` changes; None if it is free already."""
        if lease_node.watched == session.connections:
            return Busy(None)

        def ring() -> None:
            lease_node.watched = None
            if self._contenders.bell is not None:
                self._contenders.bell.ring(*key)

        path = self._leases(key[0])
        # It may ring before the reply is looked at.
        lease_node.watched = session.connections
        try:
            (listed,) = await self._ensemble.exchange(
                session, deadline, GetChildren(path, session.watcher(ring))
            )
        except BaseException:
            lease_node.watched = None
            raise
        return Busy(None) if len(self.children(listed, path)) > 1 else None

    async def delete(
        self, session: Session, key: tuple[str, str], unsure: bool, deadline: float
    ) -> bool | None:
        """Delete all that an owner has; see `Store.give_back`."""
        held = await self.remove(session, key, self._leases(key[0]), unsure, deadline)
        await self._contenders.delete(session, (_gate(key[0]), key[1]), unsure, deadline)
        return held

    async def look(self, session: Session, name: str, deadline: float) -> State:
        """Return the holder, and those that wait at the gate."""
        leases, gate = self._leases(name), self._contenders.path(_gate(name))
        _, *listed = await self._ensemble.exchange(
            session, deadline, Sync(leases), GetChildren(leases, None), GetChildren(gate, None)
        )
        holders = in_order(self.children(listed[0], leases), "semaphore")[:1]
        waiting = in_order(self.children(listed[1], gate))
        paths = [f"{leases}/{node}" for node in holders] + [f"{gate}/{node}" for node in waiting]
        replies = await self._ensemble.exchange(
            session, deadline, *(GetData(path, None) for path in paths)
        )
        found = {
            path: holder_of(reply, session.timeout)
            for path, reply in zip(paths, replies, strict=True)
            if self.is_there(reply, path)
        }
        base = self._contenders.path(name)
        holder = found.pop(paths[0], None) if holders else None
        keys = (base,) if holder is None else (base, paths[0])
        # A holder may not have left the gate yet.
        own = None if holder is None or ":" not in holder.owner else holder.owner
        waiters = tuple(each.owner for each in found.values() if each.owner != own)
        return State(holder, waiters, keys)

    async def force_release(self, session: Session, name: str, deadline: float) -> bool:
        """Delete the node of the holder. Its watch wakes the next one."""
        path = self._leases(name)
        nodes = await self.nodes(session, path, "semaphore", deadline)
        replies = await self._ensemble.exchange(
            session, deadline, *(Delete(f"{path}/{node}", -1) for node in nodes[:1])
        )
        return any(self.is_there(reply, path) for reply in replies)

    def _leases(self, name: str) -> str:
        return self._contenders.path(name) + "/leases"

    def _until(self, session: Session, wish: Wish, began: float) -> float:
        kept = self._ensemble.kept_until(session, began)
        return kept if wish.renewed else min(kept, began + wish.lease)


def _gate(name: str) -> str:
    """Return the name of the lock that guards the taking of a semaphore mutex."""
    return directory_of(name) + "/locks"
