"""Reads the URL of an ensemble.

No error quotes a URL: any part of it may belong to the password. Errors are raised outside of
`except`, so that no error that quotes the URL is attached to them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redisson_py._url import attempt

from .names import is_path

_PORT: Final = 2181
_HOST: Final = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\])(:(?P<port>\d{1,5}))?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_TLS_ARGUMENTS: Final = {
    "ssl_ca_certs": "ca",
    "ssl_certfile": "certfile",
    "ssl_keyfile": "keyfile",
}


@dataclass(frozen=True)
class Target:
    """What a URL names.

    Attributes:
        hosts: The servers: `h1:2181,h2:2181`.
        root: The path that comes before every other; empty, or `/chroot`.
        digest: `user:password`, if there is one.
        tls: Files for TLS: `ca`, `certfile`, `keyfile`; None for a plain connection.
    """

    hosts: str
    root: str
    digest: str | None = field(repr=False)
    tls: dict[str, str] | None


def read_url(url: object) -> Target:
    """Return what `url` says.

    `zookeeper://user:password@h1:2181,h2:2181/chroot`, or `zookeepers://` for TLS, with the
    arguments `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile`.

    Raises:
        TypeError: It is not a str.
        ValueError: It is malformed.
    """
    if not isinstance(url, str):
        raise TypeError(f"the URL must be a str, not {type(url).__name__}")
    text = url.strip()
    # urlsplit leaves out some control characters, which would be missing in the password.
    parts = None if _CONTROL.search(text) else attempt(lambda: urlsplit(text))
    if parts is None or parts.scheme not in {"zookeeper", "zookeepers"}:
        raise ValueError("the URL of ZooKeeper must begin with zookeeper:// or zookeepers://")
    credentials, at, hosts = parts.netloc.rpartition("@")
    if at and not credentials.partition(":")[0]:
        raise ValueError("the URL of ZooKeeper has a password but no user")
    if "@" in parts.path + parts.query:
        # What stands before it was meant for the password, and would be shown as our address.
        raise ValueError(
            "the URL of ZooKeeper has an @ (write %40) after its servers: a /, # or ? in a"
            " user name or password must be percent-encoded"
        )
    root = unquote(parts.path).rstrip("/")
    if root and not is_path(root):
        raise ValueError("the path of the URL is not a valid ZooKeeper path")
    if parts.fragment:
        raise ValueError("the URL of ZooKeeper cannot have a fragment: escape the # in it")
    return Target(
        hosts=",".join(_address(host) for host in hosts.split(",")),
        root=root,
        digest=_credentials(credentials) if at else None,
        tls=_tls(parts),
    )


def _credentials(text: str) -> str:
    plain = attempt(lambda: unquote(text, errors="strict"))
    if not plain or attempt(plain.encode) is None:
        raise ValueError("the URL of ZooKeeper has a user or a password that is not UTF-8")
    return plain


def _address(host: str) -> str:
    found = _HOST.fullmatch(host)
    if (
        found is None
        or int(found["port"] or _PORT) not in range(1, 65536)
        # kazoo's thread would end with it: a label that is empty or too long.
        or attempt(lambda: found["host"].encode("idna")) is None
    ):
        raise ValueError("the URL of ZooKeeper must name its servers: h1:2181,h2:2181")
    return f"{found['host']}:{int(found['port'] or _PORT)}"


def _tls(parts: SplitResult) -> dict[str, str] | None:
    arguments = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "zookeeper":
        if arguments or parts.query:
            raise ValueError("a URL that begins with zookeeper:// takes no arguments")
        return None
    if not arguments.keys() <= _TLS_ARGUMENTS.keys():
        raise ValueError(f"the URL of ZooKeeper takes these arguments: {', '.join(_TLS_ARGUMENTS)}")
    if not all(arguments.values()):
        raise ValueError("an argument of the URL of ZooKeeper has no value: it must name a file")
    if ("ssl_certfile" in arguments) != ("ssl_keyfile" in arguments):
        raise ValueError("ssl_certfile and ssl_keyfile need each other")
    return {_TLS_ARGUMENTS[name]: value for name, value in arguments.items()}
