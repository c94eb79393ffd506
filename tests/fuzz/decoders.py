"""Everything that reads an answer of a server, with one value as its argument."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from redisson_py._answers import Granted
from redisson_py._engine.wakeups import Table
from redisson_py._redis.commands import (
    barrier,
    lock,
    permit_expirable_semaphore,
    plain,
    read_write_lock,
    semaphore,
)
from redisson_py._redis.commands.replies import decode, stored_number
from redisson_py._redis.scripts.source import Script, load_all
from redisson_py._redis.stream.handshake import dialect_of, is_master
from redisson_py._redis.subscriptions import Subscriptions
from redisson_py._redis.topology import choice
from redisson_py._redis.topology.confirming import count_replicas
from redisson_py._redis.topology.slots import SlotMap, read_redirect
from redisson_py.errors import BackendError
from tests.fuzz.values import WORDS, parsed, value

ASKED: Final = ("127.0.0.1", 7000)
_WAITS = Table()
_BELL = Subscriptions(_WAITS)
_WAITS.join(b"k", lambda message: message)


def _text(found: Any) -> str:
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)


def _message(found: Any) -> None:
    """Wake as many seats as there are, and no more."""
    before = _WAITS.wakeups
    _BELL.message(b"k", found if isinstance(found, bytes) else _text(found).encode())
    assert _WAITS.wakeups - before <= 1


def _named(found: Any) -> None:
    named = choice.read_named(found, [found, found])
    assert named is None or 0 < named.address[1] < 2**16


#: Each takes any value; it may raise a `BackendError`, and nothing else.
READERS: Final[dict[str, Callable[[Any], object]]] = {
    "CLUSTER SLOTS": lambda found: SlotMap.parse(found, ASKED),
    "CLUSTER SLOTS, a range": lambda found: SlotMap.parse([found], ASKED),
    "CLUSTER SLOTS, a node": lambda found: SlotMap.parse([[0, 1, found]], ASKED),
    "CLUSTER SLOTS, a host": lambda found: SlotMap.parse([[0, 1, [found, 1, b"i"]]], ASKED),
    "CLUSTER SLOTS, metadata": lambda found: SlotMap.parse([[0, 1, [b"?", 1, b"i", found]]], ASKED),
    "an error reply": lambda found: read_redirect(_text(found), ASKED),
    "MOVED": lambda found: read_redirect(f"MOVED {_text(found)} :{_text(found)}", ASKED),
    "HELLO": dialect_of,
    "HELLO, its version": lambda found: dialect_of({b"version": found}),
    "HELLO, its role": lambda found: is_master({b"role": found}),
    "SENTINEL MASTER": _named,
    "SENTINEL SENTINELS": choice.read_sentinels,
    "SENTINEL SENTINELS, one": lambda found: choice.read_sentinels([found, [b"port", found]]),
    "SENTINEL REPLICAS": choice.read_replicas,
    "+switch-master": lambda found: choice.read_switch(_text(found).encode(), "service"),
    "INFO replication": lambda found: count_replicas(_text(found)),
    "a message": _message,
    "a number in a hash": lambda found: stored_number(_text(found).encode()),
}


def read_all(random: Random) -> None:
    """Give one random value to each reader."""
    found = random.choice(WORDS) if random.random() < 0.2 else parsed(value(random))
    for name, read in READERS.items():
        try:
            read(found)
        except BackendError:
            pass
        except Exception as error:
            raise AssertionError(f"{name} with {found!r:.200}") from error


#: How the replies are read that scripts may give; other scripts' replies are numbers or rows.
_DECODED: Final[dict[str, Callable[[Any], object]]] = {
    "barrier.wait": barrier.wait_reply,
    "barrier.leave": barrier.leave_reply,
    "barrier.inspect": barrier.inspect_reply,
    "fenced_lock.acquire": lambda reply: lock.FencedLockCommands(b"k").answer(
        reply, plain._PlainRequest(b"o", 1)
    ),
    "lock.acquire": decode,
    "fair_lock.acquire": decode,
    "read_lock.acquire": decode,
    "write_lock.acquire": decode,
    "semaphore.acquire": decode,
    "expirable_semaphore.acquire": decode,
}  # fmt: skip

#: The scripts with what says which arrays they may reply, and all others.
_SCRIPTS: Final[dict[str, Script]] = {
    **{script.name: script for script in load_all()},
    **{
        script.name: script
        for module in (barrier, lock, permit_expirable_semaphore, read_write_lock, semaphore)
        for script in vars(module).values()
        if isinstance(script, Script)
    },
}


def is_taken(script: Script, reply: Any, args: object) -> bool:
    """Return whether the wire passes a reply of a script on; the same tests, in one place."""
    if reply is None:
        return script.may_be_nil
    if type(reply) is int:
        return reply >= script.least or reply in script.literals
    return script.fits(reply, args)


def decode_all(random: Random) -> None:
    """Give random replies to each script: what is passed on can be read; a grant is no accident."""
    for name, script in _SCRIPTS.items():
        found = parsed(value(random))
        if random.random() < 0.5:
            found = [
                random.choice((-9, -3, -1, 0, 1, 2, 2**62)) for _ in range(random.randrange(6))
            ]
        args = (2, b"k", b"l", 1, b"a", b"b")
        if not is_taken(script, found, args):
            continue
        assert type(found) in (int, list), (name, found)
        if script.is_batch:
            # How many there are is told by the call.
            assert len(found) == len(args) - 2 - len(script.args), (name, found)
            assert all(type(each) is int and each in (0, 1) for each in found), (name, found)
        if name in _DECODED:
            answer = _DECODED[name](found)
            # Only nil is a grant without a token, and there is no nil here.
            assert not isinstance(answer, Granted) or (found[0] == 1 and found[1] >= 0), found
