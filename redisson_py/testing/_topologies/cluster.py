"""A cluster of our own: masters with replicas, whose slots and roles a test may move about."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, Unpack, final

from redisson_py.testing._blocks import running, url_of
from redisson_py.testing._configuration import BUS_OFFSET
from redisson_py.testing._server import EmbeddedServer

from .migration import SlotMigration, end_all
from .nodes import TopologyError, blame
from .topology import Topology, TopologyOptions
from .views import SLOTS, ClusterMap, SlotOrKey, slot_of

How = Literal["graceful", "force", "takeover"]
_FAILOVER_PATIENCE: Final = 30.0
#: A replica that was refused votes does not ask again before; the server counts in node timeouts.
_ASK_AGAIN: Final = 2.0


class ClusterOptions(TopologyOptions, total=False):
    """The keyword arguments of `EmbeddedCluster`."""

    masters: int
    replicas: int
    node_timeout: float


@final
class EmbeddedCluster(Topology):
    """A cluster whose nodes a test may kill, freeze and fail over, and whose slots it may move.

    Use `embedded_cluster` if all you need is a URL, and `running_cluster` for a block. All
    processes end with `close`, and with this Python process (even if that is killed).

    Name a slot by its number or by a key in it. Replicas stay with their shard, and a master
    without slots stays an empty master (`cluster-allow-replica-migration no`), unless `config`
    changes that.

    Attributes:
        nodes: The servers; first the original masters, then the replicas.
    """

    def __init__(
        self,
        kind: str | None = None,
        *,
        masters: int = 3,
        replicas: int = 1,
        node_timeout: float = 1.5,
        config: Mapping[str, str] | None = None,
        password: str | None = None,
        users: Mapping[str, str] | None = None,
        tls: tuple[Path, Path, Path] | None = None,
        own_addresses: bool = False,
        start_timeout: float = 30.0,
    ) -> None:
        """Find the binary; start nothing.

        Args:
            kind: See `find_server`.
            masters: Number of masters, which share the slots.
            replicas: Number of replicas of each master.
            node_timeout: Seconds after which the others consider a silent node dead.
            config: More configuration for all nodes, with values as in a configuration file.
            password: The password clients need.
            users: More users: names, and rules as `ACL SETUSER` takes them. With a password or
                users, the nodes replicate as a user that may do only that.
            tls: Certificate, key and authority (PEM files); see `EmbeddedServer`. Clients need
                no certificate.
            own_addresses: Whether every server gets its own address, for `partition`. Works only
                in a private network: see `run_in_own_network`.
            start_timeout: Seconds that starting everything may take.
        """
        super().__init__(
            kind,
            config=config,
            password=password,
            users=users,
            tls=tls,
            own_addresses=own_addresses,
            start_timeout=start_timeout,
        )
        if masters < 1 or replicas < 0:
            raise ValueError(
                "a cluster needs at least one master, and cannot have a negative number of replicas"
            )
        self._masters: Final = masters
        self._replicas: Final = replicas
        self._node_timeout: Final = node_timeout
        self._map: Final = ClusterMap(self._nodes)
        self._founders: Final[list[EmbeddedServer]] = []

    @property
    def url(self) -> str:
        """The URL clients connect to: all nodes, password included."""
        return self._url("redis+cluster", self.nodes)

    def node_id(self, node: EmbeddedServer) -> str:
        """Return the id by which the cluster knows a node."""
        return self._map.id_of(node)

    async def master_of(self, place: SlotOrKey) -> EmbeddedServer:
        """Return the master of a slot, according to the nodes that answer.

        Raises:
            TopologyError: None of them claims the slot.
        """
        owner = await self._map.owner(slot_of(place))
        if owner is None:
            raise TopologyError(f"no running node is the master of slot {slot_of(place)}")
        return owner

    async def replicas_of(self, master: EmbeddedServer) -> list[EmbeddedServer]:
        """Return the replicas of a master, according to the nodes that answer."""
        wanted = self.node_id(master)
        for node in self._nodes.awake():
            if node is not master or len(self._nodes.awake()) == 1:
                view = await self._map.view(node)
                return [self._map.ids[seen.id] for seen in view.values() if seen.master == wanted]
        return []

    async def masters(self) -> list[EmbeddedServer]:
        """Return the masters that can answer, by their own account."""
        mine = [await self._map.myself(node) for node in self._nodes.awake()]
        return [self._map.ids[seen.id] for seen in mine if seen.is_master]

    async def failover(
        self, place: SlotOrKey, how: How = "graceful", to: EmbeddedServer | None = None
    ) -> EmbeddedServer:
        """Make a replica the master of a slot's shard, and return once the cluster is healthy.

        Args:
            place: A slot of the shard.
            how: `"graceful"` waits until the replica has everything; `"force"` does not ask the
                master; `"takeover"` asks nobody. Default: `"graceful"`
            to: Which replica. Default: the first that can answer

        Returns:
            The new master.

        Raises:
            TopologyError: No such replica, or it did not become the master.
        """
        slot = slot_of(place)
        old = await self._map.last_owner(slot)
        standing = [each for each in await self.replicas_of(old) if each in self._nodes.awake()]
        if to is None:
            if not standing:
                raise TopologyError(f"{old.address} has no running replica")
            to = standing[0]
        command = ["CLUSTER", "FAILOVER", *([] if how == "graceful" else [how.upper()])]
        deadline = asyncio.get_running_loop().time() + _FAILOVER_PATIENCE
        while True:
            await self._nodes.order(to, *command)
            try:
                await self.wait_master(slot, other_than=old, timeout=_ASK_AGAIN)
                break
            except TopologyError:
                # Masters vote once in two node timeouts: a second failover may be refused.
                if asyncio.get_running_loop().time() > deadline:
                    raise
        await self.wait_healthy()
        return to

    async def wait_master(
        self, place: SlotOrKey, other_than: EmbeddedServer | None = None, timeout: float = 30.0
    ) -> EmbeddedServer:
        """Return the master of a slot once all nodes that answer agree on it.

        Args:
            place: The slot.
            other_than: A node to ignore: the one that was killed or frozen.
            timeout: Seconds to wait.

        Raises:
            TopologyError: They did not agree in time.
        """
        slot = slot_of(place)
        found: list[EmbeddedServer] = []

        async def check() -> str:
            owner = await self._map.owner(slot)
            if owner is None or owner is other_than:
                return f"slot {slot} has no new master"
            found[:] = [owner]
            return await self._map.disagreement()

        await self._nodes.until(f"slot {slot} has no master that all agree on", check, timeout)
        return found[0]

    async def wait_healthy(self, timeout: float = 30.0) -> None:
        """Return once all running nodes agree, serve all slots and replicate.

        Raises:
            TopologyError: That took longer than `timeout` seconds.
        """

        async def check() -> str:
            for node in self._nodes.awake():
                if gap := await self._nodes.replication_gap(node):
                    return gap
            return await self._map.disagreement()

        await self._nodes.until("the cluster is not healthy", check, timeout)

    async def migrate(
        self, place: SlotOrKey, to: EmbeddedServer | None = None, *, atomic: bool = False
    ) -> EmbeddedServer:
        """Move a slot with its keys to another master, and return once all nodes know.

        Args:
            place: The slot.
            to: The master that gets it. Default: any other
            atomic: Whether the server moves it in one step (Valkey 9), not key by key.
                Default: False

        Returns:
            The slot's new master.

        Raises:
            TopologyError: It could not be moved.
        """
        move = await self.begin_migration(place, to, atomic=atomic)
        await move.finish()
        return move.target

    async def begin_migration(
        self, place: SlotOrKey, to: EmbeddedServer | None = None, *, atomic: bool = False
    ) -> SlotMigration:
        """Open a slot for a move and stop there: `SlotMigration` continues it.

        With `atomic`, nothing happens before `finish`.
        """
        slot = slot_of(place)
        source = await self.master_of(slot)
        target = to
        if target is None:
            target = next(each for each in await self.masters() if each is not source)
        move = SlotMigration(self, slot, source, target, self._nodes, atomic=atomic)
        await move.begin()
        return move

    async def add_node(self, replica_of: EmbeddedServer | None = None) -> EmbeddedServer:
        """Add a node, a master without slots or a replica; return once all nodes know it."""
        node = await self._cluster_node()
        self.nodes.append(node)
        await node.start()
        await self._learn_id(node)
        await self._meet([node])
        if replica_of is not None:
            await self._nodes.order(node, "CLUSTER", "REPLICATE", self.node_id(replica_of))
        await self.wait_healthy()
        return node

    async def remove_node(self, node: EmbeddedServer) -> None:
        """Remove a node from the cluster, and stop it.

        Raises:
            TopologyError: The node still has slots or replicas.
        """
        wanted = self.node_id(node)
        others = [each for each in self._nodes.awake() if each is not node]
        seen = (await self._map.view(others[0]))[wanted]
        if seen.slots or await self.replicas_of(node):
            raise TopologyError(f"{node.address} still has slots or replicas")
        self.nodes.remove(node)
        # Before the others forget it, or it would introduce itself again.
        if node.running:
            await node.kill()
        await asyncio.gather(
            *(self._nodes.order(each, "CLUSTER", "FORGET", wanted) for each in others)
        )
        del self._map.ids[wanted]
        await node.close()
        await self.wait_healthy()

    async def restore(self) -> None:
        """Undo what a test did to the network, nodes and slots.

        Afterwards all nodes run, and every slot is back on a master of its original shard; roles
        within a shard may have changed.
        """
        await self.heal()
        for node in self.nodes:
            if not node.running:
                await node.start()
            elif node.paused:
                await node.resume()
        await self.wait_healthy()
        await end_all(self, self._nodes, self._map)
        for founder, slots in zip(self._founders, self._homes(), strict=True):
            view = await self._map.view(founder)
            myself = next(seen for seen in view.values() if "myself" in seen.flags)
            home = view[myself.master] if myself.master else myself
            for slot in slots:
                if not home.has(slot):
                    await self.migrate(slot, self._map.ids[home.id])
        await self.wait_healthy()

    # Setting it up

    async def _set_up(self) -> None:
        nodes = self._masters * (1 + self._replicas)
        self.nodes.extend(await asyncio.gather(*(self._cluster_node() for _ in range(nodes))))
        await self._start_all(self.nodes)
        await asyncio.gather(*(self._learn_id(node) for node in self.nodes))
        await asyncio.gather(
            *(
                self._nodes.order(node, "CLUSTER", "SET-CONFIG-EPOCH", epoch)
                for epoch, node in enumerate(self.nodes, 1)
            ),
        )
        masters, replicas = self.nodes[: self._masters], self.nodes[self._masters :]
        self._founders.extend(masters)
        for node, slots in zip(masters, self._homes(), strict=True):
            await self._give_slots(node, slots)
        await self._meet(self.nodes[1:])
        for index, node in enumerate(replicas):
            master = self.node_id(masters[index % self._masters])
            await self._nodes.order(node, "CLUSTER", "REPLICATE", master)

    async def _cluster_node(self) -> EmbeddedServer:
        config = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(round(self._node_timeout * 1000)),
            "cluster-allow-replica-migration": "no",
            **({"tls-cluster": "yes"} if self._maker.tls else {}),
        }
        return await self._maker.data_server(config, bus=True)

    async def _learn_id(self, node: EmbeddedServer) -> None:
        self._map.ids[str(await self._nodes.order(node, "CLUSTER", "MYID"))] = node

    async def _give_slots(self, node: EmbeddedServer, slots: range) -> None:
        if self.version >= (7, 0, 0):
            await self._nodes.order(node, "CLUSTER", "ADDSLOTSRANGE", slots[0], slots[-1])
        else:
            await self._nodes.order(node, "CLUSTER", "ADDSLOTS", *slots)

    async def _meet(self, newcomers: list[EmbeddedServer]) -> None:
        """Introduce nodes to the first, and return when everybody knows everybody."""
        first = next(node for node in self._nodes.awake() if node not in newcomers)
        for node in newcomers:
            bus = node.port + BUS_OFFSET
            await self._nodes.order(first, "CLUSTER", "MEET", node.host, node.port, bus)

        async def check() -> str:
            for node in self._nodes.awake():
                if not (await self._map.view(node)).keys() >= self._map.ids.keys():
                    return blame(node, "it does not know all nodes")
            return ""

        await self._nodes.until("not all nodes know each other", check)

    def _homes(self) -> list[range]:
        """Return the slots that each master has in the beginning."""
        edges = [SLOTS * index // self._masters for index in range(self._masters + 1)]
        return [range(first, end) for first, end in pairwise(edges)]


def running_cluster(
    kind: str | None = None, **options: Unpack[ClusterOptions]
) -> AbstractAsyncContextManager[EmbeddedCluster]:
    """Run a cluster for a block, and yield its object.

    Args:
        kind: See `find_server`.
        options: See `EmbeddedCluster`.
    """
    return running(lambda: EmbeddedCluster(kind, **options))


def embedded_cluster(
    kind: str | None = None, **options: Unpack[ClusterOptions]
) -> AbstractAsyncContextManager[str]:
    """Run a cluster for a block, and yield its URL.

    Args:
        kind: See `find_server`.
        options: See `EmbeddedCluster`.
    """
    return url_of(running_cluster(kind, **options))
