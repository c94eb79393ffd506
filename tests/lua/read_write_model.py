"""What the scripts of a read-write lock promise, as a plain model, and the server to compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import redis as redis_py

from redisson_py import _keys
from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts.source import load
from tests.support.scripts.read_write import Side

UNIT = 1_000_000
#: Longer than any run.
FOR_EVER = 1000
KEY = b"rw"
WRITERS = _keys.waiting_writers(KEY)
CLIENTS = _keys.waiting_clients(KEY)
CHANNEL = b"redisson_rwlock:{rw}"


@dataclass(frozen=True)
class Step:
    """One question, as it is sent."""

    verb: str
    side: Side
    owner: str
    holds: int = 0
    lease: int = 1
    tombstone: bool = False

    @property
    def mark(self) -> str:
        return self.owner if self.side == "read" else self.owner + ":write"


@dataclass
class Model:
    """What the headers of the scripts promise.

    Attributes:
        now: The time, in units.
        counts: Hold counts by mark.
        leases: When each hold of each reader ends.
        ends: When the lock ends.
        gone: The marks with a tombstone.
    """

    now: int = 0
    mode: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    leases: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: int = 0
    gone: set[str] = field(default_factory=set)

    def take(self, step: Step) -> str:
        """Do a step; return what the caller is told."""
        reply: str = getattr(self, step.verb)(step)
        if step.tombstone:
            self.gone.add(step.mark)
        return reply

    def acquire(self, step: Step) -> str:
        count = self.counts.get(step.mark, 0)
        if step.side == "read" and not self.living(step.mark):
            count = 0
        if step.holds > 1 and not count:
            return "lost"
        reads = step.side == "read" and self.mode == "read"
        downgrades = step.side == "read" and step.owner + ":write" in self.counts
        if not (self.mode is None or count or reads or downgrades):
            return "busy"
        if not count and step.mark in self.gone:
            return "void"
        until = self.now + step.lease
        if self.mode is None:
            self.mode, self.ends = step.side, until
        self.ends = max(self.ends, until)
        self.counts[step.mark] = max(count, step.holds)
        if step.side == "read":
            hold = step.mark, step.holds
            repeated = step.holds <= count
            self.leases[hold] = max(self.leases.get(hold, 0), until) if repeated else until
        return "granted"

    def release(self, step: Step) -> str:
        count = self.counts.get(step.mark)
        if count is None:
            return "nothing"
        holds, until = min(step.holds, count), self.now + step.lease
        self.counts[step.mark] = holds
        for number in range(1, count + 1):
            if number > holds:
                self.leases.pop((step.mark, number), None)
            elif step.side == "read":
                self.leases[step.mark, number] = until
        if step.side == "write" and holds:
            self.ends = max(until, self.needed())
        elif step.side == "write":
            self.mode, self.ends = "read", self.needed()
        elif self.mode == "read":
            self.ends = self.needed()
        else:
            self.ends = max(self.ends, self.needed())
        if not holds:
            del self.counts[step.mark]
        self.end_what_has_ended()
        return "released"

    def renew(self, step: Step) -> str:
        until = self.now + step.lease
        if step.mark not in self.counts or (step.side == "read" and not self.living(step.mark)):
            return "nothing"
        for hold in self.living(step.mark):
            self.leases[hold] = max(self.leases[hold], until)
        self.ends = max(self.ends, until)
        return "set"

    def set_lease(self, step: Step) -> str:
        until = self.now + step.lease
        if step.mark not in self.counts or (step.side == "read" and not self.living(step.mark)):
            return "nothing"
        for hold in self.living(step.mark):
            self.leases[hold] = until
        if step.side == "write":
            self.ends = max(until, self.needed())
        else:
            self.ends = max(self.needed(), self.ends if self.mode == "write" else 0)
        return "set"

    def force_release(self, step: Step) -> str:
        if self.mode != step.side:
            return "nothing"
        self.mode, self.counts = None, {}
        return "released"

    def wait(self, units: int) -> None:
        self.now += units
        self.leases = {hold: end for hold, end in self.leases.items() if end > self.now}
        self.end_what_has_ended()

    def end_what_has_ended(self) -> None:
        if self.ends <= self.now:
            self.mode, self.counts = None, {}

    def living(self, *marks: str) -> list[tuple[str, int]]:
        """Return the holds of readers that count; a forced release leaves others behind."""
        return [
            hold
            for hold in self.leases
            if hold[1] <= self.counts.get(hold[0], 0) and hold[0] in (marks or self.counts)
        ]

    def needed(self) -> int:
        return max((self.leases[hold] for hold in self.living()), default=0)


class Server:
    """The real scripts on a real server, with time under control.

    Args:
        redis: The server.
    """

    def __init__(self, redis: redis_py.Redis) -> None:
        self.redis: Any = redis
        self.modern = int(self.redis.info("server")["redis_version"].split(".")[0]) >= 7

    def take(self, step: Step) -> str:
        mark, lease_ms = step.mark, step.lease * UNIT
        version_key = _keys.version_key(KEY, mark)
        match step.verb:
            case "acquire":
                args = [_keys.tombstone(KEY, mark), version_key, WRITERS, CLIENTS, mark, step.holds]
                args += [lease_ms, 0, 0, 0, CHANNEL, "", "", 0]
                reply = self._run(f"{step.side}_lock.acquire", 5, *args)
                return {None: "granted", -2: "lost", -3: "void"}.get(reply, "busy")
            case "release":
                tombstone_ms = FOR_EVER * UNIT if step.tombstone else 0
                keys = [_keys.tombstone(KEY, mark), version_key]
                args = [mark, step.holds, lease_ms, CHANNEL, tombstone_ms, 0, 0]
                if step.side == "write":
                    keys, args = [*keys, WRITERS], [*args, 0]
                keys.append(CLIENTS)
                reply = self._run(f"{step.side}_lock.release", 1 + len(keys), *keys, *args)
                return "nothing" if reply is None else "released"
            case "renew":
                name = "read_lock.renew" if step.side == "read" else "lock.renew"
                (reply,) = self._run(name, 1, lease_ms, mark)
            case "set_lease":
                args = [version_key, CLIENTS, mark, lease_ms, 0, 0, CHANNEL]
                reply = self._run(f"{step.side}_lock.set_lease", 3, *args)
            case _:
                self.redis.delete(b"receipt")
                args = [b"receipt", CLIENTS, CHANNEL, 60000]
                reply = self._run(f"{step.side}_lock.force_release", 3, *args)
                return "released" if reply else "nothing"
        return "set" if reply else "nothing"

    def wait(self, units: int) -> None:
        """Move every expiry nearer."""
        for key in self.redis.keys("*"):
            left = self.redis.pttl(key) - units * UNIT
            # What is left of a unit is the time that really passed.
            self.redis.pexpire(key, left) if left > 0 else self.redis.delete(key)

    def state(self) -> tuple[dict[str, str], dict[bytes, int], int]:
        """Return the hash, what is left of readers' holds, and what is left of it; in units."""
        left = {key: self.units(key) for key in self.redis.keys("*:rwlock_timeout:*")}
        found = self.redis.hgetall(KEY).items()
        return {f.decode(): v.decode() for f, v in found}, left, self.units(KEY)

    def units(self, key: bytes) -> int:
        left: int = self.redis.pttl(key)
        return round(max(0, left) / UNIT)

    def _run(self, name: str, keys: int, *args: object) -> Any:
        script = load(name)
        text = script.wordings[Dialect.MODERN if self.modern else Dialect.PLAIN].text
        return self.redis.eval(text, keys, KEY, *args)


def hold_key(mark: str, number: int) -> bytes:
    return b"{rw}:%b:rwlock_timeout:%d" % (mark.encode(), number)
