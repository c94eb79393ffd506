"""The scripts of `lua/expirable_semaphore`: a counter, and a sorted set of permit ids.

An id consists of the client's id (ten bytes) and the number of the acquisition (six bytes).
Permits that are taken together have consecutive numbers. Where a late repetition is to be refused,
the owner of the first permit stands for all of them.
"""

from __future__ import annotations

from redisson_py import _keys
from redisson_py._answers import Change
from redisson_py._owner import client_id_of, numbered
from redisson_py._redis.commands.client_queue import look
from redisson_py._redis.commands.permits import RECLAIMS, UNITS_IN_QUEUE, PermitCommands
from redisson_py._redis.commands.request import RECEIPT_MS, AcquireValues, Command, Field, Receipted
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, text, whole

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
MOST_PERMITS_AT_ONCE = 10_000

_CLIENT_BYTES = 10
_NUMBER_BYTES = 6


def permit_ids(owner: str, units: int) -> list[bytes]:
    """Return the ids of permits that are taken together, from the owner of the first."""
    client_id, _, number = owner.rpartition(":")
    client, first = bytes.fromhex(client_id.replace("-", ""))[:_CLIENT_BYTES], int(number)
    return [client + each.to_bytes(_NUMBER_BYTES) for each in range(first, first + units)]


def permit_id(owner: str) -> bytes:
    """Return the id of the permit of an owner."""
    return permit_ids(owner, 1)[0]


def owner_of(permit: bytes) -> str:
    """Return the owner of a permit, if a client of this library made its id."""
    number = int.from_bytes(permit[_CLIENT_BYTES:])
    return numbered(client_id_of(permit[:_CLIENT_BYTES]), number)


class PermitExpirableSemaphoreCommands(PermitCommands):
    """A semaphore whose permits have ids, each for one acquisition only."""

    kind = "permit expirable semaphore"
    acquire_script = ACQUIRE
    release_script = RELEASE
    add_script = ADD
    available_script = AVAILABLE
    inspect_script = INSPECT
    set_script = SET
    records_all = True
    missing = (
        "Some permits are neither free nor taken. If nobody removed them, Redis has lost records:"
        " call set_permits"
    )
    permits_suffix = b"timeout"
    client_suffix = b":permit"
    field: staticmethod[[str], bytes] = staticmethod(permit_id)
    owner: staticmethod[[bytes], str] = staticmethod(owner_of)
    permit_text: staticmethod[[bytes], str] = staticmethod(bytes.hex)

    def fields(self, owner: str, units: int) -> list[tuple[bytes, int]]:
        """Return field and units of each hold that a request of `units` gets."""
        return [(permit, 1) for permit in permit_ids(owner, units)]

    def names(self, request: AcquireValues) -> dict[str, bytes]:
        """Return the argument of `acquire` that names the holders of what is granted."""
        return {"ids": b"".join(permit_ids(request.owner, request.target))}

    def release(
        self, hold: Field, target: int, lease_ms: int, late: bool, change: Change | None
    ) -> bytes:
        """Return the arguments of the script that gives a permit back."""
        return self._release([hold.field], hold.batch or hold.owner, late)

    def undo(self, request: AcquireValues, late: bool, change: Change | None) -> bytes:
        """Return the arguments of the script that gives back what a request may have acquired."""
        return self._release(permit_ids(request.owner, request.target), request.owner, late)

    def _release(self, permits: list[bytes], batch: str, late: bool) -> bytes:
        tombstone = _keys.tombstone(self.key, batch)
        return RELEASE.bind(
            **self.script_keys,
            tombstone=tombstone,
            # Without calls there is no receipt.
            receipt=tombstone,
            ids=b"".join(permits),
            units=len(permits),
            channel=self.channel,
            tombstone_ms=RECEIPT_MS if late else 0,
            calls=0,
            receipt_ms=RECEIPT_MS,
        )

    def was_lost(self, reply: int | None) -> bool:
        """Return whether a final release did not find its hold in force."""
        return not reply

    # Permits by id, whatever their owner.

    def release_id(self, permit: bytes) -> Receipted:
        """Return what gives back one permit."""
        return RELEASE, {
            **self.script_keys,
            "tombstone": _keys.tombstone(self.key, ""),
            "ids": permit,
            "units": 1,
            "channel": self.channel,
            "tombstone_ms": 0,
        }

    def release_ids(self, permits: list[bytes]) -> Receipted:
        """Return what gives back all of these permits, or none."""
        return RELEASE_ALL, {
            **self.script_keys,
            "ids": b"".join(permits),
            "units": len(permits),
            "reclaims": RECLAIMS,
            "channel": self.channel,
        }

    def update_lease(self, permit: bytes, client_id: str, lease_ms: int, version: int) -> Command:
        """Return what sets the lease of a permit of any owner."""
        return UPDATE_LEASE, UPDATE_LEASE.bind(
            **self.script_keys,
            version_key=_keys.version_key(self.key, f"{client_id}:{permit.hex()}"),
            id=permit,
            lease_ms=lease_ms,
            reclaims=RECLAIMS,
            channel=self.channel,
            version=version,
            version_ms=RECEIPT_MS,
            idle_ms=self.idle_ms,
        )

    def lease_left(self, permit: bytes) -> Command:
        """Return what shows what is left of a permit's lease."""
        return LEASE_LEFT, LEASE_LEFT.bind(
            **self.script_keys, id=permit, reclaims=RECLAIMS, channel=self.channel
        )
