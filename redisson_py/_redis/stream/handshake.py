"""What a server's answer to HELLO says about it."""

from __future__ import annotations

import re

from redisson_py._redis.dialect import Dialect
from redisson_py.errors import UnsupportedServerError

#: The oldest version with all commands and replies that are needed.
OLDEST_VERSION = (6, 2)
#: The first version with `#!lua` lines and sharded pub/sub.
MODERN_VERSION = 7

#: The part of a version that counts; forks and previews write `7.4.0-v3`, `8.0-m02`, `7.2-rc1`.
_VERSION = re.compile(rb"[vV]?(\d{1,9})(?:\.(\d{1,9}))?(?!\d)")


def dialect_of(facts: object, *, sharded: bool = False) -> Dialect:
    """Return the dialect of a server's scripts, from its answer to HELLO.

    A server whose version cannot be read gets scripts without `#!lua` lines, which every server
    accepts; with `sharded` pub/sub, which is as new as these lines, it gets them.

    Raises:
        UnsupportedServerError: It does not speak RESP3, or is too old.
    """
    if not isinstance(facts, dict):
        raise UnsupportedServerError("it does not speak RESP3")
    version, modern = facts.get(b"version"), Dialect.SHARDED if sharded else Dialect.MODERN
    if not isinstance(version, bytes) or (found := _VERSION.match(version)) is None:
        return modern if sharded else Dialect.PLAIN
    major, minor = int(found[1]), int(found[2] or 0)
    text = version.decode(errors="replace")
    if (major, minor) < OLDEST_VERSION:
        raise UnsupportedServerError(f"version {text} is too old: 6.2 or newer is needed")
    if sharded and major < MODERN_VERSION:
        raise UnsupportedServerError(
            f"version {text} is too old for sharded pub/sub: {MODERN_VERSION}.0 or newer is needed"
        )
    return modern if major >= MODERN_VERSION else Dialect.PLAIN


def is_master(facts: object) -> bool:
    """Return whether a server is a master, from its answer to HELLO."""
    return isinstance(facts, dict) and facts.get(b"role") == b"master"
