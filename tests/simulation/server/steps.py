"""Random steps for two servers: calls of every script, and commands that spoil what they find."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from redisson_py import _keys
from redisson_py._redis.scripts.source import Script, load_all
from tests.simulation.server.server import Server

Command = tuple[bytes, ...]

#: What no script may take for a number, and the greatest ones that it may.
_HOSTILE = (b"", b"x", b"-1", b"1.5", b"inf", b"nan", b"1e300", b"0x10", b" 1", b"00", b"\xff\r\n")
_GREAT = (b"9007199254740991", b"9007199254740992", b"9223372036854775807", b"922337203685477")

_NAMES = {
    "lock": b"lock",
    "client_queue": b"lock",
    "fenced_lock": b"{f}enced",
    "fair_lock": b"fair",
    "read_lock": b"r}w",
    "write_lock": b"r}w",
    "read_write_lock": b"r}w",
    "semaphore": b"\xff\x00",
    "expirable_semaphore": b"exp{",
    "permit": b"exp{",
    "latch": b"latch",
    "barrier": b"barrier",
}
#: Few keys and few channels: what one step leaves another one finds.
_CHANNELS = (b"told", b"told too")
#: In the queue of clients; half of them listen.
_CLIENTS = tuple(b"client-%d" % i for i in range(8))
_SCRIPTS = load_all()
#: What is drawn for a number; what is not here has `_ANY`.
_LIVES = (1, 2, 5, 20, 30_000)
_MAYBE_LIVES = (0, 0, 0, 3, 60_000)
_ANY = (0, 1, 1, 2, 3)
_NUMBERS = {
    "holds": (0, 0, 1, 1, 1, 2, 3),
    "lease_ms": _LIVES,
    "wait_ms": (1, 5, 5_000, 300_000),
    "alive_ms": _LIVES,
    "life_ms": _MAYBE_LIVES,
    "idle_ms": _MAYBE_LIVES,
    "version_ms": _MAYBE_LIVES,
    "tombstone_ms": _MAYBE_LIVES,
    "receipt_ms": (1, 5, 60_000),
    "version": (0, 0, 0, 1, 2, 3),
    "start_units": (0, 3, 5, 20),
    "reclaims": (1, 2, 100),
    "entries": (0, 1, 100),
    "holders": (1, 2, 100),
}
#: What is drawn in most seeds instead: what was taken stays taken.
_CALM = {
    "holds": (1, 1, 1, 2),
    "lease_ms": (30_000,),
    "wait_ms": (5_000, 300_000),
    "alive_ms": (30_000,),
    "idle_ms": (60_000,),
    "tombstone_ms": (0,),
    "version": (0,),
    "places": (1,),
    "start_units": (20,),
}
#: A crowd has rules of its own: an index of readers, scores of a long queue.
_CROWDED = ("read_lock", "fair_lock", "semaphore", "expirable_semaphore", "barrier")
#: How often a script is drawn, by its verb; others once.
_WEIGHTS = {"acquire": 12.0, "wait": 12.0, "release": 4.0, "set": 2.0, "try_set_count": 2.0}
_CROWD_WEIGHTS = {**_WEIGHTS, "acquire": 30.0, "force_release": 0.05, "reset": 0.1, "delete": 0.1}


class Steps:
    """Random steps of one seed.

    Args:
        seed: What decides them.
        server: The simulated server: a few steps look at it before they are drawn.
    """

    def __init__(self, seed: int, server: Server) -> None:
        self._random = random.Random(seed)
        self._server = server
        mood = self._random.choice(("wild", "calm", "crowd"))
        count = 90 if mood == "crowd" else self._random.choice((3, 6))
        self._owners = [b"client-%d:%d" % (i % 3, i) for i in range(count)]
        self._ids = [bytes([65 + i]) * 16 for i in range(min(count, 20))]
        families = self._random.choice((1, 1, 2, len(_NAMES)))
        chosen = self._random.sample(sorted(_NAMES), families)
        if mood == "crowd":
            chosen = [self._random.choice(_CROWDED)]
        if "lock" in chosen:
            chosen.append("client_queue")
        self._scripts = [each for each in _SCRIPTS if each.name.split(".")[0] in chosen]
        weights = _CROWD_WEIGHTS if mood == "crowd" else _WEIGHTS
        self._weights = [weights.get(each.name.split(".")[1], 1.0) for each in self._scripts]
        self._spoils = self._random.choice((0.0, 0.0, 0.01) if mood == "crowd" else (0, 0.03, 0.15))
        self._numbers = _NUMBERS | ({} if mood == "wild" else _CALM)

    @property
    def channels(self) -> list[bytes]:
        """The channels on which a step may publish."""
        own = [*self._owners, *_CLIENTS[: len(_CLIENTS) // 2]]
        return [*_CHANNELS, *(b"%b:%b" % (_CHANNELS[0], each) for each in own)]

    def draw(self, count: int) -> Iterator[Command]:
        """Return so many steps; each is drawn when the one before it was played."""
        for _ in range(count):
            yield self._spoil() if self._random.random() < self._spoils else self._call()

    def _call(self) -> Command:
        (script,) = self._random.choices(self._scripts, self._weights)
        keys, args = self._batch(script) if script.is_batch else self._plain(script)
        if self._random.random() < self._spoils and keys:
            keys[self._random.randrange(len(keys))] = self._any_key()
        if self._random.random() < self._spoils and args:
            args[self._random.randrange(len(args))] = self._random.choice(_HOSTILE + _GREAT)
        return (b"EVALSHA", script.sha.encode(), b"%d" % len(keys), *keys, *args)

    def _plain(self, script: Script) -> tuple[list[bytes], list[bytes]]:
        family = script.name.split(".")[0]
        owner = self._owner(family)
        units = self._random.choice((1, 1, 2, 3))
        keys = [self._key(family, role, owner) for role in script.keys]
        return keys, [self._argument(family, name, owner, units) for name in script.args]

    def _batch(self, script: Script) -> tuple[list[bytes], list[bytes]]:
        family = script.name.split(".")[0]
        count = self._random.choice((1, 2, 5, 40))
        fields = [self._owner(family) for _ in range(count)]
        roles = {
            "permit.renew": ("permits", "counter", "counts"),
            "fenced_lock.renew": ("lock", "token"),
        }
        several = roles.get(script.name, ("lock",))
        if script.name == "permit.renew" and self._random.random() < 0.5:
            several = several[:1]
        keys = [self._key(family, role, b"") for role in several for _ in range(count)]
        plain = [self._argument(family, name, b"", 1) for name in script.args[:-1]]
        return keys, plain + fields

    def _owner(self, family: str) -> bytes:
        if family == "permit":
            return self._random.choice(self._ids)
        owner = self._random.choice(self._owners)
        return owner + b":write" if family == "write_lock" else owner

    @staticmethod
    def _key(family: str, role: str, owner: bytes) -> bytes:
        name = _NAMES[family]
        if role in ("lock", "counter", "latch"):
            return name
        made: dict[str, Callable[[], bytes]] = {
            "tombstone": lambda: _keys.tombstone(name, owner),
            "version_key": lambda: _keys.version_key(name, owner),
            "token": lambda: _keys.fencing_token(name),
            "writers": lambda: _keys.waiting_writers(name),
            "arrival": lambda: _keys.suffixed(name, b"arrival:" + owner),
        }
        return made.get(role, lambda: _keys.suffixed(name, role.encode()))()

    def _any_key(self) -> bytes:
        return self._random.choice(self._server.keys() or [b"lock"])

    def _argument(self, family: str, name: str, owner: bytes, units: int) -> bytes:
        choose = self._random.choice
        match name:
            case "owner" | "field":
                return owner
            case "needs":
                return b""
            case "client":
                return choose((b"", *_CLIENTS))
            case "channel":
                return choose(_CHANNELS)
            case "id":
                return choose(self._ids)
            case "ids":
                return b"".join(choose(self._ids) for _ in range(units))
            case "units" if family == "expirable_semaphore":
                return b"%d" % units
            case "calls":
                return b"%d" % self._random.randrange(1, 20)
            case "generation":
                present = self._server.hash(_NAMES[family]).get(b"generation", b"7")
                return choose((b"0", b"0", present))
        return b"%d" % choose(self._numbers.get(name, _ANY))

    def _spoil(self) -> Command:
        """Return a command that makes of a key what no script left there."""
        key, owner = self._any_key(), self._owner("lock")
        value = self._random.choice((b"junk", b"7", b"", *_GREAT))
        score = self._random.choice((b"inf", b"-inf", b"1.5", b"1e17", b"1e21", b"12345678901234"))
        at_ms = b"%d" % (self._server.clock() // 1000 + self._random.randrange(-5, 10))
        return self._random.choice(
            (
                (b"DEL", key),
                (b"SET", key, value),
                (b"SET", key, value, b"PX", b"3"),
                (b"HSET", key, owner, value),
                (b"HDEL", key, owner),
                (b"ZADD", key, score, owner, b"3", b"x"),
                (b"RPUSH", key, owner, b"x"),
                (b"LPOP", key),
                (b"INCRBY", key, value),
                (b"HINCRBY", key, owner, value),
                (b"PERSIST", key),
                (b"PEXPIRE", key, self._random.choice((b"1", b"2", b"30000", *_HOSTILE, *_GREAT))),
                (b"PEXPIREAT", key, at_ms),
            )
        )
