"""From keys that SCAN returns to the resources that they belong to.

A lock is a hash whose fields are owners (`<uuid>:<number>`), under any name. Everything else has a
key with a prefix or a suffix of its own, which is a sorted set or a hash. So two passes are enough,
`SCAN ... TYPE hash` and `SCAN ... TYPE zset`: the server skips all other keys. To recognize a lock,
one field of each other hash is read (HRANDFIELD).
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Iterable
from typing import Literal, NamedTuple, get_args

from redisson_py import ScriptError
from redisson_py._cli.looks.asking import Asker, Command
from redisson_py._redis.commands.election import BESIDE_OWNER

#: COUNT of each SCAN: how many keys the server passes over without serving others.
SCAN_COUNT = 500

Family = Literal["lock", "semaphore", "permits", "barrier", "rate limiter", "once"]
"""What shares keys: `permits` are those of a permit-expirable semaphore."""
FAMILIES: tuple[Family, ...] = get_args(Family)

_OWNER = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:\d+(:write|:kept)?")
#: A pattern that does not end within brackets or with a backslash.
_CLOSED = re.compile(rb"(?:\\.|\[(?:\\.|[^\]\\])*\]|[^\\\[])*", re.DOTALL)
_REDISSON_PY = b":redisson_py:"
_PREFIXES: dict[bytes, Family] = {b"redisson_lock_timeout:": "lock"}
_CLIENTS = b":redisson_py:clients"
#: Where a run has its lock.
_ONCE = b"redisson_py:once:"
#: Hashes with such keys are no locks of users.
_ONCE_KEYS = (_ONCE, b"redisson_py:record:")
_SUFFIXES: dict[bytes, Family] = {
    # Before that of a rate limiter, which it ends with.
    b":redisson_py:permits": "semaphore",
    b":redisson_py:writers": "lock",
    _CLIENTS: "lock",
    b":redisson_py:arrivals": "barrier",
    b":redisson_py:barrier": "barrier",
    b":timeout": "permits",
    b":permits": "rate limiter",
}


class Resource(NamedTuple):
    """A resource that has keys.

    Attributes:
        key: The key of its name.
        family: What it is, as far as its keys tell.
    """

    key: bytes
    family: Family


class Names:
    """Tells the names that are looked for.

    Args:
        prefix: Put before every name.
        pattern: A pattern of names, as KEYS takes it.
    """

    def __init__(self, prefix: str, pattern: str) -> None:
        self._prefix = prefix.encode()
        wanted = os.fsencode(pattern)
        self._pattern = glob(wanted)
        escaped = re.sub(rb"([*?\[\]\\])", rb"\\\1", self._prefix)
        # What is open at its end would take in what is put behind it.
        some = escaped + (wanted if _CLOSED.fullmatch(wanted) else b"*")
        #: The pattern for SCAN; derived keys of these names match it as well.
        self.match: bytes | None = None if some == b"*" else b"*" + some + b"*"

    def name(self, key: bytes) -> bytes | None:
        """Return the name whose key this is; None if it is not looked for."""
        name = key.removeprefix(self._prefix)
        ours = key.startswith(self._prefix) and self._pattern.fullmatch(name)
        return name if ours and name else None


def glob(pattern: bytes) -> re.Pattern[bytes]:
    """Return the regular expression for a pattern as KEYS and SCAN take it."""
    parts: list[bytes] = []
    remaining = pattern
    while remaining:
        if remaining.startswith(b"**"):
            # As one, or each would be tried with all the others.
            remaining = remaining[1:]
            continue
        found = re.match(rb"\[(\^?)((?:\\.|[^\]\\])*)(?:\]|\Z)|\\(.)|(.)", remaining, re.DOTALL)
        assert found is not None
        remaining = remaining[found.end() :]
        negated, inside, escaped, plain = found.groups()
        if inside is not None:
            members = re.sub(rb"\\(.)", rb"\1", inside)
            ranges = re.sub(rb"([\\\[\]^&~|])", rb"\\\1", members)
            # An empty set matches nothing, and a negated empty set anything.
            no_members = b"." if negated else b"(?!)"
            parts.append(b"[" + negated + ranges + b"]" if ranges else no_members)
        elif plain in (b"*", b"?") and escaped is None:
            parts.append(b".*" if plain == b"*" else b".")
        else:
            parts.append(re.escape(escaped or plain))
    return re.compile(b"".join(parts), re.DOTALL)


def resource_of(key: bytes) -> Resource | None:
    """Return the resource that a derived key belongs to; None for any other key."""
    if key.startswith(_ONCE):
        tagged = key.removeprefix(_ONCE)
        name = tagged[1:] if tagged.startswith(b":") else _without_braces(tagged)
        return None if _REDISSON_PY in tagged else Resource(name, "once")
    for start, family in _PREFIXES.items():
        if key.startswith(start):
            return Resource(_without_braces(key.removeprefix(start)), family)
    for end, family in _SUFFIXES.items():
        if key.endswith(end):
            tagged = key.removesuffix(end)
            # Derived from a name, it has braces; a user's own key may just end like this.
            return Resource(_without_braces(tagged), family) if b"{" in tagged else None
    return None


def resources_of(key: bytes) -> list[Resource]:
    """Return what a derived key may belong to: clients wait for a lock or for a semaphore."""
    found = resource_of(key)
    if found is None:
        return []
    waited_for: tuple[Family, ...] = ("semaphore", "permits") if key.endswith(_CLIENTS) else ()
    return [found, *(Resource(found.key, family) for family in waited_for)]


def _without_braces(tagged: bytes) -> bytes:
    """Return the key for which a derived key has this tag: it may have braces of its own."""
    inside = tagged[1:-1]
    whole = tagged.startswith(b"{") and tagged.endswith(b"}") and b"{" not in inside
    return inside if whole and inside else tagged


def is_lock_field(field: bytes) -> bool:
    """Whether a hash with this field may be a lock."""
    return field in (b"mode", *BESIDE_OWNER) or _OWNER.fullmatch(field) is not None


def is_owner(field: bytes) -> bool:
    """Whether a field of a hash is an owner."""
    return _OWNER.fullmatch(field) is not None


async def resources(
    asker: Asker, anchor: bytes, names: Names
) -> AsyncGenerator[set[Resource], None]:
    """Yield the resources of one server, some at a time; one may come twice.

    Each step is one SCAN, and one HRANDFIELD for each hash that may be a lock. Memory is needed
    for one step. A resource that is made or deleted meanwhile may come or not.

    Args:
        asker: Sends the commands.
        anchor: A key that the server serves.
        names: What is looked for.
    """
    for kind in ("hash", "zset"):
        cursor = b"0"
        while True:
            match = () if names.match is None else ("MATCH", names.match)
            cursor, keys = await asker.ask(
                anchor, "SCAN", cursor, *match, "COUNT", SCAN_COUNT, "TYPE", kind
            )
            derived = [found for key in keys for found in resources_of(key)]
            if kind == "hash":
                derived += await _locks(asker, keys, names)
            yield {found for found in derived if names.name(found.key) is not None}
            if cursor == b"0":
                break


async def _locks(asker: Asker, keys: Iterable[bytes], names: Names) -> list[Resource]:
    """Return the locks among hashes; what the user may not read is no name of theirs."""
    maybe = [
        key
        for key in keys
        if _REDISSON_PY not in key
        and not key.startswith(_ONCE_KEYS)
        and names.name(key) is not None
    ]
    fields = await asker.ask_all([_one_field(key) for key in maybe])
    for field in fields:
        if isinstance(field, ScriptError) and "to run the" in str(field):
            # Not of a key: the command is not permitted.
            raise field
    return [
        Resource(key, "lock")
        for key, field in zip(maybe, fields, strict=True)
        if isinstance(field, bytes) and is_lock_field(field)
    ]


def _one_field(key: bytes) -> Command:
    return (key, "HRANDFIELD", key)
