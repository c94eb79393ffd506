"""A store in this process: the shortest that does what `_stores/contract.py` asks for.

An example for whoever adds a store. Clients of one `Dict` share its locks; there is no server, so
nothing is lost on the way, and the clock is that of the engine.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from redisson_py._stores.client import StoreClient
from redisson_py._stores.contract import (
    Bell,
    Busy,
    Granted,
    HolderState,
    Kind,
    Renewal,
    State,
    Wish,
)
from redisson_py._stores.last_failure import LastFailure
from redisson_py._time import now
from redisson_py.errors import BackendError


@dataclass
class Holder:
    """Who has a name, until when, with which fencing token."""

    owner: str
    token: int
    until: float


@dataclass
class Dict:
    """What the clients share.

    Attributes:
        holders: The holder of each name.
        waiters: Who waits for each name, in order, and the store that rings for it.
        gone: Owners that gave back and may still have a request on its way.
        tokens: The next fencing token.
        asks: How often anybody asked for a hold.
    """

    holders: dict[str, Holder] = field(default_factory=dict)
    waiters: defaultdict[str, dict[str, DictStore]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    gone: set[str] = field(default_factory=set)
    tokens: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    asks: int = 0

    def holder(self, name: str) -> Holder | None:
        """Return the holder of a name whose lease has not ended."""
        holder = self.holders.get(name)
        return holder if holder is not None and holder.until > now() else None

    def ring(self, name: str) -> None:
        """Ring for all that wait for a name."""
        for owner, store in list(self.waiters[name].items()):
            store.bell.ring(name, owner)


class DictStore:
    """One client's way to a `Dict`."""

    title = "Dict"
    where = "this process"
    ends_leases = True
    leases_are_exact = True
    bell: Bell

    def __init__(self, shared: Dict) -> None:
        self.shared = shared
        self.last_failure = LastFailure("the dict")

    async def start(self, bell: Bell, deadline: float) -> None:
        self.bell = bell

    async def stop(self) -> None: ...

    def leave_behind(self) -> None: ...

    async def ping(self, deadline: float) -> None: ...

    def keys(self, name: str, kind: Kind = "lock") -> Sequence[str]:
        return (name,)

    async def ask(self, wish: Wish, deadline: float) -> Granted | Busy:
        shared, name, owner = self.shared, wish.name, wish.owner
        shared.asks += 1
        if owner in shared.gone:
            raise BackendError(f"{owner} has given {name!r} back")
        holder = shared.holder(name)
        if holder is None or holder.owner == owner:
            token = next(shared.tokens) if holder is None else holder.token
            shared.holders[name] = Holder(owner, token, now() + wish.lease)
            shared.waiters[name].pop(owner, None)
            return Granted(shared.holders[name].until, token)
        if wish.waits:
            shared.waiters[name][owner] = self
        return Busy(holder.until - now())

    async def give_back(
        self, name: str, owner: str, unsure: bool, deadline: float, kind: Kind = "lock"
    ) -> int | None:
        shared, holder = self.shared, self.shared.holder(name)
        shared.waiters[name].pop(owner, None)
        if unsure:
            shared.gone.add(owner)
        if holder is None or holder.owner != owner:
            return 0
        del shared.holders[name]
        shared.ring(name)
        return 2 if any(store is not self for store in shared.waiters[name].values()) else 1

    async def renew(self, batch: Sequence[Renewal], deadline: float) -> Sequence[float | None]:
        kept: list[float | None] = []
        for each in batch:
            holder = self.shared.holder(each.name)
            if holder is None or (holder.owner, holder.token) != (each.owner, each.token):
                kept.append(None)
                continue
            until = now() + each.lease
            if each.lease:
                holder.until = until if each.exact else max(holder.until, until)
            kept.append(holder.until)
        return kept

    async def look(self, name: str, deadline: float, kind: Kind = "lock") -> State:
        holder = self.shared.holder(name)
        found = None
        if holder is not None:
            found = HolderState(holder.owner, holder.until - now(), holder.token)
        return State(found, tuple(self.shared.waiters[name]), (name,))

    async def force_release(self, name: str, deadline: float, kind: Kind = "lock") -> bool:
        held = self.shared.holder(name) is not None
        self.shared.holders.pop(name, None)
        self.shared.ring(name)
        return held


class DictClient(StoreClient):
    """Makes locks that a `Dict` keeps."""

    def __init__(self, shared: Dict) -> None:
        super().__init__(lambda lease_time: DictStore(shared), {})
