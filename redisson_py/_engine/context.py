"""The parts of a client that synchronizers use, and the state that those of one name share."""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from redisson_py._engine.bus import Bus
from redisson_py._engine.client_queue import Together
from redisson_py._engine.local_queue import H, LocalQueue
from redisson_py._engine.server import Server
from redisson_py._engine.watchdog import Watchdog
from redisson_py._listener import Teller
from redisson_py._loop import Task, loop_time
from redisson_py._options import Options
from redisson_py._owner import Owners, TaskKey, TaskRef, reference
from redisson_py._statistics import ClientStatistics, Counts, FrozenCounts

if TYPE_CHECKING:
    from redisson_py._engine.hold import Lease

#: Number of queues, and of holds, up to which nobody asks whether they are needed.
_FEW_PARTS = 128

#: How many are looked at with each new one. Two, so that those not needed become fewer.
_PARTS_LOOKED_AT = 2


class Pending(Protocol):
    """An unanswered request, which a closing client must undo."""

    def give_up(self, error: BaseException) -> None: ...


#: Shared by names that never had two holds at once; never written.
_NO_MORE: dict[TaskRef, Any] = {}


class TaskHolds(Generic[H]):
    """The hold of each task on one name. A task that was garbage-collected is forgotten.

    A hold is found by its `task`, a reference that `key` made.

    Attributes:
        first: The hold of one task, without a dictionary: most names never have another.
        more: The holds of other tasks.
    """

    __slots__ = ("__weakref__", "first", "more")

    def __init__(self) -> None:
        self.first: H | None = None
        self.more: dict[TaskRef, H] = _NO_MORE

    def __len__(self) -> int:
        return (self.first is not None) + len(self.more)

    def needed(self, present: float) -> bool:
        """Whether a task holds it. A loss that was not reported matters to its lock object only."""
        first = self.first
        return (first is not None and first.state == "held") or any(
            hold.state == "held" for hold in self.more.values()
        )

    def key(self, task: Task) -> TaskKey:
        """Return a reference to a task, as the key of its hold here."""
        key = TaskKey(task, TaskKey.leave)
        key.where = self
        return key

    def put(self, task: Task, hold: H) -> None:
        """Give a hold to a task."""
        hold.taken_by(self.key(task))
        self.keep(hold)

    def keep(self, hold: H) -> None:
        """Keep a hold under its task, which must come from `key`."""
        first, more, key = self.first, self.more, hold.task
        if first is not None and first.task == key:
            self.first = hold
        elif key in more:
            # A dictionary keeps its old key, which belongs to the former hold.
            del more[key]
            more[key] = hold
        elif first is None:
            self.first = hold
        else:
            if more is _NO_MORE:
                more = self.more = {}
            more[key] = hold

    def remove(self, hold: H) -> None:
        """Remove a hold from its task; do nothing if it is not there."""
        if self.first is hold:
            self.first = None
        elif hold.task() is not None and self.more.get(hold.task) is hold:
            del self.more[hold.task]

    def leave(self, key: TaskRef) -> None:
        """Remove the hold of a task that was garbage-collected."""
        if self.first is not None and self.first.task is key:
            self.first = None
        elif self.more:
            # Its hold may have been removed. A dead key that was never hashed has no hash.
            with suppress(TypeError, KeyError):
                del self.more[key]

    def all(self) -> list[H]:
        """Return the holds of all tasks, held or over."""
        return [*self.more.values()] if self.first is None else [self.first, *self.more.values()]

    def newest_lease(self, task: Task) -> Lease | None:
        """Return the newest lease of a task, held or lost and not reported."""
        hold = self.of(task)
        leases = () if hold is None else hold.known_leases()
        return leases[-1] if leases else None

    def of(self, task: Task) -> H | None:
        """Return the hold of a task, held or over."""
        first = self.first
        if first is not None and first.task() is task:
            return first
        return self.more.get(reference(task)) if self.more else None


class Shared(Protocol):
    """What all lock objects of one name share."""

    def needed(self, present: float) -> bool:
        """Whether it says anything at the loop time `present` that a new one would not say."""
        ...


S = TypeVar("S", bound=Shared)
T = TypeVar("T")


class Parts(Generic[S]):
    """The shared parts of one kind, by key.

    A part lives as long as something refers to it, and longer while it is needed. With each new
    part the next few of the others are looked at, so that no step goes through all of them: there
    may be very many. Those that are not needed are then referred to weakly, which takes more
    memory.

    Invariant: a part is found by its key as long as anything refers to it, so none is made twice.
    """

    __slots__ = ("_kept", "_keys", "_next", "_weak")

    def __init__(self) -> None:
        self._kept: dict[bytes, S] = {}
        self._weak: weakref.WeakValueDictionary[bytes, S] = weakref.WeakValueDictionary()
        #: The keys in `_kept`, in any order, and which of them is looked at next. After an
        #: interruption there may be another, or one twice, until it is looked at.
        self._keys: list[bytes] = []
        self._next = 0

    def get(self, key: bytes, kind: Callable[[], T]) -> T:
        """Return the part of a key, which is always of this kind; if there is none, make it."""
        part = self._kept.get(key)
        if part is None:
            known = self._weak.get(key)
            made = kind() if known is None else known
            if len(self._keys) >= _FEW_PARTS:
                self._look_at_some()
            # In this order: a signal handler may raise an error between any two calls here.
            self._keys.append(key)
            part = self._kept.setdefault(key, made)  # type: ignore[arg-type]
            if known is not None:
                self._weak.pop(key, None)
        return part  # type: ignore[return-value]

    def _look_at_some(self) -> None:
        """Look at the next parts; from now on refer weakly to those that are not needed."""
        try:
            present = loop_time()
        except RuntimeError:
            # A lock is made outside any event loop: no part was used yet, or its loop ended.
            present = 0.0
        keys = self._keys
        for _ in range(min(_PARTS_LOOKED_AT, len(keys))):
            if self._next >= len(keys):
                self._next = 0
            key = keys[self._next]
            part = self._kept.get(key)
            if part is None or not part.needed(present):
                if part is not None:
                    self._weak[key] = part
                    del self._kept[key]
                # The newest comes here, and may be about to be needed: it is looked at the next
                # time round.
                keys[self._next] = keys[-1]
                del keys[-1]
            self._next += 1

    def values(self) -> list[S]:
        """Return all parts."""
        kept = self._kept
        return [*kept.values(), *(part for key, part in self._weak.items() if key not in kept)]

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        assert sorted(self._keys) == sorted(self._kept)
        assert self._kept.keys().isdisjoint(self._weak.keys())


class Registry:
    """What all lock objects of one name share.

    Attributes:
        queues: The tasks that wait, by kind; those of one kind have one class.
        holds: The holds of tasks, by kind.
    """

    def __init__(self) -> None:
        self.queues: defaultdict[str, Parts[LocalQueue[Any]]] = defaultdict(Parts)
        self.holds: defaultdict[str, Parts[TaskHolds[Any]]] = defaultdict(Parts)

    def all_queues(self) -> list[LocalQueue[Any]]:
        """Return the queues of all kinds."""
        return [queue for parts in self.queues.values() for queue in parts.values()]

    @property
    def waiting(self) -> int:
        """The number of tasks that wait in queues, including those that ask the server."""
        return sum(queue.waiting for queue in self.all_queues())

    def reset(self) -> None:
        """Reset the queues after the event loop was closed."""
        for queue in self.all_queues():
            queue.reset()

    def close(self, error: BaseException) -> None:
        """Raise `error` in all tasks that wait in queues."""
        for queue in self.all_queues():
            queue.close(error)

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        for parts in self.queues.values():
            parts.check()
        for queue in self.all_queues():
            queue.check()
        for holds_of_kind in self.holds.values():
            holds_of_kind.check()
            for holds in holds_of_kind.values():
                for hold in holds.all():
                    hold.check()


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(dict[K, V]):
    """A cache of objects for recently used names.

    The dictionary itself has the young entries; `made` finds the old ones too. When there are
    `size` young entries, they become the old ones and the old ones are dropped: at most twice as
    many are kept.
    """

    __slots__ = ("_old", "_size")

    def __init__(self, size: int = 2048) -> None:
        super().__init__()
        self._size = size
        self._old: dict[K, V] = {}

    def made(self, key: K, make: Callable[[], V]) -> V:
        """Return the object kept for a key; if there is none, keep the one that `make` returns.

        If `make` raises an error, nothing is kept.
        """
        if key in self:
            return self[key]
        value = self._old.pop(key, None)
        if value is None:
            value = make()
        if len(self) >= self._size:
            self._old = dict(self)
            self.clear()
        self[key] = value
        return value


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one client that synchronizers are built on."""

    options: Options
    executor: Server
    bus: Bus
    watchdog: Watchdog
    owners: Owners
    check: Callable[[], None]
    """Raises `ClientClosedError` if the client must not be used now or here."""
    describe: Callable[[float], None]
    """Keeps the client's description on the server fresh, for `inspect`."""
    database: str = ""
    """The servers' addresses and the number of the database: where equal keys are one key."""
    counts: Counts = field(default_factory=Counts)
    teller: Teller | None = None
    """Tells a listener, if there is one."""
    system: str = "redis"
    """What keeps the locks, for listeners."""
    registry: Registry = field(default_factory=Registry)
    pending: dict[Pending, None] = field(default_factory=dict)
    """The requests that were not answered."""
    permitted: set[str] = field(default_factory=set[str])
    """The kinds of which the server has said that this client may release them."""
    waiters: Counter[bytes] = field(default_factory=Counter)
    """How many tasks wait for something outside a queue, by kind and key."""
    together: defaultdict[bytes, Together] = field(default_factory=lambda: defaultdict(Together))
    """Those of them that stand in a queue of clients, by kind and key."""

    ownerships: Recent[Hashable, Any] = field(default_factory=Recent)
    """Of the semaphores used of late, by kind, name and number of permits."""

    said: Recent[Hashable, object] = field(default_factory=Recent)
    """What was warned of that is said once for a name."""

    def is_news(self, about: Hashable) -> bool:
        """Return whether this was not asked before; of thousands, the oldest are forgotten."""
        mark = object()
        return self.said.made(about, lambda: mark) is mark

    @property
    def waits(self) -> bool:
        """Whether tasks wait, in queues or outside, or requests are unanswered."""
        return bool(self.registry.waiting or self.waiters or self.pending)

    def statistics(
        self, *, commands_sent: int, connections: int, evictions: int = 0
    ) -> ClientStatistics:
        """Return the counters of the client."""
        counts, watchdog = self.counts, self.watchdog
        return ClientStatistics(
            waiters=self.registry.waiting + self.waiters.total(),
            held_leases=sum(len(hold.live) for hold in watchdog.holds),
            renewals=watchdog.renewals,
            losses=sum(counts.losses.values()),
            wake_ups=self.bus.table.wakeups,
            commands_sent=commands_sent,
            connections=connections,
            acquires=counts.acquires,
            waits=counts.waits,
            waited=counts.waited,
            longest_wait=counts.longest_wait,
            timeouts=counts.timeouts,
            losses_by_reason=FrozenCounts(counts.losses),
            reconnects=counts.reconnects,
            late_renewals=counts.late_renewals,
            evictions=evictions,
        )

    def reset(self) -> None:
        """Reset everything after the event loop was closed: no task waits, and nothing is held."""
        self.registry.reset()
        self.pending.clear()
        self.waiters.clear()
        self.together.clear()

    def leave_queues(self) -> None:
        """Take this client out of the queues of clients in which it waits outside local queues."""
        for each in self.together.values():
            each.leave(closing=True)

    def waiting(self, key: bytes) -> Waiting:
        """Return a block in which the current task is counted as a waiter."""
        return Waiting(self, key)

    def stopped_waiting(self, key: bytes) -> None:
        """Count one waiter less."""
        left = self.waiters[key] - 1
        if left:
            self.waiters[key] = left
        else:
            del self.waiters[key]
            if (together := self.together.pop(key, None)) is not None:
                together.leave()


class Waiting:
    """Counts one waiter more inside the block."""

    __slots__ = ("_context", "_key")

    def __init__(self, context: Context, key: bytes) -> None:
        self._context = context
        self._key = key

    def __enter__(self) -> None:
        self._context.waiters[self._key] += 1

    def __exit__(self, *_: object) -> None:
        self._context.stopped_waiting(self._key)


class Client(Protocol):
    """A client of any store, with what its invariants are about."""

    @property
    def _watchdog(self) -> Watchdog: ...
    @property
    def _context(self) -> Context: ...


def check_client(client: Client) -> None:
    """Raise `AssertionError` if an invariant of a hold, a queue or the schedule does not hold.

    See the top of `hold.py`, `holds.py`, `local_queue.py` and `schedule.py`. The tasks see the
    holds that there are, and no others.
    """
    watchdog, context = client._watchdog, client._context
    for hold in list(watchdog.holds):
        hold.check()
        hold.ownership.check_tasks_view(hold)
    watchdog.check()
    context.registry.check()
