"""Sentinels and servers that say what a test tells them, and a stream that finds the master."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Self

from redisson_py._addresses import Address, AddressMap
from redisson_py._loop import stop_task
from redisson_py._outage import Outages
from redisson_py._redis.connector import Connector
from redisson_py._redis.redis_py import servers_from_url
from redisson_py._redis.stream.call import Call
from redisson_py._redis.stream.settings import Callbacks, Opener, StreamSettings, Topology
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.topology.finder import Finder, FinderRouter, SentinelFinder
from redisson_py._redis.topology.replicated import ReplicatedFinder
from redisson_py._redis.topology.sentinel import Sentinel
from redisson_py.errors import ClientClosedError
from tests.support.fake_peer import HOST, OK, Command, FakePeer, bulk, echo, error, message

SERVICE = "main"
#: Long enough never to be the reason for anything.
PATIENT = 30.0


def address_of(peer: FakePeer) -> Address:
    """Return where a peer listens."""
    return HOST, peer._port


def array(*items: bytes) -> bytes:
    """Return an array of replies."""
    return b"*%d\r\n%s" % (len(items), b"".join(items))


def fields(**values: object) -> bytes:
    """Return a map of strings, as Sentinels describe an instance."""
    pairs = [
        bulk(each)
        for name, value in values.items()
        for each in (name.replace("_", "-").encode(), str(value).encode())
    ]
    return b"%%%d\r\n%s" % (len(values), b"".join(pairs))


class FakeServer(FakePeer):
    """A data server.

    Attributes:
        role: What it says it is.
    """

    def __init__(self, role: str = "master") -> None:
        super().__init__()
        self.role = role
        self.greeting = lambda _: fields(server="redis", version="7.2.4", proto=3, role=self.role)


class FakeSentinel(FakePeer):
    """A Sentinel that watches one service.

    Attributes:
        master: Where the master is, as SENTINEL MASTER says.
        named: What GET-MASTER-ADDR-BY-NAME says, if that is something else.
        epoch: Its config-epoch.
        others: The other Sentinels it names.
        answers: It answers questions; else it keeps them for `answer_all`.
    """

    def __init__(self, master: FakePeer, epoch: int = 1) -> None:
        super().__init__()
        self.master = address_of(master)
        self.named: Address | None = None
        self.epoch = epoch
        self.others: list[Address] = []
        self.answers = True
        self._kept: list[Command] = []
        self.otherwise = self._answer
        self.greeting = lambda _: fields(server="redis", version="7.2.4", proto=3, mode="sentinel")

    def answer_all(self) -> None:
        """Answer what was kept, and everything from now on."""
        self.answers = True
        kept, self._kept = self._kept, []
        self.say(b"".join(self._reply(command) for command in kept))

    def knows(self, master: FakePeer, epoch: int) -> None:
        """Say that there was a failover, when asked."""
        self.master, self.epoch = address_of(master), epoch

    def announce(self, old: FakePeer, new: FakePeer) -> None:
        """Tell its subscribers of a failover."""
        words = [SERVICE, *map(str, address_of(old)), *map(str, address_of(new))]
        self.say(message(b"+switch-master", " ".join(words).encode()))

    @property
    def questions(self) -> int:
        """How often it was asked for the master."""
        return sum(command[:2] == (b"SENTINEL", b"MASTER") for command in self.commands)

    def _answer(self, command: Command) -> bytes:
        if command[0] == b"SENTINEL" and not self.answers:
            self._kept.append(command)
            return b""
        return self._reply(command)

    def _reply(self, command: Command) -> bytes:
        if command[0] != b"SENTINEL":
            return echo(command)
        known = command[2] == SERVICE.encode()
        match command[1]:
            case b"MASTER" if known:
                ip, port = self.master
                return fields(name=SERVICE, ip=ip, port=port, config_epoch=self.epoch)
            case b"GET-MASTER-ADDR-BY-NAME":
                host, port = self.named or self.master
                return array(bulk(host.encode()), bulk(b"%d" % port)) if known else b"_\r\n"
            case b"SENTINELS" if known:
                return array(*(fields(ip=host, port=port) for host, port in self.others))
        return error("ERR No such master with that name")


class Seeker:
    """A stream to the master that a finder finds.

    Attributes:
        needed: Whether somebody relies on the connections while they are idle.
        lefts: Why the finder had the stream leave its master.
    """

    def __init__(self, finder: Callable[[Seeker], Finder]) -> None:
        self.needed = False
        self.lefts: list[str] = []
        self.router = FinderRouter(self._new_stream, lambda _: finder(self))
        self._root: asyncio.Task[None] | None = None

    @property
    def stream(self) -> Stream:
        """The stream."""
        return self.router.only

    @property
    def finder(self) -> Finder:
        """What finds the master."""
        return self.router._finder

    @property
    def sentinels(self) -> tuple[Sentinel, ...]:
        """The Sentinels that are known."""
        assert isinstance(self.finder, SentinelFinder)
        return self.finder.sentinels.known

    async def __aenter__(self) -> Self:
        self._root = asyncio.create_task(self.router.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._root is not None
        await self.router.close(ClientClosedError("closed by the test"))
        await stop_task(self._root)

    def call(self, *args: str, seconds: float = PATIENT) -> Call:
        """Send a command."""
        return self.stream.command(args, seconds)

    async def ask(self, *args: str, seconds: float = PATIENT) -> Any:
        """Send a command and return its reply."""
        return await self.call(*args, seconds=seconds).future

    def leave(self, reason: str) -> None:
        """Give the connection up, as a client does."""
        self.lefts.append(reason)
        self.stream.abort(reason)

    def _new_stream(
        self,
        opener: Opener,
        topology: Topology | None = None,
        *,
        sharded: bool = False,
        fails_over: bool = False,
    ) -> Stream:
        return Stream(
            StreamSettings(
                opener=opener,
                reply_timeout=PATIENT,
                tell=Callbacks(
                    on_message=lambda channel, payload: None,
                    on_connected=lambda _: None,
                    on_down=lambda _: None,
                    needed=lambda _: self.needed,
                ),
                outages=Outages(opener.where),
                topology=topology,
                sharded=sharded,
                fails_over=fails_over,
            )
        )


class Scene:
    """Fake servers and Sentinels, and streams that look for the master; all end together."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def server(self, role: str = "master") -> FakeServer:
        """Start a data server."""
        server = FakeServer(role)
        await self._stack.enter_async_context(server)
        return server

    async def sentinels(self, master: FakeServer, count: int = 3) -> list[FakeSentinel]:
        """Start Sentinels that know each other and name this master."""
        sentinels = [FakeSentinel(master) for _ in range(count)]
        for each in sentinels:
            await self._stack.enter_async_context(each)
        for each in sentinels:
            each.others = [address_of(other) for other in sentinels if other is not each]
        return sentinels

    async def seek(
        self,
        *seeds: FakeSentinel,
        address_map: AddressMap | None = None,
        seed_host: str = HOST,
    ) -> Seeker:
        """Start a stream that asks these Sentinels."""

        def finder(seeker: Seeker) -> SentinelFinder:
            return SentinelFinder(
                connector(),
                connector(),
                [(seed_host, each._port) for each in seeds],
                SERVICE,
                PATIENT,
                address_map=address_map,
                on_elsewhere=seeker.leave,
                on_news=lambda: seeker.stream.hurry(),
                needed=lambda: seeker.needed,
            )

        return await self._stack.enter_async_context(Seeker(finder))

    async def seek_among(self, *servers: FakeServer, password: str | None = None) -> Seeker:
        """Start a stream that asks the servers themselves."""

        def finder(seeker: Seeker) -> ReplicatedFinder:
            addresses = [address_of(each) for each in servers]
            return ReplicatedFinder(connector(password), addresses, on_elsewhere=seeker.leave)

        return await self._stack.enter_async_context(Seeker(finder))


def connector(password: str | None = None) -> Connector:
    """Return settings, to be used at other addresses."""
    user = "" if password is None else f":{password}@"
    return servers_from_url(f"redis://{user}{HOST}:1", None).connector


__all__ = ["OK", "PATIENT", "SERVICE", "FakeSentinel", "FakeServer", "Scene", "Seeker"]
