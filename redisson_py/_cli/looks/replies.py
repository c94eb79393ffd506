"""Decodes the server's replies to commands that read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from redisson_py import ScriptError, _keys
from redisson_py._cli.looks.found import Party, text
from redisson_py._redis.commands.client_queue import client_of
from redisson_py._redis.commands.read_write_lock import WRITE_SUFFIX

#: The score of a permit that never ends.
_NEVER = 922337203685477
_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")
#: How many leases are read of a reader that re-entered.
_READER_HOLDS = 10


def readable(reply: Any) -> Any:
    """Return a reply; None for a key of another type.

    Raises:
        ScriptError: The command is not permitted.
    """
    if not isinstance(reply, ScriptError):
        return reply
    if "WRONGTYPE" in str(reply):
        return None
    raise reply


def is_key_refused(reply: Any) -> bool:
    """Whether the user may run the command, and not on this key."""
    return isinstance(reply, ScriptError) and "NOPERM" in str(reply) and "to run" not in str(reply)


def holders(fields: dict[bytes, bytes], mode: bytes | None, lease: float) -> Iterable[Party]:
    """Yield the holders of a lock, with the side that they are on if it has a mode."""
    for field, count in fields.items():
        owner = text(field)
        side: Literal["read", "write"] | None = None
        if mode is not None:
            side = "write" if owner.endswith(WRITE_SUFFIX) else "read"
        yield Party(owner.removesuffix(WRITE_SUFFIX), integer(count) or 0, lease, side)


def lease_keys(key: bytes, reader: Party) -> list[bytes]:
    """Return the keys whose expiries are the leases of a reader's holds, the newest of many."""
    if reader.mode != "read":
        return []
    stem = _keys.suffixed(key, reader.owner.encode() + b":rwlock_timeout:")
    first = max(1, reader.holds - _READER_HOLDS + 1)
    return [stem + b"%d" % number for number in range(first, reader.holds + 1)]


def seconds(milliseconds: int | None) -> float:
    """Return a PTTL in seconds: infinity without an expiry, negative without a key."""
    if milliseconds is None or milliseconds == -2:
        return -1.0
    return float("inf") if milliseconds == -1 else milliseconds / 1000


def until(ends_at: float, time: list[bytes]) -> float:
    """Return the seconds from the server's time to a moment in ms."""
    if ends_at >= _NEVER:
        return float("inf")
    return max(0.0, (ends_at - milliseconds(time)) / 1000)


def waiting_clients(rows: list[Any], time: list[bytes]) -> list[Party]:
    """Return the clients in a queue.

    See lua/lib/front: scores are microseconds, negative where they say when a client was called.
    For `<` see lua/lib/wake_foreign, for smaller scores lua/lib/sides_front.
    """
    present = int(time[0]) * 1_000_000 + int(time[1])
    called: dict[bytes, float] = {}
    found: list[Party] = []
    for member, score in pairs(rows):
        moment = score + 1.5e15 if 0 < score < 1.5e15 else abs(score)
        since = max(0.0, (present - moment) / 1e6)
        if member.startswith(b">"):
            called[member[1:]] = since
        elif not member.startswith(b"<"):
            owner = client_of(member)
            found.append(Party(owner, 0, waited=since, called=called.get(member)))
    return found


def want_permits(free: bytes | None, clients: list[Any] | None, *, ids: bool) -> bool:
    """Return whether clients wait for permits with ids, or for those of a plain semaphore.

    At a key that is no counter there is nothing to wait for.
    """
    named = [member for member, _ in pairs(clients or []) if not member.startswith((b">", b"<"))]
    return integer(free) is not None and any((b":permit" in each) is ids for each in named)


def milliseconds(time: list[bytes]) -> int:
    """Return the server's time in ms."""
    return int(time[0]) * 1000 + int(time[1]) // 1000


def pairs(rows: list[Any]) -> list[tuple[bytes, float]]:
    """Return members with their scores, from a reply in RESP2 or RESP3."""
    if rows and not isinstance(rows[0], list):
        rows = list(zip(rows[::2], rows[1::2], strict=True))
    return [(member, float(score)) for member, score in rows]


def integer(raw: bytes | None) -> int | None:
    """Return an integer as Redis writes it; None if it is none."""
    if raw is None or not _INTEGER.fullmatch(raw) or abs(int(raw)) >= 1 << 63:
        return None
    return int(raw)


def description(said: Any) -> dict[str, Any]:
    """Return what a client says of itself; nothing if it cannot be read."""
    try:
        known = json.loads(said)
        host, pid, name = (known.get(each) for each in ("host", "pid", "client_name"))
        return {
            "host": None if host is None else str(host),
            "pid": None if pid is None else int(pid),
            "client_name": None if name is None else str(name),
        }
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return {}
