"""What both kinds of semaphore ask Redis: a counter, and the holders of its units beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from redisson_py import _keys
from redisson_py._answers import Answer, Change
from redisson_py._redis.commands.client_queue import UnitQueue
from redisson_py._redis.commands.needs import needs
from redisson_py._redis.commands.replies import ALONE, decode, others
from redisson_py._redis.commands.request import AcquireValues, Command, Field, Receipted, changed
from redisson_py._redis.commands.wakes import permit_wakes
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, whole
from redisson_py._redis.scripts.source import Script

if TYPE_CHECKING:
    from redisson_py._redis.commands.plain import PlainCalls

#: The busy reply to a client in the queue of clients: see `in_queue`.
UNITS_IN_QUEUE = array(whole(-1), whole(0, 2), whole(0, 1), whole(-5, 0))
RENEW = source.load("permit.renew")
SET_LEASE = source.load("permit.set_lease")

#: How many permits of dead holders one script gives back, and how many holders `inspect` lists.
RECLAIMS = 100


class PermitCommands(ABC):
    """A semaphore. Its subclasses say which scripts it runs, and how Redis names a holder.

    Args:
        key: The key of the counter.
        start_units: How many units the first request creates it with; below zero: it creates
            nothing.
        idle_ms: How long it is kept after the last lease; 0: forever, or as it was created.
    """

    kind: str
    acquire_script: Script
    release_script: Script
    set_lease_script: Script = SET_LEASE
    renew_script: Script = RENEW
    add_script: ClassVar[Script]
    available_script: ClassVar[Script]
    inspect_script: ClassVar[Script]
    set_script: ClassVar[Script]
    alone = ALONE
    others = staticmethod(others)
    queues = False
    shares_lease = False
    leaves_traces = False
    passes = False
    """A hold may go from task to task here without Redis."""
    records_all = False
    """Whether Redisson's clients record what they take as well."""
    missing: str
    """What the timeout error adds if our clients hold no permits and too few are free."""
    permits_suffix: ClassVar[bytes]
    """What names the key of the permits, after that of the counter."""
    client_suffix = b""
    """What tells a client's waiters for this kind from those for the other kind of this name."""

    field: staticmethod[[str], bytes]
    """Returns the name of an owner's permit in Redis."""
    owner: staticmethod[[bytes], str]
    """Returns the owner from the name of a permit in Redis."""
    permit_text: staticmethod[[bytes], str]
    """Returns the id of a permit as users see it, from its name in Redis."""
    wakes: staticmethod[[int], int] = staticmethod(permit_wakes)
    """Returns how many waiters a message is for."""

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
        return UnitQueue(self.key, self.channel, self.client_suffix, units)

    @property
    def _permits(self) -> bytes:
        return _keys.suffixed(self.key, self.permits_suffix)

    @property
    def _counts(self) -> bytes:
        """The key of what tells how many units a holder has."""
        return self._permits

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this semaphore."""
        return (self.key, self._permits)

    @cached_property
    def script_keys(self) -> dict[str, bytes]:
        """The keys that each of its scripts takes, by their names there."""
        return {
            "counter": self.key,
            "permits": self._permits,
            "clients": _keys.waiting_clients(self.key),
        }

    @cached_property
    def number_keys(self) -> dict[str, bytes]:
        """The keys that a script takes which makes a semaphore or changes its number."""
        return self.script_keys

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

    @abstractmethod
    def fields(self, owner: str, units: int) -> list[tuple[bytes, int]]:
        """Return field and units of each hold that a request of `units` gets."""

    @abstractmethod
    def names(self, request: AcquireValues) -> dict[str, bytes]:
        """Return the argument of `acquire` that names the holder of what is granted."""

    def acquire(self, request: AcquireValues) -> bytes:
        """Return the arguments of the script that asks for units."""
        return self.acquire_script.bind(
            **self.number_keys,
            **self.names(request),
            tombstone=_keys.tombstone(self.key, request.owner),
            units=request.target,
            lease_ms=request.lease_ms,
            start_units=self.start_units,
            reclaims=RECLAIMS,
            channel=self.channel,
            idle_ms=self.idle_ms,
            needs=needs(self, request),
            compares=request.compares,
            client=request.client,
            yields=request.yields,
        )

    def answer(self, reply: Any, request: AcquireValues) -> Answer:
        """Return what the reply to `acquire` means."""
        return decode(reply)

    @abstractmethod
    def release(
        self, hold: Field, target: int, lease_ms: int, late: bool, change: Change | None
    ) -> bytes:
        """Return the arguments of the script that lowers the units of a holder to `target`."""

    @abstractmethod
    def undo(self, request: AcquireValues, late: bool, change: Change | None) -> bytes:
        """Return the arguments of the script that gives back what a request may have acquired."""

    @abstractmethod
    def was_lost(self, reply: int | None) -> bool:
        """Return whether a final release did not find its hold in force."""

    def set_lease(self, hold: Field, lease_ms: int, change: Change | None) -> bytes:
        """Return the arguments of the script that sets the lease of a permit of ours."""
        return SET_LEASE.bind(
            permits=self._permits,
            version_key=_keys.version_key(self.key, hold.owner),
            counter=self.key,
            counts=self._counts,
            clients=_keys.waiting_clients(self.key),
            field=hold.field,
            lease_ms=lease_ms,
            **changed(change),
            idle_ms=self.idle_ms,
            channel=self.channel,
        )

    # Counts, for `Receipts` or the executor.

    def available(self) -> Command:
        """Return what counts the free permits."""
        script = self.available_script
        return script, script.bind(**self.script_keys, reclaims=RECLAIMS, channel=self.channel)

    def make(self, units: int, life_ms: int = 0) -> Receipted:
        """Return what creates the semaphore unless it exists."""
        return self.set(units, 0, life_ms)

    def set(self, units: int, replaces: int, life_ms: int = 0) -> Receipted:
        """Return what creates the semaphore, or sets how many permits it has."""
        return self.set_script, {
            **self.number_keys,
            "units": units,
            "life_ms": life_ms or self.idle_ms,
            "replaces": replaces,
            "reclaims": RECLAIMS,
            "channel": self.channel,
        }

    def add(self, units: int) -> Receipted:
        """Return what adds units; the number may be negative."""
        return self.add_script, {**self.number_keys, "units": units, "channel": self.channel}

    def inspect(self) -> Command:
        """Return what shows the first holders and who waits."""
        script = self.inspect_script
        return script, script.bind(**self.script_keys, holders=RECLAIMS)
