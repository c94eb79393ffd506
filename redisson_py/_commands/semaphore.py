"""The scripts of `lua/semaphore` and `lua/permit`: a counter, and its holders beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redisson_py import _keys
from redisson_py._answers import Answer, Change
from redisson_py._commands.client_queue import UnitQueue, look
from redisson_py._commands.needs import needs
from redisson_py._commands.replies import ALONE, decode, others
from redisson_py._commands.request import RECEIPT_MS, Field, Wish, changed
from redisson_py._commands.wakes import permit_wakes
from redisson_py._scripts import source
from redisson_py._scripts.shapes import array, text, whole
from redisson_py._scripts.source import Arg, Script

if TYPE_CHECKING:
    from redisson_py._commands.plain import PlainCalls

#: The busy reply to a client in the queue of clients: see `in_queue`.
UNITS_IN_QUEUE = array(whole(-1), whole(0, 2), whole(0, 1), whole(-5, 0))
ACQUIRE = source.load("semaphore.acquire", UNITS_IN_QUEUE)
ADD = source.load("semaphore.add")
AVAILABLE = source.load("semaphore.available")
DELETE = source.load("semaphore.delete")
DRAIN = source.load("semaphore.drain")
INSPECT = source.load("semaphore.inspect", look((text, whole(0)), (text, text, whole(0))))
RELEASE = source.load("semaphore.release")
SET = source.load("semaphore.set")

RENEW = source.load("permit.renew")
SET_LEASE = source.load("permit.set_lease")

#: How many permits of dead holders one script gives back, and how many holders `inspect` lists.
RECLAIMS = 100


class SemaphoreCommands:
    """A semaphore whose units have an owner, but no id.

    Args:
        key: The key of the counter.
        start_units: How many units the first request creates it with; below zero: it creates
            nothing.
        idle_ms: How long it is kept after the last lease; 0: forever, or as it was created.
    """

    kind = "semaphore"
    acquire_script: Script = ACQUIRE
    release_script: Script = RELEASE
    set_lease_script: Script = SET_LEASE
    renew_script: Script = RENEW
    alone = ALONE
    others = staticmethod(others)
    queues = False
    shares_lease = False
    # Redisson's clients do not look for permits of holders that lost their lease.
    leaves_traces = True
    passes = True
    """A hold may go from task to task here without Redis."""
    records_all = False
    """Whether Redisson's clients record what they take as well."""
    missing = (
        "No client of this library holds a permit, and too few are free. If Redisson's clients"
        " hold none either, Redis has lost records: call set_permits"
    )
    """What the timeout error adds if our clients hold no permits and too few are free."""

    def __init__(self, key: bytes, start_units: int, idle_ms: int = 0) -> None:
        self.key = key
        self.start_units = start_units
        self.idle_ms = idle_ms
        self.plain: PlainCalls | None = None

    @property
    def options(self) -> tuple[int, int]:
        """The arguments of the constructor after the key."""
        return (self.start_units, self.idle_ms)

    @property
    def channel(self) -> bytes:
        """Where permits that became free are announced."""
        return _keys.permit_channel(self.key)

    @property
    def clients(self) -> UnitQueue:
        """The queue of the clients that wait for it."""
        return self.clients_for(1)

    def clients_for(self, units: int) -> UnitQueue:
        """Return that queue, for one that wants so many units."""
        return UnitQueue(self.key, self.channel, units=units)

    @property
    def _clients(self) -> bytes:
        return _keys.waiting_clients(self.key)

    @property
    def _permits(self) -> bytes:
        return _keys.suffixed(self.key, b"redisson_py:permits")

    @property
    def _counts(self) -> bytes:
        return _keys.suffixed(self.key, b"redisson_py:units")

    @property
    def _total(self) -> bytes:
        return _keys.suffixed(self.key, b"redisson_py:total")

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this semaphore."""
        return (self.key, self._permits, self._counts, self._total)

    @property
    def renewal_keys(self) -> tuple[bytes, ...]:
        """The keys that a renewal needs."""
        return (self._permits, self.key, self._counts)

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

    #: Returns the name of an owner's permit in Redis.
    field: staticmethod[[str], bytes] = staticmethod(str.encode)

    def owner(self, field: bytes) -> str:
        """Return the owner from the name of a permit in Redis."""
        return field.decode()

    def fields(self, owner: str, units: int) -> list[tuple[bytes, int]]:
        """Return field and units of each hold that a request of `units` gets."""
        return [(owner.encode(), units)]

    def permit_text(self, field: bytes) -> str:
        """Return the id of a permit as users see it."""
        return field.decode()

    def acquire(self, wish: Wish) -> bytes:
        """Return the arguments of the script that asks for units."""
        owner = wish.owner.encode()
        return ACQUIRE.bind(
            counter=self.key,
            permits=self._permits,
            counts=self._counts,
            tombstone=_keys.tombstone(self.key, owner),
            total=self._total,
            owner=owner,
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
        """Return the arguments of the script that lowers the units of an owner, to 0 in the end."""
        return self._release(hold.field, target, hold.units, late, change)

    def undo(self, wish: Wish, late: bool, change: Change | None) -> bytes:
        """Return the arguments of the script that gives back what a request may have acquired."""
        field = wish.owner.encode()
        return self._release(field, 0, wish.target, late, change)

    def _release(
        self, field: bytes, units: int, had: int, late: bool, change: Change | None
    ) -> bytes:
        return RELEASE.bind(
            counter=self.key,
            permits=self._permits,
            counts=self._counts,
            tombstone=_keys.tombstone(self.key, field),
            version_key=_keys.version_key(self.key, field),
            clients=self._clients,
            owner=field,
            units=units,
            had_units=had,
            channel=self.channel,
            tombstone_ms=RECEIPT_MS if late else 0,
            **changed(change),
        )

    def was_lost(self, reply: int | None) -> bool:
        """Return whether a final release did not find its hold in force."""
        return reply is None

    def set_lease(self, hold: Field, lease_ms: int, change: Change | None) -> bytes:
        """Return the arguments of the script that sets the lease of a permit."""
        field = hold.field
        return SET_LEASE.bind(
            permits=self._permits,
            version_key=_keys.version_key(self.key, field),
            counter=self.key,
            counts=self._counts,
            clients=self._clients,
            field=field,
            lease_ms=lease_ms,
            **changed(change),
            idle_ms=self.idle_ms,
            channel=self.channel,
        )

    # Counts: scripts and their values, for `Receipts` or the executor.

    def available(self) -> bytes:
        """Return the arguments of the script that counts what is free."""
        return AVAILABLE.bind(
            counter=self.key,
            permits=self._permits,
            counts=self._counts,
            clients=self._clients,
            reclaims=RECLAIMS,
            channel=self.channel,
        )

    def make(self, units: int, life_ms: int = 0) -> tuple[Script, dict[str, Arg]]:
        """Return what creates the semaphore unless it exists."""
        return self.set(units, 0, life_ms)

    def set(self, units: int, replaces: int, life_ms: int = 0) -> tuple[Script, dict[str, Arg]]:
        """Return what creates the semaphore, or sets how many permits it has."""
        return SET, {
            "counter": self.key,
            "permits": self._permits,
            "counts": self._counts,
            "total": self._total,
            "clients": self._clients,
            "units": units,
            "life_ms": life_ms or self.idle_ms,
            "replaces": replaces,
            "reclaims": RECLAIMS,
            "channel": self.channel,
        }

    def delete(self) -> tuple[Script, dict[str, Arg]]:
        """Return what removes the semaphore."""
        return DELETE, {
            "counter": self.key,
            "permits": self._permits,
            "counts": self._counts,
            "total": self._total,
            "clients": self._clients,
            "channel": self.channel,
        }

    def add(self, units: int) -> tuple[Script, dict[str, Arg]]:
        """Return what adds units; the number may be negative."""
        return ADD, {
            "counter": self.key,
            "permits": self._permits,
            "counts": self._counts,
            "total": self._total,
            "clients": self._clients,
            "units": units,
            "creates": 1,
            "channel": self.channel,
        }

    def drain(self) -> tuple[Script, dict[str, Arg]]:
        """Return what takes all free units away."""
        return DRAIN, {
            "counter": self.key,
            "permits": self._permits,
            "counts": self._counts,
            "total": self._total,
            "reclaims": RECLAIMS,
        }

    def inspect(self) -> bytes:
        """Return the arguments of the script that shows the first holders and who waits."""
        return INSPECT.bind(
            counter=self.key,
            permits=self._permits,
            counts=self._counts,
            clients=self._clients,
            holders=RECLAIMS,
        )
