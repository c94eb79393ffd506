"""A real ZooKeeper server, and an ensemble of them, on free ports in a directory of its own.

The server is Debian's `zookeeper` (its jars in /usr/share/java), or that in the folder that
`ZOOKEEPER_JARS` names.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from redisson_py.testing._configuration import free_port
from redisson_py.testing._process import GuardedProcess

HOST: Final = "127.0.0.1"
TICK: Final = 0.2
_START_TIME: Final = 60.0
_JVM: Final = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# Netty, which speaks TLS, needs more than the manifest of Debian's jar names.
_JARS: Final = ("zookeeper", "slf4j-nop", "netty-codec", "netty-resolver")
_CONFIGURATION: Final = """\
tickTime={tick}
initLimit=25
syncLimit=25
dataDir={folder}
clientPort={port}
clientPortAddress={host}
minSessionTimeout={shortest}
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
standaloneEnabled=true
4lw.commands.whitelist=*
"""


class ZooKeeperNotFoundError(FileNotFoundError):
    """There is no `java`, or no ZooKeeper."""


def class_path() -> str:
    """Return where the server's classes are.

    Raises:
        ZooKeeperNotFoundError: They are not there, or `java` is not.
    """
    if shutil.which("java") is None:
        raise ZooKeeperNotFoundError("needs java on the PATH, to start ZooKeeper")
    if folder := os.environ.get("ZOOKEEPER_JARS"):
        return f"{folder}/*"
    if not Path("/usr/share/java/zookeeper.jar").exists():
        raise ZooKeeperNotFoundError("needs Debian's zookeeper, or its jars in $ZOOKEEPER_JARS")
    return ":".join(f"/usr/share/java/{jar}.jar" for jar in _JARS)


class ZooKeeperServer:
    """One server, which can be killed, paused and started again with the same data.

    Attributes:
        port: Where it listens for clients.
    """

    def __init__(
        self, folder: Path, *options: str, rows: tuple[str, ...] = (), number: int = 0
    ) -> None:
        """Prepare a server; `start` starts it.

        Args:
            folder: Where its data go.
            options: Of the Java machine.
            queues: More lines of its configuration, as `server.N=...` in an ensemble.
            number: Which of them it is; 0 outside of an ensemble.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._log = folder / "log"
        configuration = folder / "zoo.cfg"
        text = _CONFIGURATION.format(
            tick=round(TICK * 1000), shortest=400, folder=folder, port=self.port, host=HOST
        )
        configuration.write_text("\n".join((text, *rows, "")))
        if number:
            (folder / "myid").write_text(str(number))
        # Data that survive a power failure are not what is tested; fsync is half of the time.
        options = ("-Dzookeeper.forceSync=no", *options)
        self._command = ["java", *_JVM, *options, "-cp", class_path(), _MAIN, str(configuration)]
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        """What clients connect to."""
        return f"zookeeper://{HOST}:{self.port}"

    @property
    def process(self) -> GuardedProcess:
        """The running process."""
        assert self._process is not None
        return self._process

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it serves."""
        self._process = GuardedProcess(self._command, self._log)
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until it serves."""
        end = time.monotonic() + _START_TIME
        while b"Mode: " not in self.tell("srvr"):
            assert self.process.running, self._log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < end, "ZooKeeper did not start"
            time.sleep(0.05)

    def tell(self, word: str) -> bytes:
        """Send a four-letter word; return the answer, or nothing if there is none."""
        try:
            with socket.create_connection((HOST, self.port), 5) as link:
                link.sendall(word.encode())
                return b"".join(iter(lambda: link.recv(65536), b""))
        except OSError:
            return b""

    def kill(self) -> None:
        """End it as SIGKILL does."""
        self.process.kill()

    def pause(self) -> None:
        """Stop it (SIGSTOP)."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on."""
        self.process.resume()

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()


@contextmanager
def running_zookeeper(
    folder: Path, *options: str, rows: tuple[str, ...] = ()
) -> Iterator[ZooKeeperServer]:
    """Start a server for the time of a block."""
    server = ZooKeeperServer(folder, *options, rows=rows)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def running_ensemble(folder: Path, size: int = 3) -> Iterator[list[ZooKeeperServer]]:
    """Start an ensemble for the time of a block."""
    members = tuple(
        f"server.{number}={HOST}:{free_port()}:{free_port()}" for number in range(1, size + 1)
    )
    servers = [
        ZooKeeperServer(folder / str(number), rows=members, number=number)
        for number in range(1, size + 1)
    ]
    try:
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait_until_ready()
        yield servers
    finally:
        for server in servers:
            server.stop()
