"""An election: a lock whose holder, the leader, publishes a value that everybody can read.

Each campaign is a contender of its own in the store, with its own value; tasks of one client stand
there beside each other. So a leadership is never passed inside a process, as a lock is: the next
leader would come with another value, which has to be written anyway, and candidates of other
clients, which are shown there in their order, would be overtaken.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast, final

from redisson_py._answers import Busy, Wakes, wakes_everybody
from redisson_py._arguments import explained
from redisson_py._engine import waiting
from redisson_py._engine.block import HoldBlock
from redisson_py._engine.context import Context
from redisson_py._engine.hold import FencedLease, Hold
from redisson_py._engine.server import Asked
from redisson_py._engine.snapshots import LockSnapshot
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._keys import Name
from redisson_py._process_bound import ProcessBound
from redisson_py._stores.commands import UnqueuedCommands, own_channel
from redisson_py._stores.contract import ElectionStore, Sighting, Wish
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.locks import StoreLock, StoreView, name_of
from redisson_py._stores.requests import OwnedSpecial, Special
from redisson_py._time import Duration
from redisson_py.locks.lock_of import LockOf

#: What was seen counts again for as long as this, in seconds, while the store watches it: the
#: waiting loop asks twice.
_STILL_SEEN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of an election, as the store saw it a moment ago.

    Attributes:
        value: The value that it published.
        token: Its fencing token: greater than that of every earlier leader.
    """

    value: bytes
    token: int

    @property
    def text(self) -> str:
        """The value as text; invalid UTF-8 is replaced."""
        return self.value.decode(errors="replace")


def _bytes_of(value: str | bytes) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"value must be str or bytes, not {type(value).__name__}")


class _CandidateCommands(UnqueuedCommands):
    """The requests of a candidate.

    Args:
        name: The name of the election, as stores take it.
        value: The value that it publishes.
        store: Where.
    """

    __slots__ = ("store", "value")

    def __init__(self, name: str, value: bytes, store: ElectionStore) -> None:
        super().__init__(name, held="election")
        self.tokens = 1
        self.value = value
        self.store = store

    def wish(self, request: Asked) -> Wish:
        """Return what an acquire request asks a store for."""
        return replace(super().wish(request), proposal=self.value)

    def proclaim(self, owner: str, token: int, written: int, value: bytes) -> OwnedSpecial:
        """Return the request that publishes another value of a leader."""
        ask = partial(self.store.proclaim, self.name, owner, token, written, value)
        return OwnedSpecial(ask, self.name, owner)


@final
class Leadership(FencedLease):
    """The lease of a leader: from its election to the end of its block, or the loss.

    `token` is its fencing token, greater than that of every earlier leader.
    """

    __slots__ = ("_written",)

    def __init__(
        self, hold: Hold, limit: float | None, token: int | None, granted_at: float
    ) -> None:
        super().__init__(hold, limit, token, granted_at)
        #: The revision at which its value was last written, as far as is known.
        self._written = token or 0

    async def proclaim(self, value: str | bytes) -> None:
        """Publish another value without another election. One round trip.

        If it is cancelled or gets no answer, the value may be the new one or the old one: proclaim
        again. A request that arrives late changes neither a later value nor that of a later leader.

        Raises:
            LeaseLostError: It no longer leads; nothing changed.
            NotHeldError: It was released.
            ConnectionLostError: The store did not answer.
            BackendError: It refused, for example a value of more than 1.5 MiB.
            ClientClosedError: The client was closed.
            TypeError: The value is neither str nor bytes.
        """
        data = _bytes_of(value)
        self._refuse_released()
        self.check()
        hold = self._hold
        ownership = cast("TaskOwnership", hold.ownership)
        context, commands = ownership.context, ownership.commands
        executor = context.executor
        assert isinstance(commands, _CandidateCommands)
        assert isinstance(executor, StoreExecutor)
        request = commands.proclaim(hold.owner, self.token, self._written, data)
        written = await executor.answer(executor.start(request))
        if not written:
            self._refuse_released()
            context.watchdog.lose(hold, "taken")
            raise self._loss()
        self._written = written

    def _refuse_released(self) -> None:
        if self._state == "released":
            raise self._not_held()


def _candidacy(context: Context, store: ElectionStore, value: bytes, name: Name) -> TaskOwnership:
    """Return the leaderships of a client's tasks that campaign with one value."""
    text = name_of(context, name)
    commands = _CandidateCommands(text, value, store)
    ownership = TaskOwnership(context, name, commands, StoreView, passes=False, reentrant=False)
    ownership.lease_kind = Leadership
    return ownership


@final
class _Candidate(LockOf[Leadership], StoreLock):
    """The lock that the campaigns with one value acquire."""


@final
class Election(ProcessBound):
    """An election of a leader among tasks of any number of processes, in etcd.

    Made by `store.get_election(name)`. A leader holds a lock, and publishes a value that everybody
    can read, such as its address:

        async with election.campaign("host-1:8080") as leadership:
            ...

    It shares its keys with the `Election` of Go's `concurrency` package and with `etcdctl elect`.
    Use it where others must find the leader; otherwise use a lock.

    Promised: at any instant at most one task leads, also if a minority of the members fails. A
    leader's own view ends before etcd's, and its body is cancelled then. Candidates are elected in
    the order in which etcd saw them, also tasks of one client: each has its own key, with its
    value. An observer sees states in their order, and finally the newest one, through broken
    connections, restarts and compaction.

    Not promised: that an observer sees each value. Of several changes in a row it may see only the
    last, and that may be out of date. Against a leader that is paused only the fencing token is
    safe, if the resource checks it.

    A task that leads cannot campaign again: that is a `RuntimeError`. In etcd a lock of the same
    name has the same keys, as in Go: its holder would be a leader with its owner as the value. Use
    a name for one of them.

    Cost: uncontended two round trips for a campaign and its end, one for `proclaim` and `leader`. A
    client that only observes has no session in etcd. It costs one watch, on the stream that all
    watches of the client share, and one read for each change and every few seconds.
    """

    def __init__(
        self, context: Context, executor: StoreExecutor, store: ElectionStore, name: Name
    ) -> None:
        self._context = context
        self._executor = executor
        self._store = store
        self._name = name
        self._text = name_of(context, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    @property
    def name(self) -> Name:
        """The name, as it was given."""
        return self._name

    @explained
    def campaign(
        self,
        value: str | bytes,
        *,
        timeout: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> HoldBlock[StoreLock, Leadership]:
        """Return a block that waits until the task is elected, and leads until it is left.

        `async with election.campaign("host-1:8080") as leadership`. Above an async function it is a
        decorator, as `hold` of a lock is. Times, cancellation, losses and errors are those of
        `hold` and `acquire` of a lock: with `timeout=0` it asks once, and raises
        `AcquireTimeoutError` if somebody else leads.

        Args:
            value: The value of the leader, and of a candidate that waits.
            timeout: Seconds to wait, in all; None: the client's `acquire_timeout`.
            max_hold: Seconds to lead at most; None leads until the block is left.

        Raises:
            TypeError: The value is neither str nor bytes, or a time is none.
            ValueError: A time is out of range.
        """
        return self._candidate(value).hold(timeout=timeout, max_hold=max_hold)

    async def leader(self) -> Leader | None:
        """Return the leader and its value; None if nobody leads. One round trip.

        Raises:
            ConnectionLostError: The store did not answer.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        self._context.check()
        ask = partial(self._store.leader, self._text)
        return _leader_of(await self._executor.answer(self._executor.start(Special(ask))))

    async def observe(self) -> AsyncGenerator[Leader | None]:
        """Yield the present leader, or None, then each change of the leader or its value.

            async for leader in election.observe():
                ...

        It does not poll. Leave the loop whenever you like, by `break` or by cancellation: nothing
        is left behind. It survives broken connections and restarts of etcd.

        Raises:
            ConnectionLostError: The store did not answer for `command_timeout`, so the last state
                may be out of date. Observe again.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        self._context.check()
        observation = _Observation(self)
        try:
            while True:
                with self._context.waiting(observation.channel):
                    seen = await waiting.acquire(observation, self._context.bus, None)
                assert seen is not None
                yield _leader_of(seen)
        finally:
            observation.stop()

    async def inspect(self) -> LockSnapshot:
        """Return the leader and the candidates that wait, for people. Decide nothing from it."""
        return await self._candidate(b"").inspect()

    def _candidate(self, value: str | bytes) -> _Candidate:
        make = partial(_candidacy, self._context, self._store, _bytes_of(value))
        return _Candidate(make, self._name)


class _Observation:
    """Asks who leads, and waits for changes.

    Attributes:
        channel: Its own channel, on which the store announces changes.
    """

    head_start = None
    listens_first = False
    heard_busy_at = 0.0

    def __init__(self, election: Election) -> None:
        owner = election._context.owners.new_owner()
        self.channel: bytes = own_channel(owner)
        self._election = election
        self._observer = election._text, owner
        self._returned: object = self
        self._seen_at = 0.0
        self._stopped = False

    @property
    def wakes(self) -> Wakes:
        """Every message wakes all."""
        return wakes_everybody

    async def run(self, deadline: float | None) -> Sighting | Busy:
        """Return the present state, unless it was returned before."""
        election = self._election
        election._context.check()
        executor, store = election._executor, election._store
        if executor.time() - self._seen_at <= _STILL_SEEN_SECONDS and store.observes(
            self._observer
        ):
            return Busy(None)
        seen: Sighting = await executor.answer(executor.start(Special(self._look), deadline))
        self._seen_at = executor.time()
        leader = _leader_of(seen)
        if leader == self._returned:
            return Busy(None)
        self._returned = leader
        return seen

    async def _look(self, deadline: float) -> Sighting:
        store = self._election._store
        seen = await store.leader(self._election._text, deadline)
        if not self._stopped:
            store.observe(self._observer, seen)
        return seen

    def undo(self) -> None:
        """Do nothing: the request changes nothing in the store."""

    def stop(self) -> None:
        """End the watch, if there is one."""
        self._stopped = True
        # That of an event loop that was closed cannot be ended, and has ended.
        with suppress(RuntimeError):
            self._election._store.unobserve(self._observer)


def _leader_of(seen: Sighting) -> Leader | None:
    return None if seen.value is None else Leader(seen.value, seen.token)
