"""Elections in stores other than Redis: a hold with a proposal, see `contract.ElectionStore`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, final

from redisson_py._engine.context import Context
from redisson_py._engine.server import Asked
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._keys import Name
from redisson_py._stores.commands import UnqueuedCommands, own_channel
from redisson_py._stores.contract import ElectionStore, Sighting, Wish
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.locks import StoreLock, StoreView, name_of
from redisson_py._stores.ownership import EndedHere
from redisson_py._stores.requests import OwnedSpecial, Special
from redisson_py.locks.election import Leader, Leadership
from redisson_py.locks.lock_of import LockOf

#: What was seen counts again for as long as this, in seconds, while the store watches it: the
#: waiting loop asks twice.
_STILL_SEEN_SECONDS = 0.05


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


async def _proclaim(
    ownership: TaskOwnership, owner: str, token: int, written: int, value: bytes
) -> int:
    commands, executor = ownership.commands, ownership.context.executor
    assert isinstance(commands, _CandidateCommands)
    assert isinstance(executor, StoreExecutor)
    request = commands.proclaim(owner, token, written, value)
    answer: int = await executor.answer(executor.start(request))
    return answer


class _Candidacy(TaskOwnership):
    """The leaderships of a client's tasks that campaign with one value."""

    __slots__ = ()

    async def proclaim(self, owner: str, token: int, written: int, value: bytes) -> int:
        """Publish another value of a leader; return the revision, 0 if it does not lead."""
        return await _proclaim(self, owner, token, written, value)


class _CandidacyEndedHere(EndedHere):
    """The same, in a store that ends no hold."""

    __slots__ = ()

    async def proclaim(self, owner: str, token: int, written: int, value: bytes) -> int:
        """Publish another value of a leader; return the revision, 0 if it does not lead."""
        return await _proclaim(self, owner, token, written, value)


def _candidacy(context: Context, store: ElectionStore, value: bytes, name: Name) -> TaskOwnership:
    """Return the leaderships of a client's tasks that campaign with one value."""
    commands = _CandidateCommands(name_of(context, name), value, store)
    executor = context.executor
    assert isinstance(executor, StoreExecutor)
    kind = _Candidacy if executor.carrier.store.ends_leases else _CandidacyEndedHere
    ownership = kind(context, name, commands, StoreView, passes=False, reentrant=False)
    ownership.lease_kind = Leadership
    return ownership


@final
class StoreCandidate(LockOf[Leadership], StoreLock):
    """The lock that the campaigns with one value acquire."""


@final
class ElectionInStore:
    """Keeps one election in a store; see `Polls`.

    Args:
        context: The parts of the client.
        executor: Asks the store.
        store: The store.
        name: The name, as given.
    """

    def __init__(
        self, context: Context, executor: StoreExecutor, store: ElectionStore, name: Name
    ) -> None:
        self._context = context
        self._executor = executor
        self._name = name
        self.store = store
        self.text: str = name_of(context, name)

    def candidate(self, value: bytes) -> StoreCandidate:
        """Return the lock that campaigns with this value acquire."""
        return StoreCandidate(partial(_candidacy, self._context, self.store, value), self._name)

    async def leader(self) -> Leader | None:
        """Return the leader; None if nobody leads."""
        return _leader_of(await self.asked(partial(self.store.leader, self.text)))

    def look(self) -> _Look:
        """Return what looks for a new observer."""
        return _Look(self, self._context.owners.new_owner())

    async def asked(self, ask: _Asks) -> Sighting:
        """Have the store answer a question about the leader."""
        seen: Sighting = await self._executor.answer(self._executor.start(Special(ask)))
        return seen

    def time(self) -> float:
        """Return the present moment."""
        return self._executor.time()


class _Asks(Protocol):
    """Asks a store who leads."""

    async def __call__(self, deadline: float) -> Any: ...


class _Look:
    """Looks who leads, for one observer, whom the store then rings for once."""

    def __init__(self, election: ElectionInStore, owner: str) -> None:
        self.channel: bytes = own_channel(owner)
        self._election = election
        self._observer = election.text, owner
        self._seen_at = 0.0
        self._stopped = False

    @property
    def is_fresh(self) -> bool:
        """Whether it has just looked, and hears of the next change."""
        election = self._election
        recent = election.time() - self._seen_at <= _STILL_SEEN_SECONDS
        return recent and election.store.observes(self._observer)

    async def look(self) -> tuple[Leader | None, float | None]:
        """Return who leads, and after how many seconds to look although nothing rang."""
        seen = await self._election.asked(self._ask)
        self._seen_at = self._election.time()
        return _leader_of(seen), seen.ends_in

    async def _ask(self, deadline: float) -> Sighting:
        store = self._election.store
        seen = await store.leader(self._election.text, deadline)
        if not self._stopped:
            store.observe(self._observer, seen)
        return seen

    def stop(self) -> None:
        """End the watch, if there is one."""
        self._stopped = True
        # That of an event loop that was closed cannot be ended, and has ended.
        with suppress(RuntimeError):
            self._election.store.unobserve(self._observer)


def _leader_of(seen: Sighting) -> Leader | None:
    return None if seen.value is None else Leader(seen.value, seen.token)
