"""What looks like an asyncio client of redis-py and is none: and what we say then."""

from __future__ import annotations

import sys

_TAKEN = "Redisson takes a redis.asyncio.Redis or redis.asyncio.RedisCluster"


def is_fake(client: object) -> bool:
    """Return whether a client is a mock, or of fakeredis, which is a subclass of redis-py's."""
    mock = sys.modules.get("unittest.mock")
    if mock is not None and isinstance(client, mock.NonCallableMock):
        return True
    pool = getattr(client, "connection_pool", None)
    connection_class = getattr(pool, "connection_class", None)
    return _is_of("fakeredis", type(client)) or _is_of("fakeredis", connection_class)


def refusal(client: object) -> str:
    """Return the text of the error for what is no client, or a fake."""
    if isinstance(client, str | bytes):
        return f"{_TAKEN}; Redisson.from_url takes a URL"
    if is_fake(client):
        return (
            f"Redisson needs a real server, and this {_name(type(client))} is a fake. For tests,"
            " redisson_py.testing starts a server, and the pytest plugin has fixtures for it: see"
            " docs/testing.md"
        )
    if isinstance(client, type):
        return f"{_TAKEN}, not the class {_name(client)} itself"
    text = f"{_TAKEN}, not {_name(type(client))}"
    if _is_of("redis", type(client)) and not _is_of("redis.asyncio", type(client)):
        return (
            f"{text}, which is synchronous. Redisson.from_url takes a URL instead, also in"
            " redisson_py.sync, which has the locks for threads"
        )
    return f"{text}. Redisson.from_url takes the server's URL instead"


def _is_of(package: str, kind: object) -> bool:
    """Return whether a class, one of its bases, or a function is from a package."""
    places = [getattr(each, "__module__", "") for each in getattr(kind, "__mro__", (kind,))]
    return any(f"{place}.".startswith(f"{package}.") for place in places)


def _name(kind: type) -> str:
    builtin = kind.__module__ == "builtins"
    return kind.__qualname__ if builtin else f"{kind.__module__}.{kind.__qualname__}"
