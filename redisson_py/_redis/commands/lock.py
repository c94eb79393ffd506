"""The scripts of `lua/lock`, `lua/fenced_lock`, `lua/fair_lock`: a hash, one field per owner."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from redisson_py import _keys
from redisson_py._answers import (
    GIVEN_UP,
    GRANTED,
    LOST,
    UNKNOWN_WAIT,
    Answer,
    Busy,
    Change,
    Granted,
    Taken,
)
from redisson_py._redis.commands.client_queue import LEAVE, ClientQueue, Waits, look, waits
from redisson_py._redis.commands.needs import needs
from redisson_py._redis.commands.replies import ALONE, decode, in_queue, others, seconds_left
from redisson_py._redis.commands.request import (
    RECEIPT_MS,
    REDISSON_WAIT_MS,
    AcquireValues,
    Command,
    Field,
    changed,
)
from redisson_py._redis.commands.wakes import lock_wakes
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, text, whole
from redisson_py._redis.scripts.source import Arg, Script
from redisson_py._time import LONGEST_LEASE_SECONDS, milliseconds, now

if TYPE_CHECKING:
    from redisson_py._redis.commands.plain import PlainCalls

#: The busy reply to a client in the queue of clients: see `in_queue`.
IN_QUEUE = (whole(-1), whole(0), whole(0, 1))
ACQUIRE = source.load("lock.acquire", array(*IN_QUEUE))
ADOPT = source.load("lock.adopt")
FORCE_RELEASE = source.load("lock.force_release")
HAND_OVER = source.load("lock.hand_over")
INSPECT = source.load("lock.inspect", look((whole(-2),), (text, text)))
LEAVE_TAKEN = source.load("lock.leave_taken")
RELEASE = source.load("lock.release")
RENEW = source.load("lock.renew")
SET_LEASE = source.load("lock.set_lease")

_CODE_AND_NUMBER = array(whole(-3, 1), whole(-1))
_IN_QUEUE = array(whole(0, 0), *IN_QUEUE)
ACQUIRE_FENCED = source.load(
    "fenced_lock.acquire",
    lambda reply: (_CODE_AND_NUMBER(reply) and reply != [1, -1]) or _IN_QUEUE(reply),
)
HAND_OVER_FENCED = source.load("fenced_lock.hand_over")
RENEW_FENCED = source.load("fenced_lock.renew")
SET_LEASE_FENCED = source.load("fenced_lock.set_lease")

ACQUIRE_FAIR = source.load("fair_lock.acquire")
FORCE_RELEASE_FAIR = source.load("fair_lock.force_release")
LEAVE_TAKEN_FAIR = source.load("fair_lock.leave_taken")
INSPECT_FAIR = source.load("fair_lock.inspect", array(whole(-2), whole(0), rows=(text,)))
RELEASE_FAIR = source.load("fair_lock.release")
SET_LEASE_FAIR = source.load("fair_lock.set_lease")

#: Fencing tokens taken with each grant: a hold can be passed on this often in this process.
TOKENS = 64


#: What follows the owner in the name of a hold that nobody has any more: a `min_hold` keeps it.
NOBODY = b":kept"


def _at_least_ms(seconds: float) -> int:
    """Return whole milliseconds, one or more, and no shorter."""
    return max(1, math.ceil(1000 * seconds))


class LockCommands:
    """A reentrant lock. Its subclasses replace single scripts."""

    __slots__ = ("key", "plain")

    kind = "lock"
    hold_kind = "lock"
    """The kind of what has the same holds under one key: a lock and its fenced lock.

    A kind of its own names its own, or its task also holds the lock of the same name.
    """
    channel_prefix = b"redisson_lock__channel"
    acquire_script: Script = ACQUIRE
    release_script: Script = RELEASE
    leave_taken_script: Script | None = LEAVE_TAKEN
    """Releases a hold, and has the name stay taken; None: that cannot be said to the time."""
    set_lease_script: Script = SET_LEASE
    renew_script: Script = RENEW
    force_release_script: Script = FORCE_RELEASE
    inspect_script: Script = INSPECT
    leave_script: Script = LEAVE
    hand_over_script: Script = HAND_OVER
    adopt_script: Script = ADOPT
    alone = ALONE
    others: staticmethod[[int, bool], int] = staticmethod(others)
    tokens = 0
    """How many fencing tokens a grant brings."""
    queues = False
    """Redis keeps a queue of those that wait."""
    shares_lease = False
    """Others may shorten what keeps a hold in Redis, so each hold is asked after."""
    leaves_traces = False
    """A hold that is over stays in Redis until its owner takes it out."""

    client_suffix: bytes | None = b""
    """What tells the waiters of one client apart that want different things.

    None: the scripts know no queue of clients, and have no key for it.
    """

    options: tuple[float, ...] = ()
    """What the constructor takes beside the key."""

    def __init__(self, key: bytes) -> None:
        self.key: bytes = key
        self.plain: PlainCalls | None = None

    @property
    def channel(self) -> bytes:
        """Where releases are announced."""
        return _keys.prefixed(self.channel_prefix, self.key)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this lock that lasts as long as it is held."""
        return (self.key,)

    @property
    def clients(self) -> ClientQueue | None:
        """The queue that `acquire_script` lets clients join; None: requests hear `channel`.

        Named where the script joins none, it leaves waiters asleep until the safety poll.
        """
        suffix = self.client_suffix
        if suffix is None:
            return None
        return ClientQueue(self.key, self.channel, suffix, self.leave_script)

    @property
    def _queue_keys(self) -> dict[str, bytes]:
        """The keys of a queue on the server, by the names that scripts give them."""
        return {} if self.client_suffix is None else {"clients": _keys.waiting_clients(self.key)}

    @property
    def renewal_keys(self) -> tuple[bytes, ...]:
        """The keys that a renewal needs."""
        return (self.key,)

    @property
    def renewal_values(self) -> dict[str, int]:
        """The arguments of a renewal beside the lease."""
        return {}

    #: Returns how many waiters a message is for.
    wakes: staticmethod[[int], int] = staticmethod(lock_wakes)
    #: Returns the name of an owner's hold in Redis.
    field: staticmethod[[str], bytes] = staticmethod(str.encode)
    #: Returns the owner from the name of a hold in Redis.
    owner: staticmethod[[bytes], str] = staticmethod(bytes.decode)

    def request_channel(self, owner: str) -> bytes:
        """Return the channel on which a request of this owner hears of a release."""
        return self.channel

    def acquire(self, request: AcquireValues) -> bytes:
        """Return the arguments of the script that asks for a hold."""
        field = request.field
        return self.acquire_script.bind(
            lock=self.key,
            tombstone=_keys.tombstone(self.key, field),
            version_key=_keys.version_key(self.key, field),
            **self._queue_keys,
            owner=field,
            holds=request.target,
            lease_ms=request.lease_ms,
            **changed(request.change),
            needs=needs(self, request),
            channel=self.channel,
            **self._own_args(request),
        )

    def _own_args(self, request: AcquireValues) -> dict[str, Arg]:
        """Return the keys and arguments of `acquire` that not all kinds have, by their names."""
        return {"client": request.client, "yields": request.yields}

    def answer(self, reply: Any, request: AcquireValues) -> Answer:
        """Return what the reply to `acquire` means."""
        return GRANTED if reply is None else decode(reply)

    def release(
        self, hold: Field, target: int, lease_ms: int, late: bool, change: Change | None
    ) -> bytes:
        """Return the arguments of the script that lowers a hold count, to 0 in the end."""
        return self._release(hold.field, target, lease_ms, late, change)

    def was_lost(self, reply: int | None) -> bool:
        """Return whether a final release did not find its hold in force."""
        return reply is None

    def undo(self, request: AcquireValues, late: bool, change: Change | None) -> bytes:
        """Return the arguments of the script that gives back what a request may have acquired."""
        return self._release(request.field, 0, request.lease_ms, late, change)

    def _release(
        self,
        field: bytes,
        target: int,
        lease_ms: int,
        late: bool,
        change: Change | None,
        **own_args: Arg,
    ) -> bytes:
        return self.release_script.bind(
            lock=self.key,
            tombstone=_keys.tombstone(self.key, field),
            version_key=_keys.version_key(self.key, field),
            **self._queue_keys,
            owner=field,
            holds=target,
            lease_ms=lease_ms,
            channel=self.channel,
            tombstone_ms=RECEIPT_MS if late else 0,
            **changed(change),
            **own_args,
        )

    @property
    def stay_taken(self) -> bool:
        """Whether Redis can keep the name taken for a time after a release."""
        return self.leave_taken_script is not None

    def leave_taken(self, hold: Field, taken: Taken, late: bool) -> bytes:
        """Return the arguments of the script that releases a hold and leaves the name taken."""
        script, field, beyond = self.leave_taken_script, hold.field, taken.beyond
        assert script is not None
        return script.bind(
            lock=self.key,
            tombstone=_keys.tombstone(self.key, field),
            **self._queue_keys,
            owner=field,
            nobody=field + NOBODY,
            stays_ms=_at_least_ms(min(taken.until - now(), LONGEST_LEASE_SECONDS)),
            beyond_ms=b"" if beyond is None else b"%d" % math.ceil(1000 * beyond),
            channel=self.channel,
            tombstone_ms=RECEIPT_MS if late else 0,
        )

    def set_lease(self, hold: Field, lease_ms: int, change: Change | None) -> bytes:
        """Return the arguments of the script that sets the lease of a hold."""
        field = hold.field
        return self.set_lease_script.bind(
            lock=self.key,
            version_key=_keys.version_key(self.key, field),
            **self._queue_keys,
            **self._kept_beside,
            owner=field,
            lease_ms=lease_ms,
            **changed(change),
            channel=self.channel,
        )

    @property
    def _kept_beside(self) -> dict[str, Arg]:
        """The arguments of `set_lease` that say what is kept beside the lock."""
        return {}

    def hand_over(self, hold: Field, lease_ms: int, change: Change, secret: str) -> bytes:
        """Return the arguments of the script that keeps a hold for whoever adopts it."""
        field = hold.field
        return self.hand_over_script.bind(
            lock=self.key,
            tombstone=_keys.tombstone(self.key, field),
            version_key=_keys.version_key(self.key, field),
            **self._kept_beside,
            owner=field,
            secret=secret.encode(),
            lease_ms=lease_ms,
            tombstone_ms=RECEIPT_MS,
            **changed(change),
        )

    def adopt(self, request: AcquireValues, giver: str, secret: str, until_ms: int) -> bytes:
        """Return the arguments of the script that gives the hold of another owner to a request."""
        field, former = request.field, self.field(giver)
        return self.adopt_script.bind(
            lock=self.key,
            tombstone=_keys.tombstone(self.key, field),
            adopted=_keys.tombstone(self.key, former),
            owner=field,
            giver=former,
            secret=secret.encode(),
            lease_ms=request.lease_ms,
            until_ms=until_ms,
            adopted_ms=RECEIPT_MS,
            needs=needs(self, request),
        )

    def force_release(self, receipt: bytes) -> bytes:
        """Return the arguments of the script that frees it, whatever the holder."""
        return self.force_release_script.bind(
            lock=self.key,
            receipt=receipt,
            **self._queue_keys,
            channel=self.channel,
            receipt_ms=RECEIPT_MS,
        )

    def inspect(self) -> Command:
        """Return what shows the holder and who waits."""
        return self.inspect_script, self.inspect_script.bind(lock=self.key, **self._queue_keys)

    @staticmethod
    def waiters(reply: list[Any], suffix: bytes = b"") -> list[Waits]:
        """Return who waits, from what that script says of it: those whose names end so."""
        return waits(reply, suffix)


class FencedLockCommands(LockCommands):
    """A lock whose grants come with fencing tokens.

    Args:
        key: The key.
        idle_ms: How long the counter of tokens is kept after the lease ends; 0 forever.
    """

    __slots__ = ("hand_over_script", "idle_ms", "options", "renew_script", "set_lease_script")

    kind = "fenced lock"
    acquire_script = ACQUIRE_FENCED
    tokens = TOKENS
    client_suffix: bytes | None = b":fenced"

    def __init__(self, key: bytes, idle_ms: int = 0) -> None:
        super().__init__(key)
        self.idle_ms = idle_ms
        self.options = (idle_ms,)
        self.renew_script = RENEW_FENCED if idle_ms else RENEW
        self.hand_over_script = HAND_OVER_FENCED if idle_ms else HAND_OVER
        self.set_lease_script = SET_LEASE_FENCED if idle_ms else SET_LEASE

    @property
    def renewal_keys(self) -> tuple[bytes, ...]:
        """The keys that a renewal needs: the counter too, if it may expire."""
        return (self.key, self._token_key) if self.idle_ms else (self.key,)

    @property
    def renewal_values(self) -> dict[str, int]:
        """The arguments of a renewal beside the lease."""
        return {"idle_ms": self.idle_ms} if self.idle_ms else {}

    @property
    def _token_key(self) -> bytes:
        return _keys.fencing_token(self.key)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this lock: the counter of its tokens too."""
        return (self.key, self._token_key)

    def _own_args(self, request: AcquireValues) -> dict[str, Arg]:
        return {
            **super()._own_args(request),
            "token": self._token_key,
            "tokens": TOKENS,
            "idle_ms": self.idle_ms,
        }

    @property
    def _kept_beside(self) -> dict[str, Arg]:
        return {"token": self._token_key, "idle_ms": self.idle_ms} if self.idle_ms else {}

    def answer(self, reply: Any, request: AcquireValues) -> Answer:
        """Return what the reply to `acquire` means."""
        code, value = reply[:2]
        if code == 1:
            return Granted(value)
        if code == 0 and len(reply) == 4:
            return in_queue(reply[1:])
        if code == 0:
            return Busy(seconds_left(value)) if value >= 0 else UNKNOWN_WAIT
        return LOST if code == -2 else GIVEN_UP


class FairLockCommands(LockCommands):
    """A lock with a queue in Redis.

    Args:
        key: The key.
        alive: Seconds for which a waiter counts as alive after its last request.
    """

    __slots__ = ("alive", "options")

    kind = "fair lock"
    acquire_script = ACQUIRE_FAIR
    release_script = RELEASE_FAIR
    leave_taken_script: Script | None = LEAVE_TAKEN_FAIR
    set_lease_script = SET_LEASE_FAIR
    force_release_script = FORCE_RELEASE_FAIR
    inspect_script = INSPECT_FAIR
    queues = True
    client_suffix: bytes | None = None

    def __init__(self, key: bytes, alive: float) -> None:
        super().__init__(key)
        self.alive = alive
        self.options = (alive,)

    @property
    def _queue_keys(self) -> dict[str, bytes]:
        return {
            "queue": _keys.prefixed(b"redisson_lock_queue", self.key),
            "timeouts": _keys.prefixed(b"redisson_lock_timeout", self.key),
            "waiters": _keys.suffixed(self.key, b"redisson_py:waiters"),
        }

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every key of this lock: those of its queue too."""
        return (self.key, *self._queue_keys.values())

    def request_channel(self, owner: str) -> bytes:
        """Return the channel on which this waiter alone hears that it is next."""
        return self.channel + b":" + owner.encode()

    def _own_args(self, request: AcquireValues) -> dict[str, Arg]:
        return {
            "wait_ms": request.wait_ms or REDISSON_WAIT_MS,
            "alive_ms": milliseconds(self.alive),
            "place": b"0" if request.once else request.client or b"1",
        }

    def answer(self, reply: Any, request: AcquireValues) -> Answer:
        """Return what the reply to `acquire` means; a waiter repeats it in time to stay alive."""
        answer = decode(reply)
        if request.once or not isinstance(answer, Busy):
            return answer
        stay_alive = self.alive / 3
        retry_in = answer.retry_in
        return Busy(stay_alive if retry_in is None else min(stay_alive, retry_in), queued=True)

    def release(
        self, hold: Field, target: int, lease_ms: int, late: bool, change: Change | None
    ) -> bytes:
        """Return the arguments of the script that lowers a hold count, to 0 in the end."""
        entry = hold.batch if late else None
        return self._release(
            *(hold.field, target, lease_ms, late, change),
            wait_ms=REDISSON_WAIT_MS,
            place=b"0" if entry is None else entry.encode(),
        )

    def undo(self, request: AcquireValues, late: bool, change: Change | None) -> bytes:
        """Return the arguments of the script that gives back a hold, or a place in the queue."""
        return self._release(
            *(request.field, 0, request.lease_ms, late, change),
            wait_ms=request.wait_ms or REDISSON_WAIT_MS,
            place=request.client or b"1",
        )

    @staticmethod
    def waiters(reply: list[bytes], suffix: bytes = b"") -> list[Waits]:
        """Return who waits, from what that script says of it."""
        return [Waits(owner.decode(errors="replace")) for owner in reply]
