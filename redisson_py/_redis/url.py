"""Reads and checks the URL of one or several servers of Redis.

No error quotes a URL, as in `redisson_py._url`, or names more than an argument that exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import SplitResult, unquote

from redisson_py._addresses import Address, Topology
from redisson_py._redis.url_arguments import read_arguments
from redisson_py._url import ESCAPE, address_in, split

__all__ = ["Kind", "Target", "read_url"]

Kind = Literal["tcp", "tls", "unix"]

_KINDS: dict[str, Kind] = {
    "redis": "tcp",
    "valkey": "tcp",
    "rediss": "tls",
    "valkeys": "tls",
    "unix": "unix",
}
_TOPOLOGIES: dict[str, Topology] = {"": "single", "+cluster": "cluster", "+sentinel": "sentinel"}
_SCHEMES = (
    "redis://, rediss://, valkey://, valkeys://, unix:// or, for a cluster or Sentinel,"
    " redis+cluster://, rediss+cluster://, redis+sentinel://, rediss+sentinel://"
)
#: The default ports of a server and of a sentinel.
_PORT, _SENTINEL_PORT = 6379, 26379
_TIMEOUTS = ("socket_connect_timeout", "socket_timeout")
_SENTINEL_ONLY = ("sentinel_username", "sentinel_password", "sentinel_ssl")


@dataclass(frozen=True)
class Target:
    """What a URL names.

    Attributes:
        topology: One server, a cluster, a master that sentinels name, or several servers one of
            which is master.
        kind: How to connect.
        settings: What redis-py needs for it; the address is the first.
        addresses: The hosts of the URL; the sentinels for a master that they name. Empty for
            a Unix socket.
        connect_timeout: Seconds that one attempt to connect may take, if the URL says so.
        command_timeout: Likewise for a call that gets no answer.
        service: What the sentinels call the master.
        sentinel_kind: How to connect to the sentinels.
        sentinel: What redis-py needs for it; None without sentinels.
    """

    topology: Topology
    kind: Kind
    settings: dict[str, Any]
    addresses: tuple[Address, ...]
    connect_timeout: float | None = None
    command_timeout: float | None = None
    service: str = ""
    sentinel_kind: Kind = "tcp"
    sentinel: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<Target {self.topology} {self.kind}>"


def read_url(url: object) -> Target:
    """Return what `url` says.

    Raises:
        TypeError: It is not a str.
        ValueError: It is malformed, of a scheme not supported, or switches TLS checks off.
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
    text = url.strip()
    topology, kind = _scheme(text)
    hosts = [text] if kind == "unix" else _one_a_host(text)
    every = [split(each) for each in hosts]
    parts = every[0]
    arguments = read_arguments(parts.query)
    _check_needs(arguments, topology, kind)
    timeouts = arguments.pop(_TIMEOUTS[0], None), arguments.pop(_TIMEOUTS[1], None)
    if parts.username:
        arguments["username"] = unquote(parts.username)
    if parts.password:
        arguments["password"] = unquote(parts.password)
    if kind == "unix":
        return Target("single", kind, arguments | _path(parts), (), *timeouts)
    addresses = [address_in(each) for each in every]
    if len(every) > 1:
        if not all("host" in each for each in addresses):
            raise ValueError(f"the URL lacks a host next to a comma; {ESCAPE}")
        topology = "replicated" if topology == "single" else topology
    port = _SENTINEL_PORT if topology == "sentinel" else _PORT
    # In their order, each once.
    pairs = dict.fromkeys(
        (each.get("host", "localhost"), each.get("port", port)) for each in addresses
    )
    first = next(iter(pairs))
    arguments |= _database(parts, arguments.get("db"), topology)
    if topology == "single":
        return Target("single", kind, arguments | addresses[0], (first,), *timeouts)
    arguments |= {"host": first[0], "port": first[1]}
    if topology != "sentinel":
        return Target(topology, kind, arguments, tuple(pairs), *timeouts)
    wanted: bool | None = arguments.get("sentinel_ssl")
    # Unless the URL says otherwise, sentinels are reached as the servers are.
    sentinel_kind: Kind = kind if wanted is None else "tls" if wanted else "tcp"
    return Target(
        topology,
        kind,
        _of_servers(arguments, kind),
        tuple(pairs),
        *timeouts,
        _service(parts),
        sentinel_kind,
        _of_sentinels(arguments, sentinel_kind),
    )


def _scheme(text: str) -> tuple[Topology, Kind]:
    scheme, _, remaining = text.partition(":")
    scheme = scheme.lower()
    base, plus, word = scheme.partition("+")
    known = base in _KINDS and plus + word in _TOPOLOGIES and not (plus and base == "unix")
    if known and remaining.startswith("//"):
        return _TOPOLOGIES[plus + word], _KINDS[base]
    if not text:
        raise ValueError(f"the URL is empty: it must start with {_SCHEMES}")
    if known:
        raise ValueError(f"the URL lacks the two slashes of {scheme}://")
    if "://" not in text:
        raise ValueError(f"the URL has no scheme: it must start with {_SCHEMES}")
    raise ValueError(f"the URL must start with {_SCHEMES}")


def _one_a_host(text: str) -> list[str]:
    """Return one URL for each host of a URL; the first has everything else."""
    start = text.index("//") + 2
    end = start + len(re.split("[/?#]", text[start:], maxsplit=1)[0])
    user, at, hosts = text[start:end].rpartition("@")
    if "@" in user and "," in user:
        raise ValueError(
            "the URL has an @ and a comma in its user name or password: percent-encode both."
            " Write one user name and password, before the first host, for all servers"
        )
    first, *others = hosts.split(",")
    return [
        text[:start] + user + at + first + text[end:],
        *(text[:start] + each for each in others),
    ]


def _service(parts: SplitResult) -> str:
    """Return what the sentinels call the master."""
    names = parts.path.strip("/").split("/")
    service = unquote(names[0])
    if not service:
        raise ValueError(
            "the URL lacks the service name: write redis+sentinel://host/service, or"
            " …/service/database"
        )
    if len(names) == 1 and service.isdecimal():
        raise ValueError(
            "the URL has a number in place of the service name: write"
            " redis+sentinel://host/service/database"
        )
    return service


def _database(parts: SplitResult, database: int | None, topology: Topology) -> dict[str, Any]:
    path = parts.path.strip("/")
    if topology == "sentinel":
        path = path.partition("/")[2].strip("/")
    if not path:
        return {}
    if not (path.isascii() and path.isdecimal() and len(path) < 10):
        raise ValueError(f"the database in the URL must be a number; {ESCAPE}")
    if database not in (None, int(path)):
        raise ValueError("the URL names two databases")
    return {"db": int(path)}


def _path(parts: SplitResult) -> dict[str, Any]:
    path = unquote(parts.path)
    if parts.netloc.rpartition("@")[2] or not path.strip("/") or "\0" in path:
        raise ValueError(f"a unix:// URL needs three slashes: unix:///path; {ESCAPE}")
    return {"path": path}


# Arguments for sentinels, and for TLS.


def _check_needs(arguments: dict[str, Any], topology: Topology, kind: Kind) -> None:
    encrypted = kind == "tls" or bool(arguments.get("sentinel_ssl"))
    for name in arguments:
        if name in _SENTINEL_ONLY and topology != "sentinel":
            raise ValueError(f"{name} in the URL needs redis+sentinel:// or rediss+sentinel://")
        if name.startswith("ssl_") and not encrypted:
            raise ValueError(f"{name} in the URL needs rediss:// or valkeys://")


def _of_servers(arguments: dict[str, Any], kind: Kind) -> dict[str, Any]:
    return {
        name: value
        for name, value in arguments.items()
        if name not in _SENTINEL_ONLY and (kind == "tls" or not name.startswith("ssl_"))
    }


def _of_sentinels(arguments: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the settings for sentinels: those of the servers, but with users of their own."""
    settings = _of_servers(arguments, kind)
    for name in ("username", "password", "db"):
        settings.pop(name, None)
        if f"sentinel_{name}" in arguments:
            settings[name] = arguments[f"sentinel_{name}"]
    return settings
