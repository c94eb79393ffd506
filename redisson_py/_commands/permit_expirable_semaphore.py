"""The scripts of `lua/expirable_semaphore`: a counter, and a sorted set of permit ids.

An id consists of the client's id (ten bytes) and the number of the acquisition (six bytes).
Permits that are taken together have consecutive numbers. Where a late repetition is to be refused,
the owner of the first permit stands for all of them.
"""

from __future__ import annotations

import uuid
from typing import Any

from redisson_py import _keys
from redisson_py._answers import Answer, Change
from redisson_py._commands.client_queue import UnitQueue, look
from redisson_py._commands.needs import needs
from redisson_py._commands.replies import ALONE, decode, others
from redisson_py._commands.request import RECEIPT_MS, Field, Wish, changed
from redisson_py._commands.semaphore import RECLAIMS, RENEW, SET_LEASE, UNITS_IN_QUEUE
from redisson_py._commands.wakes import permit_wakes
from redisson_py._owner import client_id_of, numbered
from redisson_py._scripts import source
from redisson_py._scripts.shapes import array, text, whole
from redisson_py._scripts.source import Arg, Script

ACQUIRE = source.load("expirable_semaphore.acquire", UNITS_IN_QUEUE)
ADD = source.load("expirable_semaphore.add")
AVAILABLE = source.load("expirable_semaphore.available", array(whole(), whole(0)))
INSPECT = source.load("expirable_semaphore.inspect", look((text, whole(0)), (text, whole(-1))))
LEASE_LEFT = source.load("expirable_semaphore.lease_left")
RELEASE = source.load("expirable_semaphore.release")
RELEASE_ALL = source.load("expirable_semaphore.release_all")
SET = source.load("expirable_semaphore.set")
UPDATE_LEASE = source.load("expirable_semaphore.update_lease")

#: The most permits that one script takes or gives back.
MOST_AT_ONCE = 10_000

_CLIENT_BYTES = 10
_NUMBER_BYTES = 6


def permit_id(owner: str) -> bytes:
    """Return the id of the permit of an owner."""
    client_id, _, number = owner.rpartition(":")
    return uuid.UUID(client_id).bytes[:_CLIENT_BYTES] + int(number).to_bytes(_NUMBER_BYTES)


def owner_of(permit: bytes) -> str:
    """Return the owner of a permit, if a client of this library made its id."""
    number = int.from_bytes(permit[_CLIENT_BYTES:])
    return numbered(client_id_of(permit[:_CLIENT_BYTES]), number)


def batch_of(owner: str, units: int) -> list[str]:
    """Return the owners of permits that are taken together, from the owner of the first."""
    client_id, _, number = owner.rpartition(":")
    return [numbered(client_id, int(number) + place) for place in range(units)]


class PermitExpirableSemaphoreCommands:
    """A semaphore whose permits have ids.

    Args:
        key: The key of the counter.
        start_units: How many units the first request creates it with; below zero: it creates
            nothing.
        idle_ms: How long it is kept after the last lease; 0: forever, or as it was created.
    """

    kind = "permit expirable semaphore"
    acquire_script: Script = ACQUIRE
    release_script: Script = RELEASE
    set_lease_script: Script = SET_LEASE
    renew_script: Script = RENEW
    alone = ALONE
    others = staticmethod(others)
    queues = False
    shares_lease = False
    leaves_traces = False
    plain = None
    passes = False
    """An id is for one acquisition only."""
    records_all = True
    missing = (
        "Some permits are neither free nor taken. If nobody removed them, Redis has lost records:"
        " call set_permits"
    )

    def __init__(self, key: bytes, start_units: int, idle_ms: int = 0) -> None:
        self.key = key
        self.start_units = start_units
        self.idle_ms = idle_ms
        self.channel: bytes = _keys.permit_channel(key)
        self._permits = _keys.suffixed(key, b"timeout")
        self._clients = _keys.waiting_clients(key)
        self._tombstones = _keys.tombstone(key, "")
        self._versions = _keys.version_key(key, "")
        self.options: tuple[int, int] = (start_units, idle_ms)

    @property
    def clients(self) -> UnitQueue:
        """The queue of the clients that wait for it."""
        return self.clients_for(1)

    def clients_for(self, units: int) -> UnitQueue:
        """Return that queue, for one that wants so many units."""
        # A client may wait for the plain semaphore of this name as well.
        return UnitQueue(self.key, self.channel, b":permit", units)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this semaphore."""
        return (self.key, self._permits)

    @property
    def renewal_keys(self) -> tuple[bytes, ...]:
        """The keys that a renewal needs."""
        return (self._permits, self.key, self._permits)

    @property
    def renewal_values(self) -> dict[str, int]:
        """The arguments of a renewal beside the lease."""
        return {"idle_ms": self.idle_ms}

    def request_channel(self, owner: str) -> bytes:
        """Return the channel on which a request of this owner hears of a release."""
        return self.channel

    @staticmethod
    def wakes(message: int) -> int:
        """Return how many waiters a message is for."""
        return permit_wakes(message)

    def field(self, owner: str) -> bytes:
        """Return the name of an owner's permit in Redis."""
        return permit_id(owner)

    def owner(self, field: bytes) -> str:
        """Return the owner from the name of a permit in Redis."""
        return owner_of(field)

    def fields(self, owner: str, units: int) -> list[tuple[bytes, int]]:
        """Return field and units of each hold that a request of `units` gets."""
        return [(permit_id(each), 1) for each in batch_of(owner, units)]

    def permit_text(self, field: bytes) -> str:
        """Return the id of a permit as users see it."""
        return field.hex()

    def acquire(self, wish: Wish) -> bytes:
        """Return the arguments of the script that asks for permits."""
        return ACQUIRE.bind(
            counter=self.key,
            permits=self._permits,
            tombstone=self._tombstones + wish.owner.encode(),
            ids=b"".join(map(permit_id, batch_of(wish.owner, wish.target))),
            units=wish.target,
            lease_ms=wish.lease_ms,
            start_units=self.start_units,
            reclaims=RECLAIMS,
            channel=self.channel,
            idle_ms=self.idle_ms,
            needs=needs(self, wish),
            compares=wish.compares,
            clients=self._clients,
            client=wish.client,
            yields=wish.yields,
        )

    def answer(self, reply: Any, wish: Wish) -> Answer:
        """Return what the reply to `acquire` means."""
        return decode(reply)

    def release(
        self,
        hold: Field,
        target: int,
        lease_ms: int,
        late: bool,
        change: Change | None,
    ) -> bytes:
        """Return the arguments of the script that gives a permit back."""
        return self._release([hold.owner], hold.batch or hold.owner, late)

    def undo(self, wish: Wish, late: bool, change: Change | None) -> bytes:
        """Return the arguments of the script that gives back what a request may have acquired."""
        return self._release(batch_of(wish.owner, wish.target), wish.owner, late)

    def _release(self, owners: list[str], batch: str, late: bool) -> bytes:
        tombstone = self._tombstones + batch.encode()
        return RELEASE.bind(
            counter=self.key,
            permits=self._permits,
            tombstone=tombstone,
            # Without calls there is no receipt.
            receipt=tombstone,
            clients=self._clients,
            ids=b"".join(map(permit_id, owners)),
            units=len(owners),
            channel=self.channel,
            tombstone_ms=RECEIPT_MS if late else 0,
            calls=0,
            receipt_ms=RECEIPT_MS,
        )

    def was_lost(self, reply: int | None) -> bool:
        """Return whether a final release did not find its hold in force."""
        return not reply

    def set_lease(self, hold: Field, lease_ms: int, change: Change | None) -> bytes:
        """Return the arguments of the script that sets the lease of a permit of ours."""
        return SET_LEASE.bind(
            permits=self._permits,
            version_key=self._versions + hold.owner.encode(),
            counter=self.key,
            counts=self._permits,
            clients=self._clients,
            field=hold.field,
            lease_ms=lease_ms,
            **changed(change),
            idle_ms=self.idle_ms,
            channel=self.channel,
        )

    # Permits by id, whatever their owner.

    def release_id(self, permit: bytes) -> tuple[Script, dict[str, Arg]]:
        """Return what gives back one permit."""
        return RELEASE, {
            "counter": self.key,
            "permits": self._permits,
            "clients": self._clients,
            "tombstone": self._tombstones,
            "ids": permit,
            "units": 1,
            "channel": self.channel,
            "tombstone_ms": 0,
        }

    def release_ids(self, permits: list[bytes]) -> tuple[Script, dict[str, Arg]]:
        """Return what gives back all of these permits, or none."""
        return RELEASE_ALL, {
            "counter": self.key,
            "permits": self._permits,
            "clients": self._clients,
            "ids": b"".join(permits),
            "units": len(permits),
            "reclaims": RECLAIMS,
            "channel": self.channel,
        }

    def update_lease(self, permit: bytes, client_id: str, lease_ms: int, version: int) -> bytes:
        """Return the arguments of the script that sets the lease of a permit of any owner."""
        return UPDATE_LEASE.bind(
            counter=self.key,
            permits=self._permits,
            version_key=self._versions + f"{client_id}:{permit.hex()}".encode(),
            clients=self._clients,
            id=permit,
            lease_ms=lease_ms,
            reclaims=RECLAIMS,
            channel=self.channel,
            version=version,
            version_ms=RECEIPT_MS,
            idle_ms=self.idle_ms,
        )

    def lease_left(self, permit: bytes) -> bytes:
        """Return the arguments of the script that returns what is left of a permit's lease."""
        return LEASE_LEFT.bind(
            counter=self.key,
            permits=self._permits,
            clients=self._clients,
            id=permit,
            reclaims=RECLAIMS,
            channel=self.channel,
        )

    # Counts.

    def available(self) -> bytes:
        """Return the arguments of the script that counts what is free, and what is taken."""
        return AVAILABLE.bind(
            counter=self.key,
            permits=self._permits,
            clients=self._clients,
            reclaims=RECLAIMS,
            channel=self.channel,
        )

    def make(self, units: int) -> tuple[Script, dict[str, Arg]]:
        """Return what creates the semaphore unless it exists."""
        return self.set(units, replaces=0)

    def set(self, units: int, replaces: int) -> tuple[Script, dict[str, Arg]]:
        """Return what creates the semaphore, or sets how many permits it has."""
        return SET, {
            "counter": self.key,
            "permits": self._permits,
            "clients": self._clients,
            "units": units,
            "life_ms": self.idle_ms,
            "replaces": replaces,
            "reclaims": RECLAIMS,
            "channel": self.channel,
        }

    def add(self, units: int) -> tuple[Script, dict[str, Arg]]:
        """Return what adds units; the number may be negative."""
        return ADD, {
            "counter": self.key,
            "permits": self._permits,
            "clients": self._clients,
            "units": units,
            "channel": self.channel,
        }

    def inspect(self) -> bytes:
        """Return the arguments of the script that shows the first holders."""
        return INSPECT.bind(
            counter=self.key,
            permits=self._permits,
            clients=self._clients,
            holders=RECLAIMS,
        )
