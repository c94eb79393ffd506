"""The configuration file and the ports of a server."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

HOST: Final = "127.0.0.1"
#: From a cluster node's port to that of its bus: the default of all versions, fixed in Redis 6.2.
BUS_OFFSET: Final = 10_000

# Below every system's range for outgoing connections. A port from that range can be taken by
# any client while a server restarts, even by one that then connects to itself.
_PORTS: Final = range(10_000, 30_000)
_PORTS_WITH_BUS: Final = range(10_000, 30_000 - BUS_OFFSET)


@final
@dataclass(frozen=True, slots=True)
class Part:
    """What makes a server a part of a topology.

    Attributes:
        host: The address it listens on.
        bus: Whether it is a node of a cluster, which takes a second port.
        sentinel: Whether it is a sentinel.
        keeps: Whether it starts again with the configuration it has rewritten meanwhile.
        directives: More lines for its configuration.
        login: What we authenticate with; empty for the server's password.
        source: The address we connect from; None for any.
    """

    host: str = HOST
    bus: bool = False
    sentinel: bool = False
    keeps: bool = False
    directives: tuple[str, ...] = ()
    login: tuple[str, ...] = ()
    source: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of the configuration file.

    Attributes:
        config: The caller's, values as in a configuration file.
        password: What clients must authenticate with.
        tls: Certificate, key and authority; None for plain TCP.
        unix_socket: Where to listen as well.
        appendonly: Whether data stays on disk.
        part: What the server is a part of.
    """

    config: Mapping[str, str]
    password: str | None
    tls: tuple[Path, Path, Path] | None
    unix_socket: str | None
    appendonly: bool
    part: Part = Part()

    def write(self, file: Path, port: int) -> None:
        """Write the file for a server on this port."""
        directives = [
            f"bind {self.part.host}",
            f"port {0 if self.tls else port}",
            f"dir {quoted(str(file.parent))}",
        ]
        if not self.part.sentinel:
            appendonly = "yes" if self.appendonly else "no"
            directives += ['save ""', f"appendonly {appendonly}", "appendfsync always"]
        if self.unix_socket is not None:
            directives.append(f"unixsocket {quoted(self.unix_socket)}")
        if self.password is not None:
            directives.append(f"requirepass {quoted(self.password)}")
        if self.tls is not None:
            names = ("tls-cert-file", "tls-key-file", "tls-ca-cert-file")
            files = [f"{n} {quoted(str(f))}" for n, f in zip(names, self.tls, strict=True)]
            directives += [f"tls-port {port}", *files]
        directives += self.part.directives
        directives += [f"{name} {value or quoted('')}" for name, value in self.config.items()]
        file.write_text("\n".join(directives) + "\n", encoding="utf-8")


def free_port(part: Part = Part()) -> int:
    """Return a port that was free a moment ago, as was that of the bus if there is one."""
    chance = random.SystemRandom()  # tests seed the shared generator, all alike
    while True:
        port = chance.choice(_PORTS_WITH_BUS if part.bus else _PORTS)
        if _is_free(part.host, port) and not (
            part.bus and not _is_free(part.host, port + BUS_OFFSET)
        ):
            return port


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True


def quoted(text: str) -> str:
    """Return `text` as one word of a configuration file."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
