"""Clients of a server that answers whatever it likes, except that it never grants anything.

A server that lies ("granted") cannot be told from one that does not. So what stands here for a
grant or a renewal is never sent as the reply to a call that asks for one: what a client then
believes to hold, it made up from something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import hiredis

from redisson_py import Redisson, RedissonError
from redisson_py._redis.scripts.source import load_all
from tests.fuzz.values import BROKEN, WORDS, parsed, pushed, refusal, scalar, value
from tests.support.fake_peer import (
    CUT,
    HOST,
    SILENCE,
    Answer,
    Command,
    FakePeer,
    Link,
    bulk,
    confirmation,
    error,
    hello,
    message,
)
from tests.support.waiting import until

_NAMES: Final = {w.sha.encode(): script.name for script in load_all() for w in script.wordings}

#: Seconds after which a call that should have ended counts as hung.
_PATIENCE: Final = 30.0

#: More than any round needs: a client that connects, or starts tasks, without end has more.
MOST_LINKS: Final = 300
MOST_TASKS: Final = 150


def is_grant(name: str, reply: Any) -> bool:
    """Return whether a reply says that something is granted, renewed or set."""
    if name.endswith((".acquire", ".wait")):
        return reply is None or (isinstance(reply, list) and reply[:1] == [1])
    if name.endswith(".renew"):
        return isinstance(reply, list) and 1 in reply
    if name.endswith(("set_lease", "update_lease")):
        return type(reply) is int and reply != 0
    return False


@dataclass
class Hostile:
    """Answers commands.

    Attributes:
        random: Decides everything.
        friendly: Grant whatever is asked for.
        port: Where it listens, for the addresses that it announces.
    """

    random: Random
    friendly: bool = False
    port: int = 0
    cut_next: bool = False

    def __call__(self, command: Command) -> Answer:
        """Answer a command."""
        random, word = self.random, command[0].upper()
        if self.cut_next:
            self.cut_next = False
            return CUT
        if self.friendly or random.random() < 0.3:
            usual = self._usual(command, word)
            if usual is not None:
                return usual
        if word in (b"CLUSTER", b"SENTINEL") and random.random() < 0.7:
            return self._map(command)
        match random.randrange(12):
            case 0:
                return random.choice(BROKEN)
            case 1:
                return CUT
            case 2:
                return SILENCE
            case 3:
                return refusal(random)
            case 4:
                return pushed(random) * random.randrange(1, 50) + self._wrong(command)
            case 5:
                # A reply to nobody.
                return self._wrong(command) + bulk(b"more") * random.randrange(1, 4)
            case 6:
                self.cut_next = True
                return self._wrong(command)[: random.randrange(1, 6)]
            case 7:
                return message(random.choice(WORDS), random.choice(WORDS)) + self._wrong(command)
            case _:
                return self._wrong(command)

    def greet(self, command: Command) -> Answer:
        """Answer HELLO."""
        random = self.random
        match 9 if self.friendly else random.randrange(16):
            case 0:
                return random.choice(BROKEN)
            case 1:
                return CUT
            case 2:
                return value(random)
            case 3:
                return pushed(random) * random.randrange(1, 3000) + hello()
            case 4:
                return (
                    b"%2\r\n" + bulk(b"version") + scalar(random) + bulk(b"role") + scalar(random)
                )
            case _:
                return hello()

    def _usual(self, command: Command, word: bytes) -> Answer | None:
        if word.endswith(b"SUBSCRIBE"):
            return confirmation(command)
        if word == b"SCRIPT":
            return bulk(b"0" * 40)
        if word == b"EVALSHA" and self.friendly:
            name = _NAMES[command[1]]
            if name.endswith(".acquire"):
                return b"*2\r\n:1\r\n:5\r\n" if name == "fenced_lock.acquire" else b"_\r\n"
            return b"*1\r\n:1\r\n" if name.endswith(".renew") else b":1\r\n"
        return b"+PONG\r\n" if word == b"PING" else None

    def _wrong(self, command: Command) -> bytes:
        said = value(self.random)
        name = _NAMES.get(command[1], "") if len(command) > 1 else ""
        try:
            lies = is_grant(name, parsed(said))
        except (TypeError, hiredis.ProtocolError):
            lies = False
        return error("ERR it would be a grant") if lies else said

    def _map(self, command: Command) -> bytes:
        """Return a map of a cluster, or what a Sentinel says of an instance, partly wrong."""
        random = self.random

        def maybe(right: bytes) -> bytes:
            return value(random, 1) if random.random() < 0.1 else right

        port = self.port if random.random() < 0.7 else random.choice((0, 1, -1, 65536, 2**40))
        if command[0] == b"SENTINEL":
            pairs = {b"ip": b"127.0.0.1", b"port": b"%d" % port, b"config-epoch": b"9" * 30}
            fields = b"".join(maybe(bulk(each)) for pair in pairs.items() for each in pair)
            one, many = b"*6\r\n" + fields, random.choice((0, 1, 200))
            if command[1] == b"MASTER":
                return one
            if command[1] == b"GET-MASTER-ADDR-BY-NAME":
                return b"*2\r\n" + bulk(b"127.0.0.1") + maybe(bulk(b"%d" % port))
            return b"*%d\r\n" % many + one * many
        node = b"*4\r\n" + bulk(b"127.0.0.1") + maybe(b":%d\r\n" % port) + bulk(b"id") + b"*0\r\n"
        count = random.choice((1, 1, 1, 50))
        width = 16384 // count
        ranges = b"".join(
            b"*3\r\n"
            + maybe(b":%d\r\n" % (n * width))
            + maybe(b":%d\r\n" % (n * width + width - 1))
            + node
            for n in range(count)
        )
        return b"*%d\r\n" % count + ranges


#: What is called, each with a client; none of these can succeed, so that something is held.
ACQUIRES: Final[dict[str, Callable[[Redisson], Awaitable[object]]]] = {
    "lock": lambda c: c.get_lock("k").acquire(timeout=0.2),
    "fair lock": lambda c: c.get_fair_lock("k").acquire(timeout=0.2),
    "fenced lock": lambda c: c.get_fenced_lock("k").acquire(timeout=0.2),
    "read lock": lambda c: c.get_read_write_lock("k").read_lock().acquire(timeout=0.2),
    "write lock": lambda c: c.get_read_write_lock("k").write_lock().acquire(timeout=0.2),
    "semaphore": lambda c: c.get_semaphore("s", permits=2).acquire(timeout=0.2),
    "permit expirable semaphore": lambda c: c.get_permit_expirable_semaphore(
        "p", permits=2
    ).acquire(timeout=0.2),
    "barrier": lambda c: c.get_barrier("b", 2).wait(timeout=0.2),
    "two locks": lambda c: c.get_multi_lock(c.get_lock("x"), c.get_lock("y")).acquire(timeout=0.2),
}
LOOKS: Final[dict[str, Callable[[Redisson], Awaitable[object]]]] = {
    "ping": lambda c: c.ping(),
    "locked": lambda c: c.get_lock("k").locked(),
    "remaining": lambda c: c.get_lock("k").remaining(),
    "force_release": lambda c: c.get_lock("k").force_release(),
    "inspect lock": lambda c: c.get_lock("k").inspect(),
    "inspect fair lock": lambda c: c.get_fair_lock("k").inspect(),
    "inspect read": lambda c: c.get_read_write_lock("k").read_lock().inspect(),
    "read locked": lambda c: c.get_read_write_lock("k").read_lock().locked(),
    "available": lambda c: c.get_semaphore("s").available(),
    "drain": lambda c: c.get_semaphore("s").drain(),
    "inspect semaphore": lambda c: c.get_semaphore("s").inspect(),
    "inspect permits": lambda c: c.get_permit_expirable_semaphore("p").inspect(),
    "permits": lambda c: c.get_permit_expirable_semaphore("p").available(),
    "count": lambda c: c.get_latch("l").count(),
    "count_down": lambda c: c.get_latch("l").count_down(),
    "set count": lambda c: c.get_latch("l").try_set_count(2),
    "barrier broken": lambda c: c.get_barrier("b", 2).broken(),
    "reset": lambda c: c.get_barrier("b", 2).reset(),
}


async def _ends(what: str, call: Awaitable[object]) -> bool:
    """Await a call; return whether it succeeded. Only our errors are errors."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await call
    except RedissonError:
        return False
    except TimeoutError:
        raise AssertionError(f"{what} hangs") from None
    return True


async def play(seed: int, scheme: str = "redis") -> int:
    """Play one round; return how many commands the server got. Raises `AssertionError`."""
    random, loop = Random(seed), asyncio.get_running_loop()
    hostile = Hostile(random)
    unhandled: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    before = len(asyncio.all_tasks())
    async with FakePeer() as peer:
        hostile.port = int(peer.url.rpartition(":")[2])
        peer.otherwise, peer.greeting = hostile, hostile.greet
        url = peer.url.replace("redis://", f"{scheme}://")
        client = Redisson.from_url(
            url + ("/service" if "sentinel" in scheme else ""),
            command_timeout=0.2,
            lease_time=0.6,
            # Whatever it names, nothing else on this machine is spoken to.
            address_map=None if scheme == "redis" else lambda host, port: (HOST, hostile.port),
        )
        try:
            held = await _held(client, hostile) if scheme == "redis" else None
            for what in random.sample([*ACQUIRES], 3):
                assert not await _ends(what, ACQUIRES[what](client)), f"{what} was granted"
            for what in random.sample([*LOOKS], 3):
                await _ends(what, LOOKS[what](client))
            tasks = len(asyncio.all_tasks())
            if held is not None:
                # No renewal was confirmed: it ends with its lease, or before.
                await until(lambda: held.lost or held.remaining <= 0)
        finally:
            await _ends("aclose", client.aclose())
        assert tasks <= before + MOST_TASKS, f"{tasks} tasks"
        assert len(peer.links) <= MOST_LINKS, f"{len(peer.links)} connections"
        commands = len(peer.commands)
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) <= before, asyncio.all_tasks()
    # The peer has no answer to the first bytes of TLS, which a client tries.
    ours = [each for each in unhandled if not isinstance(each.get("protocol"), Link)]
    assert not ours, ours
    return commands


async def _held(client: Redisson, hostile: Hostile) -> Any:
    """Acquire a lock while the server is friendly, which it is not from then on."""
    hostile.friendly = True
    # With more time than the client allows a command: a busy machine may need it to connect.
    lease = await client.get_lock("held").acquire(timeout=_PATIENCE)
    hostile.friendly = False
    return lease
