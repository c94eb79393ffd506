"""What the servers of a topology are configured with, and what their users may do."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final, final

from redisson_py.testing._binaries import server_version
from redisson_py.testing._configuration import HOST, Part, quoted
from redisson_py.testing._network import OBSERVER, host_of
from redisson_py.testing._server import EmbeddedServer, part_of

#: Then the master does not wait for more replicas, nor the replica for its clock (Valkey 9: 1 s).
_ATTACH_AT_ONCE: Final = {"repl-diskless-sync-delay": "0", "repl-diskless-load": "on-empty-db"}
#: The permissions that a replica needs to follow a server, and a sentinel to watch it.
_REPLICA_RULES: Final = "+psync +replconf +ping"
_SENTINEL_RULES: Final = (
    "allchannels +multi +exec +slaveof +role +info +ping +subscribe +publish +config|rewrite"
    " +client|kill +client|setname +script|kill"
)
ADMIN: Final = "redisson-py-admin"
_REPLICA: Final = "redisson-py-replica"
WATCHER: Final = "redisson-py-sentinel"


@final
class ServerMaker:
    """Makes servers that belong together and trust each other.

    Attributes:
        tls: Certificate, key and authority; None for plain TCP.
        secret: The password of our own users.
    """

    def __init__(
        self,
        binary: Path,
        config: Mapping[str, str],
        password: str | None,
        users: Mapping[str, str],
        tls: tuple[Path, Path, Path] | None,
        own_addresses: bool,
        start_timeout: float,
    ) -> None:
        """Take what all have in common; see `Topology`."""
        self.tls: Final = tls
        self.secret: Final = secrets.token_hex(16)
        self._binary: Final = binary
        self._config: Final = config
        self._password: Final = password
        self._users: Final = users
        self._own_addresses: Final = own_addresses
        self._addresses: Final = count()
        self._start_timeout: Final = start_timeout

    async def server(
        self,
        config: Mapping[str, str],
        *,
        bus: bool = False,
        sentinel: bool = False,
        directives: tuple[str, ...] = (),
        password: str | None = None,
        guarded: bool = False,
    ) -> EmbeddedServer:
        """Make a server.

        Args:
            config: Its configuration.
            bus: Whether it is a node of a cluster.
            sentinel: Whether it is a sentinel.
            directives: More lines of its configuration.
            password: What its clients must authenticate with.
            guarded: Whether we log in as a user of our own.
        """
        host = host_of(next(self._addresses)) if self._own_addresses else HOST
        return await asyncio.to_thread(
            part_of,
            Part(
                host=host,
                source=OBSERVER if self._own_addresses else None,
                bus=bus,
                sentinel=sentinel,
                keeps=True,
                directives=directives,
                login=(ADMIN, self.secret) if guarded else (),
            ),
            str(self._binary),
            config={
                **self._address_config(host, bus, sentinel),
                **self._tls_config(),
                **config,
            },
            password=password,
            tls=self.tls,
            start_timeout=self._start_timeout,
        )

    async def data_server(self, config: Mapping[str, str], *, bus: bool = False) -> EmbeddedServer:
        """Make a data server, with the caller's configuration over ours."""
        replica = {"masteruser": _REPLICA, "masterauth": self.secret} if self.guarded else {}
        return await self.server(
            {**_ATTACH_AT_ONCE, **config, **replica, **self._config},
            bus=bus,
            directives=self._user_directives(),
            password=self._password,
            guarded=self.guarded,
        )

    def _address_config(self, host: str, bus: bool, sentinel: bool) -> dict[str, str]:
        """Return what keeps a server to its own address, in both directions."""
        if not self._own_addresses:
            return {}
        announce = {"sentinel announce-ip": host} if sentinel else {"replica-announce-ip": host}
        if bus:
            announce = {"cluster-announce-ip": host}
        # Before 7.0 connections come from the first address that is bound to. Only 127.0.0.1 is
        # at home for protected mode.
        own = {**announce, "protected-mode": "no"}
        return {
            **own,
            **({"bind-source-addr": host} if server_version(self._binary) >= (7, 0, 0) else {}),
        }

    @property
    def guarded(self) -> bool:
        """Whether anybody must authenticate."""
        return self._password is not None or bool(self._users)

    def _tls_config(self) -> dict[str, str]:
        return {"tls-auth-clients": "no", "tls-replication": "yes"} if self.tls else {}

    def _user_directives(self) -> tuple[str, ...]:
        if not self.guarded:
            return ()
        return (
            self.user_directive(ADMIN, "~* &* +@all"),
            self.user_directive(_REPLICA, _REPLICA_RULES),
            self.user_directive(WATCHER, _SENTINEL_RULES),
            *(f"user {quoted(name)} {rules}" for name, rules in self._users.items()),
        )

    def user_directive(self, name: str, rules: str) -> str:
        """Return the line that makes one of our own users."""
        return f"user {name} on >{self.secret} {rules}"
