"""Checks the URL of a server before anything connects.

asyncpg reads it, with whatever libpq knows. Errors never quote it: if something in it is not
escaped, any part of it may belong to the password.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redisson_py._url import attempt

_PORT: Final = 5432
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[\w.%/-]*)(?::(\d*))?")
_SEARCH_PATH: Final = "search_path"
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SSL_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_ESCAPE: Final = "a user name or password with : / ? # [ ] @ or % in it must be percent-encoded"


def check_url(url: object) -> tuple[tuple[str, ...], str]:
    """Return one URL for each host, and their addresses for people.

    Raises:
        TypeError: It is not a str.
        ValueError: It is malformed or of another scheme.
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
    text = url.strip()
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("the URL must start with postgresql:// or postgres://")
    parts = _split(text)
    options = _options(parts.query)
    user, at, hosts = parts.netloc.rpartition("@")
    addresses = [_address(each) for each in hosts.split(",")] if hosts else []
    if not addresses:
        named = options.get("host") or os.getenv("PGHOST") or ""
        names, ports = named.split(","), options.get("port", "").split(",")
        # One port is for all hosts.
        ports = ports * len(names) if len(ports) == 1 else ports
        if len(ports) != len(names):
            raise ValueError("the URL must have one port for each host, or one for all")
        pairs = zip(names, ports, strict=True)
        addresses = [_address(f"{name}:{port}" if port else name) for name, port in pairs]
    # The store looks for its table along it: as a parameter of the connection poolers refuse it.
    arguments = [each for each in parts.query.split("&") if _name(each) != _SEARCH_PATH]
    parts = parts._replace(query="&".join(arguments))
    # asyncpg has one timeout for all hosts: the first would have the time of the second.
    urls = tuple(parts._replace(netloc=user + at + each).geturl() for each in hosts.split(","))
    return urls, ", ".join(addresses)


def database_of(url: str) -> str:
    """Return the name of the database that a checked URL leads to; never shown."""
    parts = urlsplit(url.strip())
    options = _options(parts.query)
    named = unquote(parts.path[1:]) or options.get("dbname") or options.get("database")
    user = unquote(parts.username or "") or options.get("user") or os.getenv("PGUSER")
    return named or os.getenv("PGDATABASE") or user or ""


def _name(argument: str) -> str:
    return unquote(argument.partition("=")[0])


def search_path_of(url: str) -> str | None:
    """Return the search_path that a checked URL has, or None."""
    return _options(urlsplit(url.strip()).query).get(_SEARCH_PATH)


def _split(text: str) -> SplitResult:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise ValueError("the URL has a tab, a line break or another control character in it")
    parts = attempt(lambda: urlsplit(text))
    if parts is None or attempt(text.encode) is None:
        raise ValueError(f"the URL cannot be split: {_ESCAPE}")
    if "@" in parts.path + parts.query or "#" in text or parts.netloc.count("@") > 1:
        raise ValueError(f"the URL has an @ or a # after its host, or two of them: {_ESCAPE}")
    if "/" in parts.path[1:]:
        raise ValueError(f"the URL has a second / after its host: {_ESCAPE}")
    return parts


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    if query and not all("=" in each for each in query.split("&")):
        raise ValueError("arguments after the ? in the URL must be name=value")
    for name, value in parse_qsl(query, keep_blank_values=True):
        if not _NAME.fullmatch(name):
            raise ValueError("the URL has an argument with an invalid name")
        options[name] = value
    if options.get("sslmode", "prefer") not in _SSL_MODES:
        raise ValueError(f"sslmode in the URL must be one of {', '.join(_SSL_MODES)}")
    for name in _SSL_FILES:
        # asyncpg would find out at each attempt to connect, and those are repeated.
        if (path := options.get(name)) and not (os.path.isfile(path) and os.access(path, os.R_OK)):
            raise ValueError(f"{name} in the URL is not a readable file")
    return options


def _address(text: str) -> str:
    found = _HOST.fullmatch(text)
    if found is None or (found[2] and not 0 < int(found[2]) < 65536):
        raise ValueError(f"the URL has an invalid host or port: {_ESCAPE}")
    return f"{unquote(found[1]) or 'localhost'}:{found[2] or os.getenv('PGPORT') or _PORT}"
