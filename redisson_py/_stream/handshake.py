"""What a server says of itself when it is greeted."""

from __future__ import annotations

from redisson_py.errors import UnsupportedServerError

#: The oldest server whose replies and commands suffice.
OLDEST = (6, 2)


def knows_flags(facts: object) -> bool:
    """Return whether a server reads `#!lua` lines, from its answer to HELLO.

    Raises:
        UnsupportedServerError: It does not speak RESP3, or is too old.
    """
    if not isinstance(facts, dict):
        raise UnsupportedServerError("the server does not speak RESP3")
    version = facts.get(b"version", b"0").decode()
    major, minor = (int(part) for part in f"{version}.0".split(".")[:2])
    if (major, minor) < OLDEST:
        raise UnsupportedServerError(f"Redis {version} is too old: 6.2 or newer is needed")
    return major >= 7
