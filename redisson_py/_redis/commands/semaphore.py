"""The scripts of `lua/semaphore`: a counter, and its holders beside it."""

from __future__ import annotations

from functools import cached_property

from redisson_py import _keys
from redisson_py._answers import Change
from redisson_py._redis.commands.client_queue import look
from redisson_py._redis.commands.permits import RECLAIMS, UNITS_IN_QUEUE, PermitCommands
from redisson_py._redis.commands.request import RECEIPT_MS, AcquireValues, Field, Receipted, changed
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import text, whole

ACQUIRE = source.load("semaphore.acquire", UNITS_IN_QUEUE)
ADD = source.load("semaphore.add")
AVAILABLE = source.load("semaphore.available")
DELETE = source.load("semaphore.delete")
DRAIN = source.load("semaphore.drain")
INSPECT = source.load("semaphore.inspect", look((text, whole(0)), (text, text, whole(0))))
RELEASE = source.load("semaphore.release")
SET = source.load("semaphore.set")


class SemaphoreCommands(PermitCommands):
    """A semaphore whose units have an owner, but no id."""

    kind = "semaphore"
    acquire_script = ACQUIRE
    release_script = RELEASE
    add_script = ADD
    available_script = AVAILABLE
    inspect_script = INSPECT
    set_script = SET
    # Redisson's clients do not look for permits of holders that lost their lease.
    leaves_traces = True
    passes = True
    missing = (
        "No client of this library holds a permit, and too few are free. If Redisson's clients"
        " hold none either, Redis has lost records: call set_permits"
    )
    permits_suffix = b"redisson_py:permits"
    field: staticmethod[[str], bytes] = staticmethod(str.encode)
    owner: staticmethod[[bytes], str] = staticmethod(bytes.decode)
    permit_text: staticmethod[[bytes], str] = staticmethod(bytes.decode)

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

    @cached_property
    def script_keys(self) -> dict[str, bytes]:
        """The keys that each of its scripts takes, by their names there."""
        return {**super().script_keys, "counts": self._counts}

    @cached_property
    def number_keys(self) -> dict[str, bytes]:
        """The keys that a script takes which makes a semaphore or changes its number."""
        return {**self.script_keys, "total": self._total}

    def fields(self, owner: str, units: int) -> list[tuple[bytes, int]]:
        """Return field and units of each hold that a request of `units` gets."""
        return [(owner.encode(), units)]

    def names(self, request: AcquireValues) -> dict[str, bytes]:
        """Return the argument of `acquire` that names the holder of what is granted."""
        return {"owner": request.owner.encode()}

    def release(
        self, hold: Field, target: int, lease_ms: int, late: bool, change: Change | None
    ) -> bytes:
        """Return the arguments of the script that lowers the units of an owner, to 0 in the end."""
        return self._release(hold.field, target, hold.units, late, change)

    def undo(self, request: AcquireValues, late: bool, change: Change | None) -> bytes:
        """Return the arguments of the script that gives back what a request may have acquired."""
        return self._release(request.owner.encode(), 0, request.target, late, change)

    def _release(
        self, field: bytes, units: int, had: int, late: bool, change: Change | None
    ) -> bytes:
        return RELEASE.bind(
            **self.script_keys,
            tombstone=_keys.tombstone(self.key, field),
            version_key=_keys.version_key(self.key, field),
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

    def add(self, units: int) -> Receipted:
        """Return what adds units, to a new semaphore if there is none."""
        script, values = super().add(units)
        return script, {**values, "creates": 1}

    def delete(self) -> Receipted:
        """Return what removes the semaphore."""
        return DELETE, {**self.number_keys, "channel": self.channel}

    def drain(self) -> Receipted:
        """Return what takes all free units away."""
        return DRAIN, {
            "counter": self.key,
            "permits": self._permits,
            "counts": self._counts,
            "total": self._total,
            "reclaims": RECLAIMS,
        }
