"""Every kind of thing that can be held, with what contract and lifecycle tests need to know.

It uses only the public API, and what a plain client sees on the servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar, cast

from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.locks.lock_like import LockLike
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.lifecycle.subjects import BESIDE_OWNERS
from tests.support.all_permits import AllPermits
from tests.support.any_client import Client
from tests.support.leases import renew_now, renewed_at_once
from tests.support.waiting import until, until_async

T = TypeVar("T")
#: Clients of Redis, or of one other store.
Clients = Sequence[Any]
#: Makes a lock or a semaphore: clients (one for each server), name, permits.
Make = Callable[[Clients, str, int], Any]
#: Makes one for one client, on the key `k`: `make(client)`, or another with `make(client, "name")`.
MakeLock = Callable[..., LockLike]


@dataclass(frozen=True)
class Kind:
    """One kind of lock or semaphore.

    Attributes:
        make: Makes one.
        rival: Makes what excludes it, if that is not another one of its kind.
        reentrant: Whether a task may acquire it again.
        semaphore: Whether it has permits instead of holds.
        units: How many permits it has if one task is to have all.
        shared: Whether several tasks can hold it at once (semaphores: with several permits).
        timed: Whether an acquire takes a `lease_time`.
        passes: Whether a hold goes from task to task of a client without a command.
        suffix: The end of the field of a holder in Redis, after the owner.
        servers: The number of servers that it uses.
        members: The number of single-server locks that it consists of.
        composite: Whether it is made of other locks, and keeps nothing of its own in Redis.
        store: The backend that keeps it.
        ends_leases: Whether the server ends a lease by time. If not, the client renews the hold
            until then, and can rely on no more than one renewal.
        fenced: Whether its leases have a fencing token.
        stay_taken: Whether a block may have a `min_hold`.
        decorates: Whether it may stand above a function.
        stored_as: Returns the key of its holders in Redis.
        shown: What another client sees in place of the owner, if the store does not keep that.
    """

    make: Make
    rival: Make | None = None
    reentrant: bool = True
    semaphore: bool = False
    units: int = 1
    shared: bool = False
    timed: bool = True
    passes: bool = True
    suffix: str = ""
    servers: int = 1
    members: int = 1
    composite: bool = False
    store: str = "redis"
    ends_leases: bool = True
    fenced: bool = False
    stay_taken: bool = True
    decorates: bool = True
    stored_as: Callable[[str], str] = str
    shown: str = ""

    def key(self, name: str = "k") -> str:
        """Return the key of the holders of a name in Redis."""
        return self.stored_as(name)

    def one(self, client: Client, name: str = "") -> Any:
        """Return one of this kind, of one permit if it has permits, on the server of a client."""
        return self.make([client], name or self.name, 1)

    @property
    def name(self) -> str:
        """The name under which tests use it.

        The fixture that looks for keys left behind knows counters by theirs.
        """
        return "semaphore" if self.semaphore else "k"

    def rival_of(self, client: Client, name: str = "") -> Any:
        """Return what cannot be acquired while one of this kind is held."""
        return (self.rival or self.make)([client], name or self.name, 1)

    def as_lock(self, client: Redisson, name: str = "k") -> LockLike:
        """Return one on the server of a client; an acquire takes all its permits, if it has any."""
        return as_lock(self.make([client], name, self.units), self)

    async def owners(self, redis: Redis, name: str = "k") -> dict[str, int]:
        """Return the hold count of each owner of a lock, as the server has it."""
        found: Any = await redis.hgetall(self.key(name))
        return {
            name.decode().removesuffix(self.suffix): int(count)
            for name, count in found.items()
            if name not in BESIDE_OWNERS
        }


def member_names(name: Any, count: int) -> list[Any]:
    """Return the names of the locks that a multi-lock `name` is made of."""
    short = name if isinstance(name, str) and len(name) < 100 else "long"
    return [name, *(f"{short}-{number}" for number in range(2, count + 1))]


def _multi(clients: Clients, name: str, _: int) -> Any:
    # The first has the name itself, so that whatever is wrong with it is found.
    locks = [clients[0].get_lock(each) for each in member_names(name, 3)]
    return clients[0].get_multi_lock(*locks)


def as_lock(made: Any, kind: Kind) -> LockLike:
    """Return what a kind made, as something of which one task at a time has all."""
    return cast("LockLike", AllPermits(made, kind.units) if kind.semaphore else made)


KINDS: dict[str, Kind] = {
    "lock": Kind(lambda clients, name, _: clients[0].get_lock(name)),
    "non_reentrant_lock": Kind(
        lambda clients, name, _: clients[0].get_lock(name, reentrant=False), reentrant=False
    ),
    "fair_lock": Kind(lambda clients, name, _: clients[0].get_fair_lock(name), passes=False),
    "fenced_lock": Kind(lambda clients, name, _: clients[0].get_fenced_lock(name), fenced=True),
    "candidate": Kind(
        lambda clients, name, _: clients[0].get_election(name)._candidate(b"value"),
        reentrant=False,
        passes=False,
        fenced=True,
        stay_taken=False,
    ),
    "read_lock": Kind(
        lambda clients, name, _: clients[0].get_read_write_lock(name).read_lock(),
        rival=lambda clients, name, _: clients[0].get_read_write_lock(name).write_lock(),
        shared=True,
        passes=False,
        stay_taken=False,
    ),
    "write_lock": Kind(
        lambda clients, name, _: clients[0].get_read_write_lock(name).write_lock(),
        suffix=":write",
        stay_taken=False,
    ),
    "multi_lock_of_three": Kind(_multi, members=3, composite=True),
    "red_lock": Kind(
        lambda clients, name, _: clients[0].get_red_lock(
            *[each.get_lock(name) for each in clients]
        ),
        servers=3,
        composite=True,
    ),
    "semaphore": Kind(
        lambda clients, name, permits: clients[0].get_semaphore(name, permits),
        semaphore=True,
        shared=True,
        timed=False,
    ),
    "expirable_semaphore": Kind(
        lambda clients, name, permits: clients[0].get_permit_expirable_semaphore(name, permits),
        semaphore=True,
        shared=True,
    ),
}


def _kinds_of(
    store: str,
    *,
    ends_leases: bool = True,
    many_tokens: bool = True,
    two_sides: bool = False,
    stay_taken: bool = False,
    ends_sides: bool = False,
) -> dict[str, Kind]:
    """Return the kinds of a store that others have as well."""
    made = {
        name: replace(KINDS[name], store=store, ends_leases=ends_leases, stay_taken=stay_taken)
        for name in ("lock", "non_reentrant_lock", "fenced_lock")
    }
    if not many_tokens:
        # A grant has one token, and each holder needs its own.
        made["fenced_lock"] = replace(made["fenced_lock"], passes=False)
    if two_sides:
        # In most stores the client ends what it holds of them.
        for name in ("read_lock", "write_lock"):
            made[name] = replace(KINDS[name], store=store, ends_leases=ends_sides)
    return {f"{name}_in_{store}": kind for name, kind in made.items()}


def _candidates_in(*stores: str) -> dict[str, Kind]:
    """Return the kinds of stores that have elections."""
    return {f"candidate_in_{store}": replace(KINDS["candidate"], store=store) for store in stores}


#: Those of other stores.
STORE_KINDS: dict[str, Kind] = {
    **_kinds_of("postgres", two_sides=True, ends_sides=True, stay_taken=True),
    "semaphore_in_postgres": replace(KINDS["semaphore"], store="postgres"),
    **_kinds_of("mysql", stay_taken=True),
    **_kinds_of("etcd", many_tokens=False, two_sides=True),
    **_candidates_in("postgres", "mysql", "etcd"),
    "candidate_in_zookeeper": replace(
        KINDS["candidate"], store="zookeeper", ends_leases=False, shown="value"
    ),
    **_kinds_of("zookeeper", ends_leases=False, many_tokens=False, two_sides=True),
    "semaphore_mutex_in_zookeeper": Kind(
        lambda clients, name, _: clients[0].get_semaphore_mutex(name),
        reentrant=False,
        store="zookeeper",
        ends_leases=False,
        stay_taken=False,
    ),
}


def _key_of_once(name: str) -> str:
    return f"redisson_py:once::{name}" if "{" in name else f"redisson_py:once:{{{name}}}"


#: What is done once, as the lock of who runs it. Cancellation and lost answers have tests of their
#: own, which also know of its record.
ONCE_KINDS: dict[str, Kind] = {
    "once": Kind(
        lambda clients, name, _: clients[0].get_once(name),
        reentrant=False,
        passes=False,
        fenced=True,
        stay_taken=False,
        decorates=False,
        stored_as=_key_of_once,
    ),
}
ONCE_KINDS["once_in_postgres"] = replace(ONCE_KINDS["once"], store="postgres")
STORES = ["redis", *dict.fromkeys(kind.store for kind in STORE_KINDS.values())]

#: Both permits at once: the number of permits that a call takes is not that of their holders.
TWO_AT_ONCE = replace(KINDS["semaphore"], units=2)

SEMAPHORES = [name for name, kind in KINDS.items() if kind.semaphore]
SHARED = [name for name, kind in KINDS.items() if kind.shared]
LOCKS = [name for name, kind in KINDS.items() if not kind.semaphore]
SINGLE = [name for name in LOCKS if KINDS[name].servers == 1]
CENTRAL = [name for name, kind in KINDS.items() if kind.servers == 1]
REENTRANT = [name for name in LOCKS if KINDS[name].reentrant]

#: One of each way in which the code of the library acquires, waits and holds. The other kinds run
#: the same code with scripts of their own, and the contract runs those.
DISTINCT = [
    *("lock", "fair_lock", "read_lock", "multi_lock_of_three", "red_lock"),
    *("semaphore", "expirable_semaphore"),
]
DISTINCT_LOCKS = [name for name in DISTINCT if not KINDS[name].semaphore]


class Party:
    """One application: clients of its own (one for each server), and what it uses.

    Attributes:
        clients: Its clients.
        thing: The lock or the semaphore. Of any type, because the semaphores' methods differ.
    """

    def __init__(self, clients: Clients, thing: Any) -> None:
        self.clients = clients
        self.thing = thing

    async def connected(self) -> Self:
        """Connect its clients first: a red lock that is tried once waits only briefly."""
        await asyncio.gather(*[each.ping() for each in self.clients])
        return self

    @property
    def held(self) -> int:
        """How many leases it holds, members of composite locks included."""
        return sum([each.statistics().held_leases for each in self.clients])

    @property
    def waiters(self) -> int:
        """How many of its tasks wait."""
        return max([int(each.statistics().waiters) for each in self.clients])

    @property
    def renewals(self) -> int:
        """The lowest number of renewals of any of its clients."""
        return min([int(each.statistics().renewals) for each in self.clients])

    def renew_now(self) -> None:
        """Have every client renew what it holds at once: a loss is found now."""
        for each in self.clients:
            renew_now(each)

    async def renewed_at_once(self, times: int = 1) -> None:
        """Have every client renew this many times, now, when it holds something."""
        # The last server of a red lock may answer after the others.
        await until(lambda: all(each.statistics().held_leases for each in self.clients))
        await asyncio.gather(*[renewed_at_once(each, times) for each in self.clients])

    async def renewed(self, times: int) -> None:
        """Return when every client has renewed `times` more."""
        renewals = self.renewals
        await until(lambda: self.renewals >= renewals + times)


class Stage:
    """Real servers, and parties that use one kind of thing on them.

    Attributes:
        kind: What is used.
        servers: A plain client of each server.
        name: The name of what is used.
    """

    def __init__(
        self, kind: Kind, clients: ClientFactory, redis: Redis, fleet: Fleet | None
    ) -> None:
        self.kind = kind
        self.servers = [redis] if fleet is None else fleet.redis[: kind.servers]
        self.name = kind.name
        self.permits = 1
        self._clients = clients
        self._fleet = fleet

    def party(self, **options: Any) -> Party:
        """Return a party that uses the thing, with new clients that have these options."""
        return self._party(self.kind.make, options)

    def rival(self, **options: Any) -> Party:
        """Return a party that cannot acquire it while another party holds it."""
        return self._party(self.kind.rival or self.kind.make, options)

    def other(self, party: Party) -> Any:
        """Return a second thing of this kind, of another name, for the clients of a party."""
        return self.kind.make(party.clients, f"{self.name}-other", 1)

    def _party(self, make: Make, options: dict[str, Any]) -> Party:
        if self._fleet is None:
            made = [self._clients(**options)]
        else:
            made = self._fleet.clients(self.kind.servers, **options)
        return Party(made, make(made, self.name, self.permits))

    async def out(self) -> int:
        """Return how many holds or permits are out, as the servers see it.

        On several servers: the greatest number that one of them has.
        """
        return max([await self._out(each) for each in self.servers])

    async def _out(self, redis: Redis) -> int:
        if self.kind.semaphore:
            free = await redis.get(self.name)
            return 0 if free is None else self.permits - int(free)
        keys = member_names(self.name, self.kind.members)
        # A hash has a field for each owner, and others.
        found: list[dict[bytes, bytes]] = [await self._hash(redis, key) for key in keys]
        return max(
            sum(int(n) for key, n in each.items() if key not in BESIDE_OWNERS) for each in found
        )

    @staticmethod
    async def _hash(redis: Redis, key: str) -> dict[bytes, bytes]:
        found: Any = await redis.hgetall(key)
        return dict(found)

    async def free(self) -> bool:
        """Whether nothing is out."""
        return await self.out() == 0

    @asynccontextmanager
    async def no_memory(self) -> AsyncIterator[None]:
        """Have the servers refuse commands that take memory, inside the block."""
        before = [await each.config_get("maxmemory") for each in self.servers]
        try:
            for each in self.servers:
                await each.config_set("maxmemory", 1)
            yield
        finally:
            for each, values in zip(self.servers, before, strict=True):
                await each.config_set("maxmemory", values["maxmemory"] or 0)

    async def wipe(self) -> None:
        """Empty the servers: whatever is held is lost."""
        for each in self.servers:
            await each.flushdb()

    async def assert_nothing_held(self, *parties: Party) -> None:
        """Fail unless the thing is free on the servers, here, and for others at once."""
        # Less than a lease: a hold that only the end of its lease frees was not released.
        clients = [client for party in parties for client in party.clients]
        shortest = min((each._context.options.lease_time for each in clients), default=30.0)
        soon = max(5.0, min(15.0, shortest / 2))
        await until(lambda: sum(party.held for party in parties) == 0, soon)
        await until_async(self.free, soon)
        lease = await self.rival().thing.acquire(timeout=10)
        await lease.release()


def reason_of(error: Any) -> str:
    """Return the reason of a `LeaseLostError`; fail if its message does not contain it."""
    assert error.reason in str(error)
    return str(error.reason)


async def in_a_task(work: Coroutine[Any, Any, T]) -> T:
    """Run something in a task of its own; return what it returns, or raise what it raises."""
    return await asyncio.create_task(work)


async def enter(block: Any) -> Any:
    """Enter a block by hand; return its lease."""
    return await block.__aenter__()


async def leave(block: Any) -> None:
    """Leave a block by hand, as after a body without an error."""
    await block.__aexit__(None, None, None)
