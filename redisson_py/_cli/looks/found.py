"""What `inspect`, `locks` and `top` find, as values, JSON documents and words."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from redisson_py._engine.snapshots import Holding
from redisson_py._keys import waiting_clients

Kind = Literal[
    "lock",
    "fair-lock",
    "fenced-lock",
    "read-write-lock",
    "election",
    "once",
    "semaphore",
    "permit-expirable-semaphore",
    "latch",
    "latch-or-semaphore",
    "barrier",
    "rate-limiter",
]
#: The kinds that a user may name: the kind of a resource does not always follow from its keys.
KINDS: tuple[Kind, ...] = (
    "lock",
    "fair-lock",
    "fenced-lock",
    "read-write-lock",
    "election",
    "once",
    "semaphore",
    "permit-expirable-semaphore",
    "latch",
    "barrier",
    "rate-limiter",
)
#: The other kinds that a resource of a recognized kind may be.
_MAY_BE: dict[Kind, tuple[Kind, ...]] = {
    "lock": ("fair-lock", "fenced-lock"),
    # Of an election that nobody leads there is only the queue, or the last token.
    "fair-lock": ("lock", "election"),
    "fenced-lock": ("lock", "election"),
    "latch-or-semaphore": ("latch", "semaphore", "permit-expirable-semaphore"),
}


@dataclass(frozen=True, slots=True)
class Party:
    """A holder, a waiter, or a party at a barrier.

    Attributes:
        owner: The client's id and a number; of a client that waits, its id; of a permit that nobody
            describes, the id of the permit.
        holds: The hold count, or the number of units; 0 for a waiter.
        seconds_left: What is left of its lease; infinity without a lease, None if not recorded.
        mode: The side of a read-write lock.
        permit: The id of a permit that has one.
        host: The host name of its client, if that is one of this library.
        pid: Its process id, likewise.
        client_name: The name its client was given, likewise.
        waited: Seconds for which a client has waited in the queue; None if not recorded.
        called: Seconds since it was called, if it has not answered.
        state: How it has a lock: see `HolderSnapshot`.
    """

    owner: str
    holds: int = 1
    seconds_left: float | None = None
    mode: Literal["read", "write"] | None = None
    permit: str | None = None
    host: str | None = None
    pid: int | None = None
    client_name: str | None = None
    waited: float | None = None
    called: float | None = None
    state: Holding = "held"

    @property
    def client_id(self) -> str:
        """The client's part of the owner."""
        return self.owner.partition(":")[0]

    def document(self) -> dict[str, Any]:
        """Return this as JSON has it."""
        return {
            "owner": self.owner,
            "holds": self.holds,
            "seconds_left": json_seconds(self.seconds_left),
            "mode": self.mode,
            "permit": self.permit,
            "host": self.host,
            "pid": self.pid,
            "client_name": self.client_name,
            "seconds_waited": json_seconds(self.waited),
            "seconds_called": json_seconds(self.called),
            "state": self.state if self.holds else None,
        }


@dataclass(frozen=True, slots=True)
class Found:
    """A resource as Redis described it a moment ago.

    Attributes:
        name: Its name.
        key: The key of its name.
        kind: What it is, as far as its keys tell.
        holders: Its holders, or the parties that wait at a barrier; at most as many as wanted.
        holders_total: How many there are.
        waiters: The waiters that Redis knows: clients of this library that wait for a lock, owners
            in fair queues, and writers that go first.
        waiters_total: How many there are; None where Redis does not know them.
        listeners: How many connections listen on its channel; None if that cannot be read.
        channel: That channel.
        token: The last fencing token.
        value: What the leader of an election published.
        available: Free permits, or what is left of a latch; of a rate limiter the units that are
            left, None if each client has its own.
        parties: The number of parties of a barrier's round; None if nobody waits there.
        broken: Whether a barrier is broken; None for everything else.
        kept: Seconds for which the record stays that something is done once; None: it is not done.
        rate: The units of a rate limiter, and `per` the seconds in which that many are admitted.
        keys: The keys it has.
    """

    name: str
    key: bytes
    kind: Kind
    holders: tuple[Party, ...] = ()
    holders_total: int = 0
    waiters: tuple[Party, ...] = ()
    waiters_total: int | None = None
    listeners: int | None = None
    channel: bytes = b""
    token: int | None = None
    value: str | None = None
    available: int | None = None
    parties: int | None = None
    broken: bool | None = None
    kept: float | None = None
    rate: int | None = None
    per: float | None = None
    keys: tuple[bytes, ...] = ()

    @property
    def is_lock(self) -> bool:
        """Whether this is a lock of any kind, or something whose holder has one of its own."""
        return self.kind.endswith("lock") or self.kind in ("election", "once")

    @property
    def waited(self) -> float | None:
        """Seconds for which the first of the waiters has waited, if that is known."""
        return max((each.waited for each in self.waiters if each.waited is not None), default=None)

    @property
    def is_free(self) -> bool:
        """Whether nobody holds it or waits for it, nothing is wrong with it, and units are left."""
        used_up = self.rate is not None and self.available is not None and self.available <= 0
        return not (self.holders_total or self.waiters or self.broken or used_up)

    def as_kind(self, kind: Kind | None) -> Found | None:
        """Return this as the kind that the user says; None if it is of another."""
        if kind is None or kind == self.kind:
            return self
        if kind not in _MAY_BE.get(self.kind, ()):
            return None
        # A fair or fenced lock is a lock; what it is in detail is worth more.
        return self if kind == "lock" else replace(self, kind=kind)

    def waited_for_by(self, clients: Sequence[Party], total: int | None, most: int) -> Found:
        """Return this with the clients in its queue, of whom `most` are listed."""
        return replace(
            self,
            waiters=tuple(clients[:most]),
            waiters_total=max(len(clients), total or 0),
            keys=(*self.keys, *([waiting_clients(self.key)] if clients else [])),
        )

    def document(self) -> dict[str, Any]:
        """Return this as JSON has it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "key": text(self.key),
            "holders": [holder.document() for holder in self.holders],
            "holders_total": self.holders_total,
            "waiters": None
            if self.waiters_total is None
            else [waiter.document() for waiter in self.waiters],
            "waiters_total": self.waiters_total,
            "listeners": self.listeners,
            "channel": text(self.channel),
            "token": self.token,
            "value": self.value,
            "available": self.available,
            "parties": self.parties,
            "broken": self.broken,
            "kept": json_seconds(self.kept),
            "rate": self.rate,
            "per": self.per,
            "keys": [text(key) for key in self.keys],
        }


def json_seconds(seconds: float | None) -> float | None:
    """Return seconds as JSON has them: infinity is null."""
    return None if seconds is None or math.isinf(seconds) else round(seconds, 3)


def given(name: str) -> str | bytes:
    """Return a name from the command line: as bytes if it is not UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name)
    return name


def text(raw: bytes) -> str:
    """Return a key or a name as text."""
    return raw.decode(errors="backslashreplace")


def printable(words: str) -> str:
    """Return text with control characters escaped: others choose the names in it."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in words
    )


def left(seconds: float | None) -> str:
    """Return what is left of a lease, in words."""
    if seconds is None:
        return "-"
    return "no lease" if math.isinf(seconds) else f"{seconds:.1f} s"


def client(party: Party) -> str:
    """Return where a holder runs, in words; nothing if it does not say."""
    host = f"on {party.host}" if party.host else ""
    where = f"{host}, pid {party.pid}" if host and party.pid is not None else host
    return printable(" ".join(each for each in (party.client_name, where) if each))


def plural(count: int, word: str) -> str:
    """Return a number of things: "1 hold", "2 holds"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def summary(found: Found) -> str:
    """Return in a few words in which state a resource is."""
    match found.kind:
        case "lock" | "fair-lock" | "fenced-lock":
            return found.holders[0].state if found.holders else "free"
        case "election":
            return "led" if found.holders_total else "no leader"
        case "once" if found.kept is not None:
            return f"done, kept for {left(found.kept)}"
        case "once":
            return "runs" if found.holders_total else "not done"
        case "read-write-lock":
            writes = any(holder.mode == "write" for holder in found.holders)
            readers = found.holders_total - writes
            parts = ["written"] * writes + ([plural(readers, "reader")] if readers else [])
            return ", ".join(parts) or "free"
        case "semaphore" | "permit-expirable-semaphore":
            free = "no permits set" if found.available is None else f"{found.available} free"
            return f"{free}, {plural(found.holders_total, 'holder')}"
        case "latch" | "latch-or-semaphore":
            return "open" if found.available is None else f"{found.available} left"
        case "rate-limiter":
            units = "for each client" if found.available is None else f"{found.available} left"
            return f"{found.rate} per {found.per:g} s, {units}"
        case "barrier" if found.broken:
            return "broken"
        case "barrier":
            return f"{found.holders_total} of {found.parties or '?'} wait"
