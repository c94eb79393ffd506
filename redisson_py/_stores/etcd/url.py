"""Reads and checks the URL of an etcd cluster.

No error quotes a URL: any part of it may belong to the password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from redisson_py._url import attempt

_URL = re.compile(r"(?P<scheme>[A-Za-z]+)://(?:(?P<user>[^/?#]*)@)?(?P<hosts>[^/?#@]*)/?")
_HOST = re.compile(
    r"(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\])(?::(?P<port>\d{1,5}))?", re.ASCII
)
_PORT = 2379
_FORM = "it must be etcd://host:2379 or etcds://user:password@host:2379,another:2379"
_ESCAPE = "percent-encode special characters in the user name and the password"


@dataclass(frozen=True)
class Target:
    """What a URL names.

    Attributes:
        tls: Whether connections are encrypted.
        endpoints: Hosts with ports, as `host:port`.
        user: Whom to authenticate as; empty for nobody.
        password: Their password.
    """

    tls: bool
    endpoints: tuple[str, ...]
    user: str = field(repr=False)
    password: str = field(repr=False)


def read_url(url: object) -> Target:
    """Return what `url` says.

    Raises:
        TypeError: It is not a str.
        ValueError: It is malformed, or of another scheme.
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
    found = _URL.fullmatch(url.strip())
    if found is None:
        raise ValueError(f"the URL is malformed: {_FORM}; {_ESCAPE}")
    scheme = found["scheme"].lower()
    if scheme not in ("etcd", "etcds"):
        raise ValueError("the URL must start with etcd:// or, for TLS, etcds://")
    endpoints = dict.fromkeys(_endpoint(each) for each in found["hosts"].split(","))
    user, colon, password = (found["user"] or "").partition(":")
    if ":" in password or "@" in password:
        raise ValueError(f"the URL has a : or an @ in its password: {_ESCAPE}")
    if found["user"] is not None and not (user and colon and password):
        raise ValueError("the URL has an @ but no user:password before it")
    return Target(scheme == "etcds", tuple(endpoints), _plain(user), _plain(password))


def _endpoint(text: str) -> str:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError(f"the URL has an invalid host or port: {_FORM}; {_ESCAPE}")
    port = int(found["port"] or _PORT)
    if not 0 < port < 65536:
        raise ValueError("the port in the URL must be between 1 and 65535")
    return f"{found['host']}:{port}"


def _plain(text: str) -> str:
    plain = attempt(lambda: unquote(text, errors="strict"))
    if plain is None:
        raise ValueError("the URL has percent-encoded bytes that are not UTF-8")
    return plain
