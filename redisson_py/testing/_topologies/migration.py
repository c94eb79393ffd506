"""One slot on its way from one master to another, which a test may halt anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from redisson_py.testing._server import EmbeddedServer, login_of

from .nodes import Nodes, TopologyError, blame

if TYPE_CHECKING:
    from .cluster import EmbeddedCluster
    from .views import ClusterMap

_BATCH: Final = 100
_MOVE_TIME_MS: Final = 5000


@final
class SlotMigration:
    """An open slot: the source redirects (ASK) requests for keys that it no longer has.

    Made by `EmbeddedCluster.begin_migration`. The test decides which keys move, and ends the move
    with `finish` or `stable`.

    Attributes:
        slot: The slot.
        source: The master that has it.
        target: The master that will get it.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        slot: int,
        source: EmbeddedServer,
        target: EmbeddedServer,
        nodes: Nodes,
        *,
        atomic: bool,
    ) -> None:
        """Say what is to move where; nothing happens yet."""
        if source is target:
            raise TopologyError(f"{target.address} already has slot {slot}")
        self.slot: Final = slot
        self.source: Final = source
        self.target: Final = target
        self._cluster: Final = cluster
        self._nodes: Final = nodes
        self._atomic: Final = atomic

    async def begin(self) -> None:
        """Open the slot at both ends; `begin_migration` has already called this."""
        if self._atomic:
            return
        source, target = self._ids()
        await self._set_slot(self.target, "IMPORTING", source)
        await self._set_slot(self.source, "MIGRATING", target)

    async def keys(self) -> list[str]:
        """Return the slot's keys that are still on the source."""
        return await self._keys_at(self.source)

    async def move_keys(self, *keys: str) -> None:
        """Move some keys to the target.

        Raises:
            TopologyError: One of them is not on the source.
        """
        here = await self.keys()
        if missing := [key for key in keys if key not in here]:
            raise TopologyError(f"{self.source.address} has no key {missing[0]} to move")
        await self._move(self.source, self.target, keys)

    async def finish(self) -> None:
        """Move the remaining keys and give the slot to the target; return once all nodes know."""
        if self._atomic:
            await self._move_atomically()
        else:
            await self._move_all(self.source, self.target)
            _, target = self._ids()
            others = [
                each
                for each in await self._cluster.masters()
                if each is not self.source and each is not self.target
            ]
            for node in (self.target, self.source, *others):
                await self._set_slot(node, "NODE", target)
        await self._cluster.wait_master(self.slot, other_than=self.source)

    async def stable(self) -> None:
        """Cancel the move: keys return to the source, which keeps the slot.

        Until all are back, the source serves the slot without them, and grants locks that are held.
        So nobody should use the moved keys meanwhile.
        """
        if self._atomic:
            return
        # In this order: a source that is open would refuse the keys that come back.
        await self._set_slot(self.source, "STABLE")
        await self._move_all(self.target, self.source)
        await self._set_slot(self.target, "STABLE")

    async def _move_all(self, source: EmbeddedServer, target: EmbeddedServer) -> None:
        while keys := await self._keys_at(source):
            await self._move(source, target, keys)

    async def _move(
        self, source: EmbeddedServer, target: EmbeddedServer, keys: list[str] | tuple[str, ...]
    ) -> None:
        login = login_of(target)
        where = ("MIGRATE", target.host, target.port, "", 0, _MOVE_TIME_MS)
        auth = ("AUTH2", *login) if login else ()
        names = (key.encode(errors="surrogateescape") for key in keys)
        await self._nodes.order(source, *where, *auth, "KEYS", *names)

    async def _keys_at(self, node: EmbeddedServer) -> list[str]:
        command = ("CLUSTER", "GETKEYSINSLOT", self.slot, _BATCH)
        return [str(key) for key in await self._nodes.order(node, *command)]

    async def _move_atomically(self) -> None:
        source, target = self._ids()
        await self._nodes.order(
            self.source,
            *("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", self.slot, self.slot, "NODE", target),
        )

        async def check() -> str:
            for job in await self._nodes.ask(self.source, "CLUSTER", "GETSLOTMIGRATIONS"):
                facts = dict(zip(job[::2], job[1::2], strict=True))
                if facts["slot_ranges"] != f"{self.slot}-{self.slot}" or (
                    facts["target_node"] != target or facts["source_node"] != source
                ):
                    continue
                if facts["state"] in {"failed", "cancelled", "canceled"}:
                    text = f"slot {self.slot} was not moved: {facts['message']}"
                    raise TopologyError(blame(self.source, text))
                return "" if facts["state"] == "success" else f"it is {facts['state']}"
            return "it has not begun"

        await self._nodes.until(f"slot {self.slot} did not move", check)

    async def _set_slot(self, node: EmbeddedServer, *state: str) -> None:
        await self._nodes.order(node, "CLUSTER", "SETSLOT", self.slot, *state)

    def _ids(self) -> tuple[str, str]:
        return self._cluster.node_id(self.source), self._cluster.node_id(self.target)


async def end_all(cluster: EmbeddedCluster, nodes: Nodes, known: ClusterMap) -> None:
    """End every move that has been left half-way, and leave the slots where they are."""
    for node in await cluster.masters():
        for slot, other in (await known.myself(node)).open:
            owner = await cluster.master_of(slot)
            peer = known.ids[other] if node is owner else node
            await SlotMigration(cluster, slot, owner, peer, nodes, atomic=False).stable()
