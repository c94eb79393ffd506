"""What all topologies share: their servers, and waiting until these agree."""

from __future__ import annotations

import asyncio
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypedDict
from urllib.parse import quote

from redisson_py.testing._asking import CommandError
from redisson_py.testing._binaries import find_server, server_version
from redisson_py.testing._configuration import Part, quoted
from redisson_py.testing._server import EmbeddedServer, part_of

#: Answers "" if a condition holds, else what is missing.
Check = Callable[[], Awaitable[str]]
#: Neither the master waits for more replicas, nor the replica for its clock (Valkey 9: a second).
_ATTACH_AT_ONCE: Final = {"repl-diskless-sync-delay": "0", "repl-diskless-load": "on-empty-db"}
_LOOK_AGAIN: Final = 0.01
_ANSWER_TIME: Final = 2.0
#: What a server asks to be given before a replica may follow it, or a sentinel watch it.
_REPLICA_RULES: Final = "+psync +replconf +ping"
_SENTINEL_RULES: Final = (
    "allchannels +multi +exec +slaveof +role +info +ping +subscribe +publish +config|rewrite"
    " +client|kill +client|setname +script|kill"
)
ADMIN: Final = "redisson-py-admin"
_REPLICA: Final = "redisson-py-replica"
WATCHER: Final = "redisson-py-sentinel"


class TopologyOptions(TypedDict, total=False):
    """The keyword arguments that every topology has."""

    config: Mapping[str, str]
    password: str | None
    users: Mapping[str, str] | None
    tls: tuple[Path, Path, Path] | None
    start_timeout: float


class TopologyError(RuntimeError):
    """Raised when servers did not come to agree; the message has the log of the one to blame."""


class Blame(TopologyError):
    """Raised when a server could not say what it was asked; while waiting, it is asked again."""


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
        start_timeout: float = 30.0,
    ) -> None:
        """Find the binary; nothing is started.

        Args:
            kind: See `find_server`.
            config: More configuration for the data servers, values as in a configuration file.
            password: What clients must authenticate with.
            users: More users of the data servers: names, and rules as `ACL SETUSER` takes them.
                With a password or users, the servers talk to each other, and we to them, as
                users of our own with exactly the permissions they need.
            tls: Certificate, key and authority (PEM files). Plain TCP is then off; clients need
                no certificate.
            start_timeout: Seconds that starting everything may take.
        """
        self.binary: Final = find_server(kind)
        self.nodes: Final[list[EmbeddedServer]] = []
        self.password: Final = password
        self._config: Final = dict(config or {})
        self._users: Final = dict(users or {})
        self._tls: Final = tls
        self._start_timeout: Final = start_timeout
        self._secret: Final = secrets.token_hex(16)

    @property
    @abstractmethod
    def url(self) -> str:
        """What clients connect to, password included."""

    @property
    def version(self) -> tuple[int, int, int]:
        """Major, minor and patch version of the binary."""
        return server_version(self.binary)

    @abstractmethod
    async def _set_up(self) -> None:
        """Start the servers and make them what they are."""

    @abstractmethod
    async def wait_healthy(self, timeout: float = 30.0) -> None:
        """Return when all servers that run agree and none misses anything.

        Raises:
            TopologyError: That took longer than `timeout` seconds.
        """

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start the servers and return when all is ready.

        If it fails or is cancelled, no process is left.

        Raises:
            ServerStartError: A server did not start; the message has its log.
            TopologyError: They did not come to agree.
        """
        if self.nodes:
            raise RuntimeError("it has been started already")
        try:
            await self._set_up()
            await self.wait_healthy(self._start_timeout)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End all servers and delete their directories."""
        servers = self._servers()
        # Nobody misses what they would write down: a kill is quicker than an orderly end.
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
        """Start a killed server again, on its port; it remembers only what it is a part of."""
        await node.start()

    async def freeze(self, node: EmbeddedServer) -> None:
        """Stop a server (SIGSTOP): its connections stay open, it answers nothing."""
        await node.pause()

    async def thaw(self, node: EmbeddedServer) -> None:
        """Let a frozen server go on (SIGCONT); it then answers what has piled up."""
        await node.resume()

    def _servers(self) -> list[EmbeddedServer]:
        """Return every server there is, sentinels included."""
        return self.nodes

    async def _start_all(self, servers: list[EmbeddedServer]) -> None:
        results = await asyncio.gather(*(s.start() for s in servers), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _awake(self) -> list[EmbeddedServer]:
        """Return the data servers that can answer."""
        return [node for node in self.nodes if node.running and not node.paused]

    # What the servers are configured with

    async def _new_node(
        self,
        config: Mapping[str, str],
        *,
        bus: bool = False,
        sentinel: bool = False,
        lines: tuple[str, ...] = (),
        password: str | None = None,
        guarded: bool = False,
    ) -> EmbeddedServer:
        """Make a server.

        Args:
            config: Its configuration.
            bus: Whether it is a node of a cluster.
            sentinel: Whether it is a sentinel.
            lines: More lines of its configuration.
            password: What its clients must authenticate with.
            guarded: Whether we log in as a user of our own.
        """
        return await asyncio.to_thread(
            part_of,
            Part(
                bus=bus,
                sentinel=sentinel,
                keeps=True,
                lines=lines,
                login=(ADMIN, self._secret) if guarded else (),
            ),
            str(self.binary),
            config={**config, **self._tls_config()},
            password=password,
            tls=self._tls,
            start_timeout=self._start_timeout,
        )

    async def _new_data_node(
        self, config: Mapping[str, str], *, bus: bool = False
    ) -> EmbeddedServer:
        """Make a data server, with the caller's configuration over ours."""
        replica = {"masteruser": _REPLICA, "masterauth": self._secret} if self._guarded else {}
        return await self._new_node(
            {**_ATTACH_AT_ONCE, **config, **replica, **self._config},
            bus=bus,
            lines=self._user_lines(),
            password=self.password,
            guarded=self._guarded,
        )

    @property
    def _guarded(self) -> bool:
        """Whether anybody must authenticate."""
        return self.password is not None or bool(self._users)

    def _tls_config(self) -> dict[str, str]:
        return {"tls-auth-clients": "no", "tls-replication": "yes"} if self._tls else {}

    def _user_lines(self) -> tuple[str, ...]:
        if not self._guarded:
            return ()
        return (
            self._user_line(ADMIN, "~* &* +@all"),
            self._user_line(_REPLICA, _REPLICA_RULES),
            self._user_line(WATCHER, _SENTINEL_RULES),
            *(f"user {quoted(name)} {rules}" for name, rules in self._users.items()),
        )

    def _user_line(self, name: str, rules: str) -> str:
        return f"user {name} on >{self._secret} {rules}"

    def _url(self, scheme: str, servers: list[EmbeddedServer], rest: str = "") -> str:
        letter = "s" if self._tls else ""
        kind, plus, word = scheme.partition("+")
        user = "" if self.password is None else f":{quote(self.password, safe='')}@"
        hosts = ",".join(server.address for server in servers)
        return f"{kind}{letter}{plus}{word}://{user}{hosts}{rest}"

    # Waiting

    async def _until(self, what: str, check: Check, timeout: float | None = None) -> None:
        """Return when `check` has nothing to complain about.

        Args:
            what: What is waited for, for the error.
            check: What is still missing; errors of a server are as good as an answer.
            timeout: Seconds it may take; None for the timeout of a start.
        """
        seconds = self._start_timeout if timeout is None else timeout
        missing = ""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    missing = await self._missing(check)
                    if not missing:
                        return
                    await asyncio.sleep(_LOOK_AGAIN)
        except TimeoutError:
            raise TopologyError(f"not in {seconds} seconds: {what}; {missing}") from None

    @staticmethod
    async def _missing(check: Check) -> str:
        try:
            return await check()
        except Blame as blame:
            return str(blame)

    def _blame(self, node: EmbeddedServer, text: str) -> str:
        """Return what is wrong with a server, and the end of its log."""
        state = "" if node.running else " (has ended)"
        return f"{node.address}{state}: {text}; {node._log_end()}"

    async def _ask(self, node: EmbeddedServer, *command: str | int) -> Any:
        """Ask a server something, inside a `check`."""
        try:
            return await node.execute(*command, timeout=_ANSWER_TIME)
        except (CommandError, OSError, TimeoutError) as error:
            text = str(error) or type(error).__name__
            raise Blame(self._blame(node, f"{command[0]}: {text}")) from error

    async def _order(self, node: EmbeddedServer, *command: str | bytes | int) -> Any:
        """Have a server do something; what goes wrong is our caller's to know."""
        try:
            return await node.execute(*command, timeout=self._start_timeout)
        except (CommandError, OSError, TimeoutError) as error:
            words = " ".join(each for each in command[:2] if isinstance(each, str))
            text = str(error) or type(error).__name__
            raise TopologyError(self._blame(node, f"{words}: {text}")) from error

    async def _info(self, node: EmbeddedServer, section: str) -> dict[str, str]:
        lines = str(await self._ask(node, "INFO", section)).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    async def _replication_gap(self, node: EmbeddedServer) -> str:
        """Return what the replication of this server still misses, as INFO tells it."""
        info = await self._info(node, "replication")
        if info["role"] == "slave" and info["master_link_status"] != "up":
            return self._blame(node, "its link to the master is down")
        lasting = [each for each in info if each.startswith("slave") and each[5:].isdigit()]
        if any("state=online" not in info[each] for each in lasting):
            return self._blame(node, "a replica is not online yet")
        return ""


def _run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` on an event loop of its own, whether or not this thread has one."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:  # handed to who waits
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
