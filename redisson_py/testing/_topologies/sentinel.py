"""A master with replicas and sentinels of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Unpack, final
from urllib.parse import quote, urlencode

from redisson_py.testing._asking import CommandError
from redisson_py.testing._blocks import running, url_of
from redisson_py.testing._configuration import quoted
from redisson_py.testing._server import EmbeddedServer

from .making import ADMIN, WATCHER
from .nodes import TopologyError, blame
from .replicas import Replicated
from .topology import TopologyOptions

#: How often to ask a Sentinel to fail over, and seconds between.
_ELECTIONS: Final = 3
_ELECTION: Final = 10.0


class SentinelOptions(TopologyOptions, total=False):
    """The keyword arguments of `EmbeddedSentinel`."""

    replicas: int
    sentinels: int
    service: str
    down_after: float
    failover_timeout: float
    sentinel_password: str | None
    sentinel_users: Mapping[str, str] | None


@final
class EmbeddedSentinel(Replicated):
    """A master with replicas and Sentinels that a test may kill, freeze and fail over.

    Use `embedded_sentinel` if all you need is a URL, and `running_sentinel` for a block. All
    processes end with `close`, and with this Python process (even if that is killed).

    `kill`, `revive`, `freeze` and `thaw` take data servers and Sentinels. A Sentinel that was
    frozen does nothing for half a minute (TILT); kill and revive it instead.

    Attributes:
        nodes: The data servers; first the original master.
        sentinels: The Sentinels.
        service: The name by which Sentinels know the master.
    """

    def __init__(
        self,
        kind: str | None = None,
        *,
        replicas: int = 2,
        sentinels: int = 3,
        service: str = "main",
        down_after: float = 1.0,
        failover_timeout: float = 3.0,
        config: Mapping[str, str] | None = None,
        password: str | None = None,
        users: Mapping[str, str] | None = None,
        sentinel_password: str | None = None,
        sentinel_users: Mapping[str, str] | None = None,
        tls: tuple[Path, Path, Path] | None = None,
        own_addresses: bool = False,
        start_timeout: float = 30.0,
    ) -> None:
        """Find the binary; start nothing.

        Args:
            kind: See `find_server`.
            replicas: Number of replicas.
            sentinels: Number of Sentinels; more than half of them must agree.
            service: The name by which they know the master.
            down_after: Seconds after which Sentinels consider a silent server dead.
            failover_timeout: Seconds a failover may take; Sentinels repeat it after twice that.
            config: More configuration for the data servers, with values as in a configuration file.
            password: The password clients of the data servers need.
            users: More users of the data servers: names, and rules as `ACL SETUSER` takes them.
                With a password or users, replicas and Sentinels log in as users with only the
                permissions they need.
            sentinel_password: The password clients of the Sentinels need.
            sentinel_users: More users of the Sentinels.
            tls: Certificate, key and authority (PEM files), for all; see `EmbeddedServer`.
                Clients need no certificate.
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
        self.sentinels: Final[list[EmbeddedServer]] = []
        self.service: Final = service
        self.sentinel_password: Final = sentinel_password
        self._sentinel_users: Final = dict(sentinel_users or {})
        self._replicas: Final = replicas
        self._count: Final = sentinels
        self._down_after: Final = down_after
        self._failover_timeout: Final = failover_timeout

    @property
    def url(self) -> str:
        """The URL clients connect to: all Sentinels, passwords included."""
        query = {}
        if self.sentinel_password is not None:
            query["sentinel_password"] = self.sentinel_password
        path = f"/{quote(self.service, safe='')}"
        return self._url(
            "redis+sentinel",
            self.sentinels,
            f"{path}?{urlencode(query, quote_via=quote)}" if query else path,
        )

    async def master(self) -> EmbeddedServer:
        """Return the master that the Sentinels name; if they differ, the newest.

        Raises:
            TopologyError: No Sentinel answers, or the server they name is not one of ours.
        """
        named = [await self._named(sentinel) for sentinel in self._awake_sentinels()]
        if not named:
            raise TopologyError("no Sentinel is running")
        return self._at(max(named)[1])

    async def failover(self, *, coordinated: bool = False) -> EmbeddedServer:
        """Fail over to a replica through a Sentinel, and return once all Sentinels name it.

        Soon after an earlier failover it first waits, up to ten seconds, until all Sentinels
        have asked the old master: Sentinel itself gets two failovers in a row wrong.

        The old master may stay a master for ten more seconds, and lose the writes it answers
        meanwhile; `wait_healthy` waits for that to end.

        Args:
            coordinated: Whether the old master stops and hands over first (Valkey 9), so that no
                write is lost. Default: False

        Returns:
            The new master.
        """
        old = await self.master()

        async def up_to_date() -> str:
            for sentinel in self._awake_sentinels():
                known = await self._replicas_known_to(sentinel)
                for port in {node.port for node in self._nodes.awake() if node is not old}:
                    if port not in known:
                        return blame(sentinel, f"it does not know {port}")
                    if known[port]["role-reported"] != "slave":
                        return blame(sentinel, f"it considers {port} a master")
            return ""

        # Sentinels ask for roles every ten seconds. One that last saw the promoted server as a
        # master takes it for a stray one and demotes it, and the sentinels never recover from that.
        await self._nodes.until("the Sentinels do not know who is a replica", up_to_date)
        command = ["SENTINEL", "FAILOVER", self.service, *(["COORDINATED"] if coordinated else [])]

        async def accepted() -> str:
            return await self._refusal(self._awake_sentinels()[0], command)

        for _ in range(_ELECTIONS):
            await self._nodes.until("no Sentinel began a failover", accepted)
            try:
                return await self.wait_master(other_than=old, timeout=_ELECTION)
            except TopologyError:
                named = [await self._named(sentinel) for sentinel in self._awake_sentinels()]
                if any({port, watched} != {old.port} for _, port, watched in named):
                    break
                # On a busy machine the others may not vote in time; then nothing has changed.
        return await self.wait_master(other_than=old)

    async def wait_master(
        self, other_than: EmbeddedServer | None = None, timeout: float = 30.0
    ) -> EmbeddedServer:
        """Return the master once all running Sentinels name it and it agrees.

        Args:
            other_than: A server to ignore: the one that was killed or frozen.
            timeout: Seconds to wait.

        Raises:
            TopologyError: They did not agree in time.
        """
        found: list[EmbeddedServer] = []

        async def check() -> str:
            for sentinel in self._awake_sentinels():
                _, port, watched = await self._named(sentinel)
                named = self._at(port)
                if watched != port:
                    return blame(sentinel, "its failover has not ended")
                if named is other_than or (found and named is not found[0]):
                    found.clear()
                    return blame(sentinel, f"it names {named.address}")
                found[:] = [named]
            masters = await self.masters()
            if found[0] not in masters:
                return blame(found[0], "it is not the master yet")
            return ""

        await self._nodes.until("the Sentinels do not agree on a master", check, timeout)
        return found[0]

    async def wait_healthy(self, timeout: float = 30.0) -> None:
        """Return once all running servers replicate and all Sentinels know them.

        Raises:
            TopologyError: That took longer than `timeout` seconds.
        """

        async def check() -> str:
            master = await self.master()
            if gap := await self._disunion(master):
                return gap
            for sentinel in self._awake_sentinels():
                if gap := await self._ignorance(sentinel, master):
                    return gap
            return ""

        await self._nodes.until("the Sentinels are not healthy", check, timeout)

    # Setting it up

    async def _set_up(self) -> None:
        await self._start_data(self._replicas)

        async def replicated() -> str:
            return await self._disunion(self.nodes[0])

        # Sentinels that find the replicas at the first look need not wait for the next.
        await self._nodes.until("the replicas do not follow the master", replicated)
        self.sentinels.extend(
            await asyncio.gather(*(self._new_sentinel() for _ in range(self._count)))
        )
        await self._start_all(self.sentinels)

        async def informed() -> str:
            for sentinel in self.sentinels:
                for replica in (await self._replicas_known_to(sentinel)).values():
                    if replica["master-link-status"] != "ok":
                        return blame(sentinel, "it knows of a replica without a link")
            return ""

        # Needed for a failover; they learn it from the replicas, which they ask rarely.
        await self._nodes.until("the Sentinels do not know the replicas", informed)

    async def _new_sentinel(self) -> EmbeddedServer:
        master = self.nodes[0]
        quorum = self._count // 2 + 1
        guarded = self.sentinel_password is not None or bool(self._sentinel_users)
        settings = [
            f"monitor {self.service} {master.host} {master.port} {quorum}",
            f"down-after-milliseconds {self.service} {round(self._down_after * 1000)}",
            f"failover-timeout {self.service} {round(self._failover_timeout * 1000)}",
        ]
        if self._maker.guarded:
            settings += [
                f"auth-user {self.service} {WATCHER}",
                f"auth-pass {self.service} {self._maker.secret}",
            ]
        users = []
        if guarded:
            settings += [f"sentinel-user {ADMIN}", f"sentinel-pass {self._maker.secret}"]
            users = [
                self._maker.user_directive(ADMIN, "~* &* +@all"),
                *(f"user {quoted(name)} {rules}" for name, rules in self._sentinel_users.items()),
            ]
        return await self._maker.server(
            {},
            sentinel=True,
            directives=(*users, *(f"sentinel {each}" for each in settings)),
            password=self.sentinel_password,
            guarded=guarded,
        )

    def _servers(self) -> list[EmbeddedServer]:
        return [*self.sentinels, *self.nodes]

    # Looking at it

    def _awake_sentinels(self) -> list[EmbeddedServer]:
        return [each for each in self.sentinels if self._nodes.is_awake(each)]

    async def _named(self, sentinel: EmbeddedServer) -> tuple[int, int, int]:
        """Return the epoch and the port of the master that a sentinel names, and of the last one.

        The one that leads a failover names the new master before it watches it.
        """
        _, port = await self._nodes.ask(
            sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service
        )
        facts = _facts(await self._nodes.ask(sentinel, "SENTINEL", "MASTER", self.service))
        return int(facts["config-epoch"]), int(port), int(facts["port"])

    async def _ignorance(self, sentinel: EmbeddedServer, master: EmbeddedServer) -> str:
        """Return what a sentinel does not know yet."""
        facts = _facts(await self._nodes.ask(sentinel, "SENTINEL", "MASTER", self.service))
        if int(facts["port"]) != master.port or facts["flags"] != "master":
            return blame(sentinel, f"its master is {facts['port']}, {facts['flags']}")
        if int(facts["num-other-sentinels"]) != self._count - 1:
            return blame(sentinel, "it does not know all Sentinels")
        known = await self._replicas_known_to(sentinel)
        for node in self._nodes.awake():
            if node is not master:
                flags = known.get(node.port, {"flags": "unknown"})["flags"]
                if flags != "slave":
                    return blame(sentinel, f"{node.address} is {flags} to it")
        return ""

    async def _replicas_known_to(self, sentinel: EmbeddedServer) -> dict[int, dict[str, str]]:
        """Return what a sentinel knows of each replica, by its port."""
        reply = await self._nodes.ask(sentinel, "SENTINEL", "REPLICAS", self.service)
        return {int(each["port"]): each for each in map(_facts, reply)}

    async def _refusal(self, sentinel: EmbeddedServer, command: list[str]) -> str:
        """Order a failover; return why it cannot be now."""
        try:
            await sentinel.execute(*command)
        except CommandError as error:
            text = blame(sentinel, f"SENTINEL FAILOVER: {error}")
            if "INPROG" in str(error) or "NOGOODSLAVE" in str(error):
                return text
            raise TopologyError(text) from error
        return ""


def _facts(reply: list[str]) -> dict[str, str]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def running_sentinel(
    kind: str | None = None, **options: Unpack[SentinelOptions]
) -> AbstractAsyncContextManager[EmbeddedSentinel]:
    """Run a master, replicas and Sentinels for a block, and yield their object.

    Args:
        kind: See `find_server`.
        options: See `EmbeddedSentinel`.
    """
    return running(lambda: EmbeddedSentinel(kind, **options))


def embedded_sentinel(
    kind: str | None = None, **options: Unpack[SentinelOptions]
) -> AbstractAsyncContextManager[str]:
    """Run a master, replicas and Sentinels for a block, and yield their URL.

    Args:
        kind: See `find_server`.
        options: See `EmbeddedSentinel`.
    """
    return url_of(running_sentinel(kind, **options))
