"""Calls of every script in states that matter; tests look at the last call of each scene."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from redisson_py._redis.commands.rate_limiter import Limit
from tests.support.scripts.any_lock import LOCKS, AnyLock
from tests.support.scripts.barrier import BarrierScripts
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, C, Scripts, ask
from tests.support.scripts.client_queue import (
    HOLDER,
    NEWCOMER,
    QueueScripts,
    WriteQueueScripts,
    X,
    Y,
    owner_of,
)
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.latch import LatchScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.once import OnceScripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.scripts.rate_limiter import RateLimiterScripts
from tests.support.scripts.read_write import LONG, ReadWriteScripts
from tests.support.scripts.unit_queue import FULL, UnitQueue, queue_up

#: Coroutines, to be awaited in their order.
Calls = tuple[Coroutine[Any, Any, Any], ...]

D = "client-d:1"
W, P, Q = (bytes([n]) * 16 for n in b"wpq")
#: A plain lease takes the short way of a script, this one the rest of it.
SLOWLY = f"00{LEASE}"
VERSION: dict[str, Any] = {"version": 7, "version_ms": TOMBSTONE}
IDLE: dict[str, Any] = {"idle_ms": TOMBSTONE}

KEPT = f"{A}:kept"

_LOCK: dict[str, Callable[[AnyLock], Calls]] = {
    "first acquire": lambda k: (k.acquire(A),),
    "first acquire, long way": lambda k: (k.acquire(A, 1, SLOWLY),),
    "re-entry": lambda k: (k.acquire(A), k.acquire(A, 2, LONG, **VERSION)),
    "busy": lambda k: (k.acquire(A), k.acquire(B)),
    "partial release": lambda k: (k.acquire(A), k.acquire(A, 2), k.release(A, 1, **VERSION)),
    "last release": lambda k: (k.acquire(A), k.release(A)),
    "last release, long way": lambda k: (k.acquire(A), k.release(A, 0, SLOWLY)),
    "undo": lambda k: (k.acquire(A), k.undo(A)),
    "undo of nothing": lambda k: (k.undo(A),),
    "forced release": lambda k: (k.acquire(A), k.force_release()),
    "renewal": lambda k: (k.acquire(A), k.renew(A, LONG)),
    "new lease": lambda k: (k.acquire(A), k.set_lease(A, LONG, **VERSION)),
}
_PLAIN: dict[str, Callable[[LockScripts], Calls]] = {
    "leave the name taken": lambda k: (
        k.acquire(A),
        k.run(
            "lock.leave_taken", A, nobody=KEPT, stays_ms=LONG, beyond_ms="7", tombstone_ms=TOMBSTONE
        ),
    ),
    "inspect": lambda k: (k.acquire(A), k.inspect()),
    "handing over": lambda k: (k.acquire(A), k.hand_over(A, LONG, **VERSION)),
    "handing over nothing": lambda k: (k.acquire(B), k.hand_over(A, LONG)),
    "adoption": lambda k: (k.acquire(A), k.hand_over(A), k.adopt(B)),
    "second adoption": lambda k: (k.acquire(A), k.hand_over(A), k.adopt(B), k.adopt(C)),
    "adoption that was undone": lambda k: (k.acquire(A), k.hand_over(A), k.undo(B), k.adopt(B)),
    "adoption that came too late": lambda k: (k.adopt(B),),
}
_FENCED: dict[str, Callable[[LockScripts], Calls]] = {
    "idle acquire": lambda k: (k.acquire_fenced(A, **IDLE, **VERSION),),
    "idle renewal": lambda k: (k.acquire_fenced(A, **IDLE), k.renew_fenced(A, LONG, **IDLE)),
    "idle handing over": lambda k: (
        k.acquire_fenced(A, **IDLE),
        k.hand_over_fenced(A, LONG, **IDLE, **VERSION),
    ),
    "idle new lease": lambda k: (
        k.acquire_fenced(A, **IDLE),
        k.set_lease_fenced(A, LONG, **IDLE, **VERSION),
    ),
}


def _three(k: FairScripts) -> Calls:
    return k.acquire(A), k.acquire(B), k.acquire(C)


def _dead_head(k: FairScripts) -> Calls:
    return *_three(k), k.die(B), k.end_lease()


_FAIR: dict[str, Callable[[FairScripts], Calls]] = {
    "leave the name taken": lambda k: (
        k.acquire(A),
        k.run(
            "fair_lock.leave_taken",
            A,
            nobody=KEPT,
            stays_ms=LONG,
            beyond_ms="7",
            tombstone_ms=TOMBSTONE,
        ),
    ),
    "joining": lambda k: (*_three(k), k.acquire(D)),
    "release to a head": lambda k: (*_three(k), k.release(A)),
    "leaving": lambda k: (*_three(k), k.leave(B)),
    "shorter lease": lambda k: (*_three(k), k.set_lease(A, LEASE // 2)),
    "acquire behind the dead": lambda k: (*_dead_head(k), k.acquire(D)),
    "undo behind the dead": lambda k: (*_dead_head(k), k.leave(D)),
    "forced release behind the dead": lambda k: (*_dead_head(k), k.force_release()),
    "inspect": lambda k: (*_three(k), k.inspect()),
}


def _two(k: ReadWriteScripts) -> Calls:
    return k.read.acquire(A), k.read.acquire(B)


_READ_WRITE: dict[str, Callable[[ReadWriteScripts], Calls]] = {
    "second reader": _two,
    "one of two readers": lambda k: (*_two(k), k.read.release(B)),
    "undo of one of two readers": lambda k: (*_two(k), k.read.undo(B)),
    "reader of its write hold": lambda k: (k.write.acquire(A), k.read.acquire(A)),
    "downgrade": lambda k: (k.write.acquire(A), k.read.acquire(A), k.write.undo(A)),
    "writer waits": lambda k: (k.read.acquire(A), k.write.acquire(B, waits=LEASE)),
    "writer gives up": lambda k: (
        k.read.acquire(A),
        k.write.acquire(B, waits=LEASE),
        k.write.undo(B),
    ),
    "reader yields": lambda k: (
        k.read.acquire(A),
        k.write.acquire(B, waits=LEASE),
        k.read.acquire(C, waits=1),
    ),
    "inspect": lambda k: (k.read.acquire(A), k.inspect()),
}


def _wait(k: QueueScripts) -> Calls:
    return k.acquire(HOLDER), k.asks(X), k.asks(Y)


_QUEUE: dict[str, Callable[[QueueScripts], Calls]] = {
    "release": lambda k: (*_wait(k), k.release(HOLDER)),
    "undo, long way": lambda k: (*_wait(k), k.release(HOLDER, 0, SLOWLY, TOMBSTONE)),
    "forced release": lambda k: (*_wait(k), k.force_release()),
    "shorter lease": lambda k: (*_wait(k), k.set_lease(HOLDER, LEASE // 2)),
    "one more asks": lambda k: (*_wait(k), k.asks(NEWCOMER)),
    "the called one comes": lambda k: (*_wait(k), k.release(HOLDER), k.asks(X)),
    "the same, long way": lambda k: (*_wait(k), k.release(HOLDER), k.asks(X, lease_ms=SLOWLY)),
    "the called one leaves": lambda k: (*_wait(k), k.release(HOLDER), k.leaves(X)),
    "a newcomer": lambda k: (*_wait(k), ask(k.redis, "DEL", k.key), k.asks(NEWCOMER, yields=1)),
}


def _reads(k: ReadWriteScripts, client: str) -> Coroutine[Any, Any, Any]:
    return k.read.acquire(owner_of(client), client=f"{client}:read")


def _writes(k: ReadWriteScripts, client: str, waits: int = 0) -> Coroutine[Any, Any, Any]:
    return k.write.acquire(owner_of(client), client=f"{client}:write", waits=waits)


def _wait_to_read(k: ReadWriteScripts) -> Calls:
    return k.write.acquire(HOLDER), _reads(k, X), _reads(k, Y), _writes(k, NEWCOMER)


def _wait_to_write(k: ReadWriteScripts) -> Calls:
    return k.read.acquire(HOLDER), _writes(k, X, LEASE), _writes(k, Y)


_SIDES: dict[str, Callable[[ReadWriteScripts], Calls]] = {
    "release to readers": lambda k: (*_wait_to_read(k), k.write.release(HOLDER)),
    "undo, long way": lambda k: (
        *_wait_to_read(k),
        k.write.release(HOLDER, 0, SLOWLY, TOMBSTONE),
    ),
    "forced release": lambda k: (*_wait_to_read(k), k.write.force_release()),
    "a called reader": lambda k: (*_wait_to_read(k), k.write.release(HOLDER), _reads(k, X)),
    "a reader that was not called": lambda k: (
        *_wait_to_read(k),
        ask(k.redis, "DEL", k.key),
        _reads(k, Y),
    ),
    "release to writers": lambda k: (*_wait_to_write(k), k.read.release(HOLDER)),
    "forced release to writers": lambda k: (*_wait_to_write(k), k.read.force_release()),
    "a called writer": lambda k: (
        *_wait_to_write(k),
        k.read.release(HOLDER),
        _writes(k, X, LEASE),
    ),
}


def _first(k: SemaphoreScripts) -> Calls:
    return k.start(5), k.acquire(A, 2)


def _owners(k: SemaphoreScripts) -> Calls:
    return *_first(k), k.acquire(B)


def _ended(k: SemaphoreScripts) -> Calls:
    return *_owners(k), k.end(A)


_SEMAPHORE: dict[str, Callable[[SemaphoreScripts], Calls]] = {
    "set": lambda k: (k.set(5, life_ms=LEASE),),
    "made by an acquire": lambda k: (k.acquire(A, start_units=5, lease_ms=SLOWLY, **IDLE),),
    "first owner": _first,
    "second owner": _owners,
    "only owner": lambda k: (*_first(k), k.release(A, had=2)),
    "only owner, long way": lambda k: (*_first(k), k.release(A, had="02", **VERSION)),
    "undo of the only owner": lambda k: (*_first(k), k.undo(A)),
    "undo of nothing": lambda k: (k.start(5), k.undo(A)),
    "partial release": lambda k: (*_first(k), k.release(A, 1, had=2, **VERSION)),
    "one of two": lambda k: (*_owners(k), k.release(A, had=2)),
    "undo of one of two": lambda k: (*_owners(k), k.undo(A)),
    "add": lambda k: (*_owners(k), k.add(2)),
    "replace": lambda k: (*_owners(k), k.set(9, replaces=1)),
    "delete": lambda k: (*_owners(k), k.remove()),
    "drain": lambda k: (*_owners(k), k.drain()),
    "look at what is over": lambda k: (*_ended(k), k.available()),
    "acquire of what is over": lambda k: (*_ended(k), k.acquire(C)),
    "drain of what is over": lambda k: (*_ended(k), k.drain()),
    "renewal": lambda k: (*_first(k), k.renew(A, LONG, **IDLE)),
    "new lease": lambda k: (*_first(k), k.set_lease(A, LONG, **IDLE, **VERSION)),
    "inspect": lambda k: (*_owners(k), k.inspect()),
}


def _ids(k: ExpirableScripts) -> Calls:
    return k.start(5), k.acquire(P + Q)


def _ended_ids(k: ExpirableScripts) -> Calls:
    return *_ids(k), k.end(Q)


_PERMITS: dict[str, Callable[[ExpirableScripts], Calls]] = {
    "set": lambda k: (k.set(5, life_ms=LEASE),),
    "made by an acquire": lambda k: (k.acquire(W, start_units=5, lease_ms=SLOWLY, **IDLE),),
    "acquire": _ids,
    "one more": lambda k: (*_ids(k), k.acquire(W)),
    "release": lambda k: (*_ids(k), k.release(P + Q)),
    "release with a receipt": lambda k: (*_ids(k), k.release(P, calls=None)),
    "undo": lambda k: (*_ids(k), k.undo(P + Q)),
    "release of all": lambda k: (*_ids(k), k.release_all(P + Q)),
    "add": lambda k: (*_ids(k), k.add(2)),
    "replace": lambda k: (*_ids(k), k.set(9, replaces=1)),
    "look at what is over": lambda k: (*_ended_ids(k), k.available()),
    "acquire of what is over": lambda k: (*_ended_ids(k), k.acquire(W)),
    "look at a lease": lambda k: (*_ended_ids(k), k.lease_left(P)),
    "update of a lease": lambda k: (*_ended_ids(k), k.update_lease(P, LONG, **IDLE, **VERSION)),
    "inspect": lambda k: (*_ids(k), k.inspect()),
}
_UNITS: dict[str, Callable[[UnitQueue], Calls]] = {
    "release": lambda k: (queue_up(k, X, Y), k.release(FULL)),
    "undo": lambda k: (queue_up(k, X, Y), k.undo(FULL)),
    "the called one comes": lambda k: (queue_up(k, X, Y), k.release(FULL), k.asks(X)),
    "the called one leaves": lambda k: (queue_up(k, X, Y), k.release(FULL), k.leaves(X)),
    "a newcomer": lambda k: (queue_up(k, X, Y), k.gives(1), k.asks(NEWCOMER, yields=1)),
}
_LATCH: dict[str, Callable[[LatchScripts], Calls]] = {
    "set": lambda k: (k.set(3),),
    "set with an end": lambda k: (k.set(3, expire_ms=LEASE),),
    "count down": lambda k: (k.set(3), k.down()),
    "count down to zero": lambda k: (k.set(1), k.down()),
    "count down of the first count": lambda k: (k.down(1, 3),),
    "look with the first count": lambda k: (k.count(3),),
    "delete": lambda k: (k.set(3), k.delete()),
}
_BARRIER: dict[str, Callable[[BarrierScripts], Calls]] = {
    "first arrival": lambda k: (k.wait("a"),),
    "sooner arrival": lambda k: (k.wait("a"), k.wait("b", lease_ms=LEASE // 2)),
    "last arrival": lambda k: (k.fill("a", "b"), k.wait("c")),
    "second look": lambda k: (k.fill("a", "b"), k.wait("a")),
    "look at the dead": lambda k: (k.fill("a", "b"), k.die("b"), k.wait("a")),
    "leave": lambda k: (k.fill("a", "b"), k.leave("a")),
    "leave without arrival": lambda k: (k.leave("a"),),
    "abort": lambda k: (k.fill("a", "b"), k.abort()),
    "reset": lambda k: (k.fill("a", "b"), k.reset()),
    "inspect": lambda k: (k.fill("a", "b"), k.look()),
}

#: What is called, by kind: how to make it, and its scenes.
_RATE_LIMITER: dict[str, Callable[[RateLimiterScripts], Calls]] = {
    "first rate": lambda k: (k.acquire((W, 1), first=Limit(5, LEASE, per_client=False)),),
    "acquire": lambda k: (k.set(), k.acquire((W, 2), (P, 1))),
    "acquire again": lambda k: (k.set(), k.acquire((W, 2)), k.acquire((P, 1))),
    "acquire of a client": lambda k: (k.set(per_client=1), k.acquire((W, 2))),
    "look": lambda k: (k.set(), k.acquire((W, 5)), k.acquire((P, 1), looks=1)),
    "undo": lambda k: (k.set(), k.acquire((W, 2)), k.undo(W, 2)),
    "new rate": lambda k: (k.set(), k.acquire((W, 2)), k.set(7)),
    "rate of none": lambda k: (k.set(replaces=0),),
    "delete": lambda k: (k.set(), k.acquire((W, 2)), k.delete()),
}
_ONCE: dict[str, Callable[[OnceScripts], Calls]] = {
    "first acquire": lambda k: (k.enter(A),),
    "acquire again": lambda k: (k.enter(A), k.enter(A)),
    "busy": lambda k: (k.enter(A), k.enter(B)),
    "acquire of what is done": lambda k: (k.enter(A), k.complete(A), k.enter(B)),
    "completion": lambda k: (k.enter(A), k.complete(A)),
    "second completion": lambda k: (k.enter(A), k.complete(A), k.complete(A)),
    "completion of what is not run": lambda k: (k.complete(A),),
    "release of what is done": lambda k: (k.enter(A), k.complete(A), k.release(A)),
    "renewal": lambda k: (
        k.enter(A),
        k.renew_fenced(A, LONG, **IDLE),
    ),
    "forget": lambda k: (k.enter(A), k.complete(A), k.forget()),
    "forget of nothing": lambda k: (k.forget(),),
    "inspect": lambda k: (k.enter(A), k.complete(A), k.look()),
}
_KINDS: list[tuple[str, Callable[[Scripts], Any], dict[str, Callable[[Any], Calls]]]] = [
    *((kind, make, _LOCK) for kind, make in LOCKS.items()),
    ("plain", LockScripts, _PLAIN),
    ("fenced", lambda s: LockScripts(s, fenced=True), _FENCED),
    ("fair", FairScripts, _FAIR),
    ("read-write", ReadWriteScripts, _READ_WRITE),
    ("queue of plain", QueueScripts, _QUEUE),
    ("queue of fenced", lambda s: QueueScripts(s, fenced=True), _QUEUE),
    ("queue of write", WriteQueueScripts, _QUEUE),
    ("queue of both sides", ReadWriteScripts, _SIDES),
    ("semaphore", SemaphoreScripts, _SEMAPHORE),
    ("permits", ExpirableScripts, _PERMITS),
    ("queue of semaphore", lambda s: UnitQueue(s, "plain"), _UNITS),
    ("queue of permits", lambda s: UnitQueue(s, "with ids"), _UNITS),
    ("latch", LatchScripts, _LATCH),
    ("barrier", BarrierScripts, _BARRIER),
    ("rate limiter", RateLimiterScripts, _RATE_LIMITER),
    ("once", OnceScripts, _ONCE),
]
SCENES: dict[str, Callable[[Scripts], Calls]] = {
    f"{kind}: {name}": lambda scripts, make=make, scene=scene: scene(make(scripts))  # type: ignore[misc]
    for kind, make, scenes in _KINDS
    for name, scene in scenes.items()
}
