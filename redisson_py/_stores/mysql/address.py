"""What a URL of a MySQL or MariaDB server says. No error quotes it, as in `redisson_py._url`."""

from __future__ import annotations

import math
import ssl
from dataclasses import dataclass
from typing import Any, final
from urllib.parse import parse_qsl, unquote

from redisson_py._addresses import write_address
from redisson_py._forks import no_fork
from redisson_py._url import ESCAPE, address_in, attempt, split

_SCHEMES = ("mysql", "mariadb")
_PORT = 3306
#: The most connections that a URL may ask for.
_MOST_CONNECTIONS = 1000
_LONGEST_POLL = 60.0
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_KNOWN = ("connections", "poll_interval", "ssl", *_TLS)


@final
@dataclass(frozen=True, slots=True)
class Target:
    """A server, and how to connect to it. Its repr tells neither the user nor the password.

    Attributes:
        host: Its name or address.
        port: Its port.
        user: Whom to log in as.
        password: The password, as bytes in UTF-8.
        database: The database with the table.
        tls: How to check its certificate; None for a plain connection.
        connections: The most connections to open.
        poll_interval: The most seconds between two requests of one that waits.
    """

    host: str
    port: int
    user: str
    password: bytes
    database: str
    tls: ssl.SSLContext | None = None
    connections: int = 10
    poll_interval: float = 0.5

    @property
    def where(self) -> str:
        """Host, port and database, for people."""
        return f"{write_address(self.host, self.port)}/{self.database}"

    def __repr__(self) -> str:
        return f"<Target {self.where}>"


def read_url(url: object) -> Target:
    """Return what a URL says: `mysql://user:password@host:port/database?ssl=true`.

    Arguments behind the `?`: `ssl` (true: TLS, checked with the authorities of the system),
    `ssl_ca_certs` (a file with the authorities instead), `ssl_certfile` and `ssl_keyfile` (the
    client's own certificate), `connections` (the most to open; 10), `poll_interval` (the most
    seconds between two requests of one that waits; 0.5).

    Raises:
        TypeError: It is not a str.
        ValueError: It is malformed.
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
    text = url.strip()
    if text.partition("://")[0].lower() not in _SCHEMES:
        raise ValueError("the URL must start with mysql:// or mariadb://")
    parts = split(text)
    address = address_in(parts)
    database = attempt(lambda: unquote(parts.path, errors="strict").removeprefix("/"))
    if not database or "/" in database or "\0" in database:
        raise ValueError(f"the URL must name one database: mysql://user@host/database; {ESCAPE}")
    user = attempt(lambda: unquote(parts.username or "", errors="strict"))
    password = attempt(lambda: unquote(parts.password or "", errors="strict"))
    if not user:
        raise ValueError(f"the URL must name a user: mysql://user@host/database; {ESCAPE}")
    if password is None:
        raise ValueError("the password in the URL is not percent-encoded UTF-8")
    arguments = _arguments(parts.query)
    limits: dict[str, Any] = {}
    if "connections" in arguments:
        limits["connections"] = _connections(arguments["connections"])
    if "poll_interval" in arguments:
        limits["poll_interval"] = _poll_interval(arguments["poll_interval"])
    return Target(
        address.get("host", "localhost"),
        address.get("port", _PORT),
        user,
        password.encode(),
        database,
        _tls(arguments),
        **limits,
    )


def _arguments(query: str) -> dict[str, str]:
    if not query:
        return {}
    pairs = attempt(lambda: parse_qsl(query, keep_blank_values=True, strict_parsing=True))
    if pairs is None:
        raise ValueError(f"arguments after the ? in the URL must be name=value; {ESCAPE}")
    if not {name for name, _ in pairs} <= {*_KNOWN}:
        raise ValueError(
            f"the URL has an unknown argument; known arguments: {', '.join(_KNOWN)}; {ESCAPE}"
        )
    arguments = dict(pairs)
    if len(arguments) < len(pairs):
        raise ValueError("the URL repeats an argument")
    return arguments


def _connections(text: str) -> int:
    whole = text.isascii() and text.isdecimal() and len(text) < 5
    if not whole or not 1 <= int(text) <= _MOST_CONNECTIONS:
        raise ValueError(f"connections in the URL must be a number from 1 to {_MOST_CONNECTIONS}")
    return int(text)


def _poll_interval(text: str) -> float:
    seconds = attempt(lambda: float(text))
    if seconds is None or not math.isfinite(seconds) or not 0.001 <= seconds <= _LONGEST_POLL:
        raise ValueError(
            f"poll_interval in the URL must be seconds between 0.001 and {_LONGEST_POLL:.0f}"
        )
    return seconds


def _tls(arguments: dict[str, str]) -> ssl.SSLContext | None:
    wanted = arguments.get("ssl", "").lower()
    if wanted not in ("", "true", "false"):
        raise ValueError("ssl in the URL must be true or false")
    if wanted != "true":
        if any(name in arguments for name in _TLS):
            raise ValueError(f"{', '.join(_TLS)} in the URL need ssl=true")
        return None
    if "ssl_keyfile" in arguments and "ssl_certfile" not in arguments:
        raise ValueError("ssl_keyfile in the URL needs ssl_certfile")
    context = _loaded(arguments)
    if context is None:
        raise ValueError(f"a file named by {', '.join(_TLS)} in the URL cannot be loaded")
    return context


def _loaded(arguments: dict[str, str]) -> ssl.SSLContext | None:
    try:
        with no_fork():
            context = ssl.create_default_context(cafile=arguments.get("ssl_ca_certs"))
            if "ssl_certfile" in arguments:
                context.load_cert_chain(arguments["ssl_certfile"], arguments.get("ssl_keyfile"))
    except OSError:
        return None
    return context
