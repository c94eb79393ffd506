"""The scripts of `lua/election`: a fair lock whose holder publishes a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisson_py import _keys
from redisson_py._answers import Answer, Change, Granted
from redisson_py._redis.commands.lock import RENEW, RENEW_FENCED, FairLockCommands
from redisson_py._redis.commands.needs import needs
from redisson_py._redis.commands.replies import seconds_left
from redisson_py._redis.commands.request import (
    RECEIPT_MS,
    AcquireValues,
    Command,
)
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, text, whole
from redisson_py._redis.scripts.source import Arg, Script

ACQUIRE = source.load("election.acquire", array(whole(1)))
FORCE_RELEASE = source.load("election.force_release")
LEADER = source.load("election.leader", array(rows=(text, text, whole(-1))))
PROCLAIM = source.load("election.proclaim")
RELEASE = source.load("election.release")

#: What stands beside the owner in the hash of a leader.
BESIDE_OWNER = (b"token", b"value", b"number")


@dataclass(frozen=True, slots=True)
class Led:
    """Who leads, as Redis saw it a moment ago.

    Attributes:
        value: What the leader published.
        token: Its fencing token.
        ends_in: Seconds until its lease ends if it is not renewed; None: it has none.
    """

    value: bytes
    token: int
    ends_in: float | None


class ElectionCommands(FairLockCommands):
    """The requests about an election.

    Args:
        key: The key: that of a fair lock of the same name.
        alive: Seconds for which a candidate counts as alive after its last request.
        idle_ms: How long the counter of tokens is kept after the lease ends; 0 forever.
        value: What a candidate publishes when it leads.
    """

    __slots__ = ("idle_ms", "renew_script", "value")

    kind = hold_kind = "election"
    acquire_script = ACQUIRE
    release_script = RELEASE
    force_release_script = FORCE_RELEASE
    # A name that nobody has would be an election that nobody can win.
    leave_taken_script: Script | None = None
    tokens = 1

    def __init__(self, key: bytes, alive: float, idle_ms: int = 0, value: bytes = b"") -> None:
        super().__init__(key, alive)
        self.idle_ms = idle_ms
        self.value = value
        self.options = (alive, idle_ms)
        self.renew_script = RENEW_FENCED if idle_ms else RENEW

    @property
    def announced(self) -> bytes:
        """The channel on which each change of the leader or its value is announced."""
        return _keys.election_channel(self.key)

    @property
    def _token_key(self) -> bytes:
        return _keys.fencing_token(self.key)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this election: the counter of its tokens too."""
        return (*super().keys, self._token_key)

    @property
    def renewal_keys(self) -> tuple[bytes, ...]:
        """The keys that a renewal needs: the counter too, if it may expire."""
        return (self.key, self._token_key) if self.idle_ms else (self.key,)

    @property
    def renewal_values(self) -> dict[str, int]:
        """The arguments of a renewal beside the lease."""
        return {"idle_ms": self.idle_ms} if self.idle_ms else {}

    def acquire(self, request: AcquireValues) -> bytes:
        """Return the arguments of the script that asks to lead."""
        return ACQUIRE.bind(
            lock=self.key,
            tombstone=_keys.tombstone(self.key, request.field),
            **self._queue_keys,
            token=self._token_key,
            owner=request.field,
            lease_ms=request.lease_ms,
            **self._own_args(request),
            channel=self.channel,
            needs=needs(self, request),
            value=self.value,
            announced=self.announced,
            idle_ms=self.idle_ms,
        )

    def answer(self, reply: Any, request: AcquireValues) -> Answer:
        """Return what the reply to `acquire` means."""
        return Granted(reply[0]) if isinstance(reply, list) else super().answer(reply, request)

    def _release(
        self,
        field: bytes,
        target: int,
        lease_ms: int,
        late: bool,
        change: Change | None,
        **own_args: Arg,
    ) -> bytes:
        assert target == 0  # A leader has one hold, and a change of it ends with it.
        return RELEASE.bind(
            lock=self.key,
            tombstone=_keys.tombstone(self.key, field),
            **self._queue_keys,
            owner=field,
            lease_ms=lease_ms,
            **own_args,
            channel=self.channel,
            tombstone_ms=RECEIPT_MS if late else 0,
            announced=self.announced,
        )

    def force_release(self, receipt: bytes) -> bytes:
        """Return the arguments of the script that ends the leadership, whosever it is."""
        return FORCE_RELEASE.bind(
            lock=self.key,
            receipt=receipt,
            **self._queue_keys,
            channel=self.channel,
            receipt_ms=RECEIPT_MS,
            announced=self.announced,
        )

    def leader(self) -> Command:
        """Return what shows who leads."""
        return LEADER, LEADER.bind(lock=self.key)

    def proclaim(self, owner: str, number: int, value: bytes) -> Command:
        """Return what publishes another value of a leader, who numbers them upwards."""
        args = PROCLAIM.bind(
            lock=self.key,
            owner=self.field(owner),
            value=value,
            number=number,
            announced=self.announced,
        )
        return PROCLAIM, args


def led(reply: list[Any]) -> Led | None:
    """Return who leads, from the reply to `leader`; None if nobody does."""
    if not reply:
        return None
    token, value, left_ms = reply
    return Led(value, int(token), None if left_ms < 0 else seconds_left(left_ms))
