"""A master with replicas of our own, whose roles a test may change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Unpack, final

from redisson_py.testing._blocks import running, url_of
from redisson_py.testing._server import EmbeddedServer

from .nodes import TopologyError, blame
from .topology import Topology, TopologyOptions


class ReplicasOptions(TopologyOptions, total=False):
    """The keyword arguments of `EmbeddedReplicas`."""

    replicas: int


class Replicated(Topology):
    """Data servers of which one is the master and the others replicate it."""

    async def _start_data(self, replicas: int) -> None:
        """Start a master, then its replicas; they may still be loading its data."""
        self.nodes.append(await self._maker.data_server({}))
        await self._start_all(self.nodes)
        host, port = self.nodes[0].host, self.nodes[0].port
        config = {"replicaof": f"{host} {port}"}
        self.nodes.extend(
            await asyncio.gather(*(self._maker.data_server(config) for _ in range(replicas)))
        )
        await self._start_all(self.nodes[1:])

    async def masters(self) -> list[EmbeddedServer]:
        """Return the servers that answer and say that they are the master."""
        awake = self._nodes.awake()
        found = await asyncio.gather(*(self._nodes.info(node, "replication") for node in awake))
        return [node for node, info in zip(awake, found, strict=True) if info["role"] == "master"]

    async def _disunion(self, master: EmbeddedServer) -> str:
        """Return which server that answers does not replicate this master."""
        awake = self._nodes.awake()
        for node in awake:
            info = await self._nodes.info(node, "replication")
            if node is master:
                if info["role"] != "master":
                    return blame(node, "it is not the master yet")
                if int(info["connected_slaves"]) != len(awake) - 1:
                    return blame(node, "it does not have all replicas")
            elif info["role"] == "master" or int(info["master_port"]) != master.port:
                return blame(node, f"it is not a replica of {master.address}")
            if gap := await self._nodes.replication_gap(node):
                return gap
        return ""

    def _at(self, port: int) -> EmbeddedServer:
        return next(node for node in self.nodes if node.port == port)


@final
class EmbeddedReplicas(Replicated):
    """A master with replicas that a test may freeze, kill and promote.

    Use `embedded_replicas` if all you need is a URL, and `running_replicas` for a block. All
    processes end with `close`, and with this Python process (even if that is killed). Only the test
    promotes a replica.

    Attributes:
        nodes: The servers; first the original master.
    """

    def __init__(
        self,
        kind: str | None = None,
        *,
        replicas: int = 1,
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
            replicas: Number of replicas.
            config: More configuration for all servers, with values as in a configuration file.
            password: The password clients need.
            users: More users: names, and rules as `ACL SETUSER` takes them. With a password or
                users, the servers replicate as a user that may do only that.
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
        self._count: Final = replicas

    @property
    def url(self) -> str:
        """The URL clients connect to: all servers, password included."""
        return self._url("redis", self.nodes)

    async def master(self) -> EmbeddedServer:
        """Return the server that says it is the master.

        Raises:
            TopologyError: No running server does, or several do.
        """
        masters = await self.masters()
        if len(masters) != 1:
            found = ", ".join(node.address for node in masters) or "none"
            raise TopologyError(f"expected one master, found: {found}")
        return masters[0]

    async def replicas(self) -> list[EmbeddedServer]:
        """Return the running servers that are not masters."""
        masters = await self.masters()
        return [node for node in self._nodes.awake() if node not in masters]

    async def promote(self, replica: EmbeddedServer) -> None:
        """Make a replica the master, whatever the state of the old one.

        Writes that the replica has not received are lost. The other running servers become its
        replicas.
        """
        await self._nodes.order(replica, "REPLICAOF", "NO", "ONE")
        await self._follow(replica)

    async def failover(self, to: EmbeddedServer | None = None) -> EmbeddedServer:
        """Hand over from the master to a replica (FAILOVER TO), without losing a write.

        Args:
            to: Which replica. Default: any

        Returns:
            The new master.
        """
        old = await self.master()
        new = to or (await self.replicas())[0]
        await self._nodes.order(old, "FAILOVER", "TO", new.host, new.port)

        async def check() -> str:
            info = await self._nodes.info(old, "replication")
            if info["role"] != "slave":
                return blame(old, "it is still the master")
            # Until its new master has accepted it, it takes no other order.
            state = info["master_failover_state"]
            return "" if state == "no-failover" else blame(old, state)

        await self._nodes.until(f"{old.address} did not hand over to {new.address}", check)
        await self._follow(new)
        return new

    async def wait_healthy(self, timeout: float = 30.0) -> None:
        """Return once one running server is the master and all others replicate it.

        Raises:
            TopologyError: That took longer than `timeout` seconds.
        """

        async def check() -> str:
            masters = await self.masters()
            if len(masters) != 1:
                return f"{len(masters)} servers are masters"
            return await self._disunion(masters[0])

        await self._nodes.until("the replicas are not healthy", check, timeout)

    async def _set_up(self) -> None:
        await self._start_data(self._count)

    async def _follow(self, master: EmbeddedServer) -> None:
        """Have all others replicate this master, also when they are started again."""
        for node in self._nodes.awake():
            if node is not master:
                await self._nodes.order(node, "REPLICAOF", master.host, master.port)
            await self._nodes.order(node, "CONFIG", "REWRITE")
        await self.wait_healthy()


def running_replicas(
    kind: str | None = None, **options: Unpack[ReplicasOptions]
) -> AbstractAsyncContextManager[EmbeddedReplicas]:
    """Run a master with replicas for a block, and yield their object.

    Args:
        kind: See `find_server`.
        options: See `EmbeddedReplicas`.
    """
    return running(lambda: EmbeddedReplicas(kind, **options))


def embedded_replicas(
    kind: str | None = None, **options: Unpack[ReplicasOptions]
) -> AbstractAsyncContextManager[str]:
    """Run a master with replicas for a block, and yield their URL.

    Args:
        kind: See `find_server`.
        options: See `EmbeddedReplicas`.
    """
    return url_of(running_replicas(kind, **options))
