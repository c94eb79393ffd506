"""The engine's requests about one lock of a store, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._answers import Answer, wakes_everybody
from redisson_py._stores.contract import Kind, Wish
from redisson_py._stores.requests import Ask, Enter, Request, SetLease

if TYPE_CHECKING:
    from redisson_py._engine.server import Asked, Held

#: Fencing tokens taken with each grant, where a store can take several: a hold can be passed on
#: this often in this process.
TOKENS = 64

#: What `Store.give_back` returns if owners of other clients wait.
WAITED_FOR = 2

#: Each kind for people.
_NAMES: dict[Kind, str] = {
    "lock": "lock",
    "read": "read lock",
    "write": "write lock",
    "semaphore": "semaphore mutex",
    "permit": "semaphore",
    "election": "election",
    "once": "once",
}


def own_channel(owner: str) -> bytes:
    """Return the channel of an owner that is rung for alone; no name begins as it does."""
    return b"\0" + owner.encode()


class StoreLockCommands:
    """A lock of a store; `_engine/server.py` says what each part is for.

    Args:
        name: The name, with the client's prefix.
        fenced: Its grants come with fencing tokens.
        held: What is held: a lock, a side of a read-write lock, a semaphore mutex, or an election.
        stay_taken: Its store ends a lease to the time, also that of an owner that is gone.
    """

    __slots__ = ("held", "key", "kind", "name", "stay_taken", "tokens")

    queues = False
    #: It held, and nobody waits.
    alone = 1
    clients = None
    shares_lease = False

    def __init__(
        self, name: str, *, fenced: bool = False, held: Kind = "lock", stay_taken: bool = False
    ) -> None:
        self.name: str = name
        self.stay_taken: bool = stay_taken
        self.key: bytes = name.encode()
        self.held: Kind = held
        self.kind: str = "fenced lock" if fenced else _NAMES[held]
        self.tokens: int = TOKENS if fenced else 0

    @property
    def hold_kind(self) -> str:
        """The kind of what has the same holds under one name: a lock and its fenced lock."""
        return _NAMES[self.held]

    @property
    def channel(self) -> bytes:
        """The name under which the store rings."""
        return self.key

    def request_channel(self, owner: str) -> bytes:
        """Return the name under which the store rings."""
        return self.key

    @staticmethod
    def wakes(message: int) -> int:
        """Return how many waiters of this client a message is for: all."""
        return wakes_everybody(message)

    field: staticmethod[[str], bytes] = staticmethod(str.encode)
    owner: staticmethod[[bytes], str] = staticmethod(bytes.decode)

    def acquire(self, wish: Asked) -> Ask | Enter:
        """Return the request for a hold, or to enter it again."""
        if wish.reenters:
            return Enter(self.name, wish.owner, wish.lease_time)
        return Ask(self.wish(wish))

    def wish(self, request: Asked) -> Wish:
        """Return what an acquire request asks a store for."""
        owner, lease, renewed = request.owner, request.lease_time, request.renewed
        return Wish(self.name, owner, lease, renewed, not request.once, self.tokens, self.held)

    def lower(self, hold: Held, target: int, lease_time: float) -> Request:
        """Return the request that lowers a hold: its count is this client's affair."""
        return SetLease(self.name, hold.owner, lease_time)

    @staticmethod
    def answer(reply: Answer, wish: object) -> Answer:
        """Return the reply, which is an answer already."""
        return reply

    @staticmethod
    def others(reply: int, hears: bool) -> int:
        """Return how many others may wait; the bell may ring for them, and for us if we wait too.

        So a turn lasts for two rings, of which we hear one of our own.
        """
        return WAITED_FOR - hears if reply == WAITED_FOR else 0

    @staticmethod
    def was_lost(reply: object) -> bool:
        """Return whether a final release did not find its hold."""
        return not reply


class UnqueuedCommands(StoreLockCommands):
    """Where each task waits in the store, and not in a local queue: it is rung for alone."""

    __slots__ = ()

    def request_channel(self, owner: str) -> bytes:
        """Return the channel of a waiter."""
        return own_channel(owner)
