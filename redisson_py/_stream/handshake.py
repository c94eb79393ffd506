"""What a server says of itself when it is greeted."""

from __future__ import annotations

import re

from redisson_py.errors import UnsupportedServerError

#: The oldest server whose replies and commands suffice.
OLDEST = (6, 2)

#: What counts of a version; forks and previews write `7.4.0-v3`, `8.0-m02`, `7.2-rc1`.
_VERSION = re.compile(rb"[vV]?(\d{1,9})(?:\.(\d{1,9}))?(?!\d)")


def knows_flags(facts: object) -> bool:
    """Return whether a server reads `#!lua` lines, from its answer to HELLO.

    A server whose version cannot be read is sent scripts without them, which every server takes.

    Raises:
        UnsupportedServerError: It does not speak RESP3, or is too old.
    """
    if not isinstance(facts, dict):
        raise UnsupportedServerError("the server does not speak RESP3")
    version = facts.get(b"version")
    if not isinstance(version, bytes) or (found := _VERSION.match(version)) is None:
        return False
    major, minor = int(found[1]), int(found[2] or 0)
    if (major, minor) < OLDEST:
        text = version.decode(errors="replace")
        raise UnsupportedServerError(f"Redis {text} is too old: 6.2 or newer is needed")
    return major >= 7


def is_master(facts: object) -> bool:
    """Return whether a server is a master, from its answer to HELLO."""
    return isinstance(facts, dict) and facts.get(b"role") == b"master"
