"""What all topologies share: servers that are started, broken and closed together."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypedDict
from urllib.parse import quote

from redisson_py.testing._binaries import find_server, server_version
from redisson_py.testing._network import Cuts, NetworkNotFoundError, in_own_network
from redisson_py.testing._server import EmbeddedServer

from .making import ServerMaker
from .nodes import Nodes


class TopologyOptions(TypedDict, total=False):
    """The keyword arguments that every topology has."""

    config: Mapping[str, str]
    password: str | None
    users: Mapping[str, str] | None
    tls: tuple[Path, Path, Path] | None
    own_addresses: bool
    start_timeout: float


class Topology(ABC):
    """Servers that are started, broken and closed together."""

    def __init__(
        self,
        kind: str | None = None,
        *,
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
            config: More configuration for the data servers, with values as in a configuration file.
            password: The password clients need.
            users: More users of the data servers: names, and rules as `ACL SETUSER` takes them.
                With a password or users, the servers talk to each other, and we to them, as
                separate users with exactly the permissions they need.
            tls: Certificate, key and authority (PEM files). Turns plain TCP off; clients need no
                certificate.
            own_addresses: Whether every server gets its own address, for `partition`. Works only
                in a private network: see `run_in_own_network`.
            start_timeout: Seconds that starting everything may take.
        """
        self.binary: Final = find_server(kind)
        self._nodes: Final = Nodes(start_timeout)
        self.nodes: Final[list[EmbeddedServer]] = self._nodes.all
        self.password: Final = password
        self._start_timeout: Final = start_timeout
        self._own_addresses: Final = own_addresses
        self._maker: Final = ServerMaker(
            self.binary,
            dict(config or {}),
            password,
            dict(users or {}),
            tls,
            own_addresses,
            start_timeout,
        )
        self._cuts: Final = Cuts()

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL clients connect to, password included."""

    @property
    def version(self) -> tuple[int, int, int]:
        """Major, minor and patch version of the binary."""
        return server_version(self.binary)

    @abstractmethod
    async def _set_up(self) -> None:
        """Start the servers and make them what they are."""

    @abstractmethod
    async def wait_healthy(self, timeout: float = 30.0) -> None:
        """Return once all running servers agree and nothing is missing.

        Raises:
            TopologyError: That took longer than `timeout` seconds.
        """

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start the servers and return once all are ready.

        If it fails or is cancelled, no process is left.

        Raises:
            ServerStartError: A server did not start; the message has its log.
            TopologyError: The servers did not agree in time.
        """
        if self.nodes:
            raise RuntimeError("already started")
        if self._own_addresses and not in_own_network():
            raise NetworkNotFoundError(
                "own_addresses=True works only in a private network: run the program, or "
                "pytest, with run_in_own_network"
            )
        try:
            await self._set_up()
            await self.wait_healthy(self._start_timeout)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop all servers and delete their directories."""
        await self._cuts.heal()
        servers = self._servers()
        # Their data is not needed any more, and a kill is quicker than an orderly end.
        await asyncio.gather(*(server.kill() for server in servers))
        await asyncio.gather(*(server.close() for server in servers))

    def start_blocking(self) -> None:
        """Do what `start` does, without an event loop."""
        _run_in_thread(self.start())

    def close_blocking(self) -> None:
        """Do what `close` does, without an event loop."""
        _run_in_thread(self.close())

    async def kill(self, node: EmbeddedServer) -> None:
        """Kill a server (SIGKILL), as a crash would; `revive` starts it again."""
        await node.kill()

    async def revive(self, node: EmbeddedServer) -> None:
        """Start a killed server again, on its port; it keeps only its place in the topology."""
        await node.start()

    async def freeze(self, node: EmbeddedServer) -> None:
        """Stop a server (SIGSTOP): its connections stay open, it answers nothing."""
        await node.pause()

    async def thaw(self, node: EmbeddedServer) -> None:
        """Resume a frozen server (SIGCONT); it then answers everything that piled up."""
        await node.resume()

    async def partition(self, *groups: Iterable[EmbeddedServer | str]) -> None:
        """Cut groups of servers off from each other, and from the servers in no group.

        Needs `own_addresses`. Packets between groups disappear, as in a failed network; `heal` ends
        it. To put a client into a group, add its address (a text): see `connecting_from`. Clients
        bound to no address reach no server meanwhile. `execute` and this object's methods reach all
        servers, but `wait_master`, `master_of` and the like listen only to servers in no group:
        leave the part that goes on out of all groups.
        """
        if not self._own_addresses:
            raise RuntimeError("partition() needs own_addresses=True")
        named = [
            [each if isinstance(each, str) else each.host for each in group] for group in groups
        ]
        nodes = [server.host for server in self._servers()]
        self._nodes.apart.update(
            each for group in groups for each in group if not isinstance(each, str)
        )
        others = [node for node in nodes if not any(node in group for group in named)]
        await self._cuts.cut([*named, others], nodes)

    async def heal(self) -> None:
        """End every `partition`."""
        self._nodes.apart.clear()
        await self._cuts.heal()

    def _servers(self) -> list[EmbeddedServer]:
        """Return every server, Sentinels included."""
        return self.nodes

    async def _start_all(self, servers: list[EmbeddedServer]) -> None:
        results = await asyncio.gather(*(s.start() for s in servers), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _url(self, scheme: str, servers: list[EmbeddedServer], path: str = "") -> str:
        letter = "s" if self._maker.tls else ""
        kind, plus, word = scheme.partition("+")
        user = "" if self.password is None else f":{quote(self.password, safe='')}@"
        hosts = ",".join(server.address for server in servers)
        return f"{kind}{letter}{plus}{word}://{user}{hosts}{path}"


def _run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` on an event loop of its own, whether or not this thread has one."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:  # handed to the caller
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
