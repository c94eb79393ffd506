"""What a semaphore of permits with ids asks Redis.

An id is the client's and the number of the acquisition: ten bytes tell the client's id, six
have room for the number. Those of several permits that are taken together follow each other,
and the owner of the first stands for all where a late repetition is to be refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from redisson_py import _keys
from redisson_py._keys import Name
from redisson_py._lease.hold import Hold
from redisson_py._loop import running_loop
from redisson_py._options import TOMBSTONE
from redisson_py._owner import TaskRef, client_id_of
from redisson_py._primitives.context import Context
from redisson_py._primitives.permit import Permit
from redisson_py._primitives.permit_holds import RECLAIMS
from redisson_py._primitives.permit_line import PermitAttempt
from redisson_py._primitives.permits import PermitSource
from redisson_py._primitives.receipts import RECEIPT_MS
from redisson_py._scripts import source
from redisson_py._stream.call import Call
from redisson_py._time import milliseconds
from redisson_py.errors import RedissonError

ACQUIRE = source.load("expirable_semaphore.acquire")
AVAILABLE = source.load("expirable_semaphore.available")
RELEASE = source.load("expirable_semaphore.release")
RELEASE_ALL = source.load("expirable_semaphore.release_all")
SET = source.load("expirable_semaphore.set")

_CLIENT_BYTES = 10
_NUMBER_BYTES = 6


class _PermitHold(Hold):
    """One permit, which may have been taken together with others.

    Attributes:
        batch: The owner of the first of them.
    """

    __slots__ = ("batch",)

    def __init__(
        self, source: IdPermits, owner: str, ends_at: float, watched: bool, task: TaskRef
    ) -> None:
        super().__init__(source, owner, ends_at, watched, task, permit_id(owner))
        self.batch = owner


def permit_id(owner: str) -> bytes:
    """Return the id of the permit of an owner."""
    client_id, _, number = owner.rpartition(":")
    return uuid.UUID(client_id).bytes[:_CLIENT_BYTES] + int(number).to_bytes(_NUMBER_BYTES)


def owner_of(permit: bytes) -> str:
    """Return the owner of a permit, if a client of this library made its id."""
    number = int.from_bytes(permit[_CLIENT_BYTES:])
    return f"{client_id_of(permit[:_CLIENT_BYTES])}:{number}"


def batch_of(owner: str, units: int) -> list[str]:
    """Return the owners of permits that are taken together, from the first one."""
    client_id, _, number = owner.rpartition(":")
    return [f"{client_id}:{int(number) + place}" for place in range(units)]


def check_id(permit: object) -> str:
    """Return the id of a permit as text.

    Raises:
        TypeError: It is neither a permit nor a str.
        ValueError: It is not 32 hex digits.
    """
    if isinstance(permit, Permit):
        return permit.id
    if not isinstance(permit, str):
        raise TypeError(f"a permit must be a Permit or its id, not {type(permit).__name__}")
    try:
        raw = bytes.fromhex(permit)
    except ValueError:
        raw = b""
    if len(raw) != 16 or len(permit) != 32:
        raise ValueError(f"the id of a permit is 32 hex digits, not {permit!r}")
    return permit.lower()


class IdPermits(PermitSource):
    """Base of `PermitExpirableSemaphore`."""

    kind = "permit expirable semaphore"
    _passes = False

    def __init__(self, context: Context, name: Name, permits: int | None = None) -> None:
        super().__init__(context, name, permits)
        self._permits_key = _keys.suffixed(self._key, b"timeout")

    @property
    def _lease_key(self) -> bytes:
        return self._permits_key

    # Acquiring.

    def _new_attempt(self, units: int, lease_time: float) -> PermitAttempt:
        attempt = super()._new_attempt(units, lease_time)
        for _ in range(units - 1):
            # Taken for the others, right behind it: see batch_of.
            self._context.owners.new_owner()
        return attempt

    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        args = ACQUIRE.bind(
            counter=self._key,
            permits=self._permits_key,
            tombstone=self._tombstones + owner.encode(),
            ids=_joined(batch_of(owner, holds)),
            units=holds,
            lease_ms=lease_ms,
            start_units=self._start_units,
            reclaims=RECLAIMS,
            channel=self.channel,
        )
        return self._context.executor.start(ACQUIRE, self._key, args, deadline)

    def _holds(
        self, attempt: PermitAttempt, ends_at: float, watched: bool, task: TaskRef
    ) -> list[Hold]:
        holds: list[Hold] = []
        for owner in batch_of(attempt.owner, attempt.units):
            hold = _PermitHold(self, owner, ends_at, watched, task)
            hold.batch = attempt.owner
            holds.append(hold)
        return holds

    def _permit_id(self, hold: Hold) -> str:
        return permit_id(hold.owner).hex()

    # Releasing.

    def _send_release(self, hold: Hold, deadline: float) -> Call:
        batch = hold.batch if isinstance(hold, _PermitHold) else hold.owner
        return self._send_ids([hold.owner], batch, hold.doubtful, deadline)

    def _undo_units(self, owner: str, units: int, lease_time: float) -> None:
        # Tried for as long as there can be anything to give back.
        until = running_loop().time() + max(1.0, lease_time)
        self._send_ids(batch_of(owner, units), owner, True, until)

    def _send_ids(self, owners: list[str], batch: str, leaves: bool, deadline: float) -> Call:
        """Give back what these have; `leaves`: refuse what comes late of the batch."""
        tombstone = self._tombstones + batch.encode()
        args = RELEASE.bind(
            counter=self._key,
            permits=self._permits_key,
            tombstone=tombstone,
            # Without calls there is no receipt.
            receipt=tombstone,
            ids=_joined(owners),
            units=len(owners),
            channel=self.channel,
            tombstone_ms=milliseconds(TOMBSTONE) if leaves else 0,
            calls=0,
            receipt_ms=RECEIPT_MS,
        )
        return self._context.executor.start(RELEASE, self._key, args, deadline, must=True)

    async def _release_foreign(self, permit: str) -> bool:
        """Give back a permit that this client did not take; return whether it was in force."""
        reply = await self._receipts.run(
            RELEASE,
            counter=self._key,
            permits=self._permits_key,
            tombstone=self._tombstones,
            ids=bytes.fromhex(permit),
            units=1,
            channel=self.channel,
            tombstone_ms=0,
        )
        return bool(reply)

    def _ids(self, permits: Iterable[Permit | str]) -> list[str]:
        """Return the ids of permits, checked."""
        ids = [check_id(permit) for permit in permits]
        if len({*ids}) < len(ids):
            raise ValueError("a permit is there twice")
        return ids

    async def _release_all(self, ids: list[str]) -> int:
        """Give back all of these, or none; return how many."""
        self._context.check()
        known = self._line.permits
        own = [known[permit] for permit in ids if permit in known]
        watchdog = self._context.watchdog
        # A renewal must not come after the release and find nothing.
        for permit in own:
            watchdog.remove(permit._hold)
        kept = False
        try:
            released = await self._receipts.run(
                RELEASE_ALL,
                counter=self._key,
                permits=self._permits_key,
                ids=b"".join(map(bytes.fromhex, ids)),
                units=len(ids),
                reclaims=RECLAIMS,
                channel=self.channel,
            )
            kept = not released
        except RedissonError:
            # Nobody knows; the next renewal will tell.
            kept = True
            raise
        finally:
            for permit in own:
                self._keep_or_end(permit, kept)
        return int(released)

    def _keep_or_end(self, permit: Permit, keep: bool) -> None:
        hold = permit._hold
        if hold.state != "held":
            return
        if keep:
            self._context.watchdog.add(hold)
            return
        permit._end()
        hold.drop(permit)
        hold.state = "released"
        self._line.permits.pop(permit.id, None)

    # Counting.

    async def _make(self) -> None:
        """Make the semaphore, if that was asked for and is not known to be done."""
        if not self._made and self._permits is not None:
            await self._set(self._permits, replaces=0)

    async def _set(self, units: int, replaces: int) -> bool:
        """Make the semaphore, or set how many permits there are; return whether it changed."""
        changed = await self._receipts.run(
            SET,
            counter=self._key,
            permits=self._permits_key,
            units=units,
            replaces=replaces,
            reclaims=RECLAIMS,
            channel=self.channel,
        )
        self._made = True
        return bool(changed)

    async def _counts(self) -> tuple[int, int]:
        """Return how many permits are free, and how many taken."""
        await self._make()
        self._context.check()
        free, taken = await self._context.executor.run(
            AVAILABLE,
            self._key,
            counter=self._key,
            permits=self._permits_key,
            reclaims=RECLAIMS,
            channel=self.channel,
        )
        return int(free), int(taken)


def _joined(owners: list[str]) -> bytes:
    return b"".join([permit_id(owner) for owner in owners])
