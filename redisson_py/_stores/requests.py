"""The requests that the engine makes of a store, as values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redisson_py._answers import RefusedError
from redisson_py._loop import Future
from redisson_py._stores.contract import Kind, Renewal, Wish

if TYPE_CHECKING:
    from redisson_py.errors import BackendError


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask for a hold."""

    wish: Wish

    @property
    def owner(self) -> str:
        """Whose request it is."""
        return self.wish.owner


@dataclass(frozen=True, slots=True)
class Enter:
    """Enter a hold again: renew it, and say whether it is there."""

    name: str
    owner: str
    lease: float


@dataclass(frozen=True, slots=True)
class SetLease:
    """Set the lease of a hold, longer or shorter."""

    name: str
    owner: str
    lease: float


@dataclass(frozen=True, slots=True)
class GiveBack:
    """End a hold, or the wait of an owner."""

    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class LeaveTaken:
    """Have a hold end at a moment of `_time.now()`, whatever becomes of its owner."""

    name: str
    owner: str
    until: float


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew holds."""

    batch: tuple[Renewal, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """Look for the holder of a name."""

    name: str
    kind: Kind = "lock"


@dataclass(frozen=True, slots=True)
class ForceRelease:
    """End whatever hold of a kind there is of a name."""

    name: str
    kind: Kind = "lock"


@dataclass(frozen=True, slots=True)
class Ping:
    """Have the store answer."""


@dataclass(frozen=True, slots=True)
class Special:
    """Have a store do what others cannot.

    Attributes:
        ask: Asks it, until a deadline: a moment of `_time.now()`.
    """

    ask: Callable[[float], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class OwnedSpecial(Special):
    """Have a store do for an owner what others cannot."""

    name: str
    owner: str


Owned = Ask | Enter | SetLease | GiveBack | LeaveTaken | OwnedSpecial
"""What is about one owner: one such request of it is carried out after the other."""
Request = Owned | Renew | Look | ForceRelease | Ping | Special


class StoreRefusedError(RefusedError):
    """Raised when a store refused a request.

    Attributes:
        error: The error for the caller.
    """

    def __init__(self, error: BackendError) -> None:
        super().__init__(str(error))
        self.error = error


class StoreCall:
    """A request to a store on its way.

    Args:
        request: The request.
        deadline: When to give up, in loop time.
        must: It has to arrive even if nobody waits for the answer.
        until: Until when `must` applies, in loop time, if that is later than the deadline.

    Attributes:
        future: Gets the answer.
        fails_fast: It fails with the first attempt that fails.
        sends: How often the store was asked.
        uncertain: The store was asked and gave no answer, so it may be carried out twice, or late.
    """

    __slots__ = (
        "counts_from",
        "deadline",
        "fails_fast",
        "future",
        "must",
        "request",
        "sends",
        "uncertain",
        "until",
    )

    def __init__(
        self,
        request: Request,
        deadline: float,
        must: bool = False,
        until: float = 0.0,
        future: Future[Any] | None = None,
    ) -> None:
        self.request: Request = request
        self.deadline: float = deadline
        self.must: bool = must
        self.until: float = max(until, deadline) if must else deadline
        self.future: Future[Any] = Future() if future is None else future
        self.fails_fast: bool = False
        self.sends: int = 0
        self.uncertain: bool = False
        self.counts_from: float | None = None

    @property
    def wanted(self) -> bool:
        """Whether it still makes sense to send it."""
        return self.must or not self.future.done()

    @property
    def maybe_executed(self) -> bool:
        """Whether the store was asked at all."""
        return self.sends > 0

    def refusal(self, error: RefusedError) -> BackendError:
        """Return the error for the caller."""
        return error.error if isinstance(error, StoreRefusedError) else error

    def succeed(self, reply: object) -> None:
        """Hand over the answer, if anybody still waits for it."""
        future = self.unattended() if self.must else self.future
        self.must = False
        if not future.done():
            future.set_result(reply)

    def unattended(self) -> Future[Any]:
        """Return the future of the answer; another one if a cancelled caller has cancelled it."""
        if self.future.cancelled():
            self.future = Future()
        return self.future

    def fail(self, error: BaseException) -> None:
        """Hand over an error for good, if anybody still waits for the answer."""
        must, self.must = self.must, False
        self._give_up(error, must)

    def give_up(self, error: BaseException) -> None:
        """Hand over an error, if anybody waits; a `must` call still has to arrive."""
        self._give_up(error, self.must)

    def _give_up(self, error: BaseException, must: bool) -> None:
        future = self.unattended() if must else self.future
        if not future.done():
            future.set_exception(error)
            if must:
                # Often nobody waits for a call that must arrive: this keeps asyncio from logging.
                future.exception()
