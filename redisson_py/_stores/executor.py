"""A store as the engine sees a server: see `_engine/server.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from redisson_py._answers import Change, RefusedError, Taken
from redisson_py._engine.client_life import ClientLife
from redisson_py._engine.server import SHORTEST_RELEASE_SECONDS, Asked, Held
from redisson_py._loop import Future, Loop, call_later, clock_of, running_loop, wait_until, wake
from redisson_py._options import LAST_LOOK_SECONDS, SHORTEST_WAIT_SECONDS, Options, grace
from redisson_py._outage import Outages
from redisson_py._stores.carrier import Carrier
from redisson_py._stores.contract import Renewal, Store
from redisson_py._stores.requests import (
    GiveBack,
    LeaveTaken,
    Ping,
    Renew,
    Request,
    SetLease,
    StoreCall,
    StoreRefusedError,
)
from redisson_py.errors import BackendError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._stores.commands import StoreLockCommands


class StoreExecutor:
    """Sends the requests of one client to its store. There is one way to it.

    Args:
        store: The store.
        life: The client's.
        options: The client's.
        wake: Called with a name that may be free, or None for all, and the owner that waits for it.
        outages: Where to report them.

    Attributes:
        carrier: Carries them out.
        loop: The event loop to which the client belongs, or None.
        time: The clock of that loop.
    """

    def __init__(
        self,
        store: Store,
        life: ClientLife,
        options: Options,
        wake: Callable[[str | None, str | None], None],
        outages: Outages,
    ) -> None:
        timeout, silence = options.command_timeout, options.reply_timeout
        self.command_timeout: float = timeout
        self.carrier: Carrier = Carrier(store, life, timeout, wake, outages, silence)
        self.loop: object = None
        self.time: Callable[[], float] = self.carrier.time
        self._begin = life.begin
        self._probe: Future[Any] | None = None

    def way_to(self, key: bytes) -> StoreExecutor:
        """Return the only way to the store."""
        return self

    @staticmethod
    def group(commands: object) -> int:
        """Return the same number for all names: any may be renewed together."""
        return 0

    @property
    def ready(self) -> bool:
        """Whether the store has answered the last request."""
        return self.carrier.ready

    @property
    def can_begin(self) -> bool:
        """Whether a hold may be asked for without waiting for anything first."""
        return self.carrier.ready and self.loop is not None

    @staticmethod
    def room(key: bytes, deadline: float | None) -> None:
        """Return nothing to wait for: requests wait for a connection after they were sent."""

    @staticmethod
    def may_keep(commands: StoreLockCommands, hold: Held) -> bool:
        """Return that it may: not every store ends a hold, and a waiter is there until it goes."""
        return True

    def probe(self) -> None:
        """Have the store answer something, unless an answer is due anyway."""
        if self._probe is None or self._probe.done():
            self._probe = self.start(Ping()).future
            # Often nobody waits for it.
            self._probe.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def answered_at(self, moment: float) -> bool:
        """Return whether the store answers at a moment that has come, in loop time."""
        late = self.time() - moment
        if late > SHORTEST_WAIT_SECONDS and self.carrier.heard_at < moment - LAST_LOOK_SECONDS:
            # The event loop was blocked: the probe before that moment had no time to be answered.
            self.probe()
            assert self._probe is not None
            answered = running_loop().create_future()
            self._probe.add_done_callback(lambda _: wake(answered))
            await wait_until(answered, grace(late))
        return self.carrier.heard_at >= moment - LAST_LOOK_SECONDS

    def no_answer(self, *, maybe_held: bool) -> ConnectionLostError:
        """Return the error of a caller whose deadline passed."""
        return self.carrier.no_answer(maybe_held=maybe_held)

    @staticmethod
    async def explain(call: StoreCall, error: RefusedError) -> BackendError:
        """Return the error for the caller of a refused request."""
        return call.refusal(error)

    def ask(
        self,
        commands: StoreLockCommands,
        request: Asked,
        deadline: float | None = None,
        way: object = None,
        future: Future[Any] | None = None,
    ) -> StoreCall:
        """Ask for a hold, or enter it again."""
        call = self.start(commands.acquire(request), deadline, future=future)
        call.fails_fast = request.fails_fast
        return call

    def give_back(
        self,
        commands: StoreLockCommands,
        hold: Held,
        keep: float,
        *,
        late: bool = False,
        change: Change | None = None,
        future: Future[Any] | None = None,
        at: float | None = None,
        taken: Taken | None = None,
    ) -> StoreCall:
        """End a hold, or have it end at a moment to come."""
        if taken is not None:
            leave = LeaveTaken(commands.name, hold.owner, taken.until)
            return self._release(leave, keep, future)
        return self._release(GiveBack(commands.name, hold.owner), keep, future)

    def lower(
        self,
        commands: StoreLockCommands,
        hold: Held,
        target: int,
        lease_time: float,
        keep: float,
        change: Change,
    ) -> StoreCall:
        """Lower the lease of a hold, or its units."""
        return self._release(commands.lower(hold, target, lease_time), keep)

    def undo(
        self,
        commands: StoreLockCommands,
        request: Asked,
        keep: float,
        *,
        late: bool = False,
        change: Change | None = None,
    ) -> StoreCall:
        """Give back what a request may have been granted, and its wait."""
        return self._release(GiveBack(commands.name, request.owner), keep)

    def set_lease(
        self, commands: StoreLockCommands, hold: Held, lease_time: float, change: Change
    ) -> StoreCall:
        """Set the lease of a hold."""
        return self.start(SetLease(commands.name, hold.owner, lease_time), must=True)

    def _release(
        self, request: Request, keep: float, future: Future[Any] | None = None
    ) -> StoreCall:
        """Send a release, and repeat it until it is answered or `keep` seconds have passed."""
        keep = max(keep, SHORTEST_RELEASE_SECONDS)
        present = self.time()
        deadline, until = present + min(self.command_timeout, keep), present + keep
        return self.start(request, deadline, must=True, until=until, future=future)

    def renew(
        self, holds: Sequence[Any], lease_time: float, seconds: float, *, splits: bool
    ) -> StoreCall:
        """Renew holds to a lease; 0 only checks that they are there."""
        batch: list[Renewal] = []
        queues = [self.carrier.queues.get(hold.owner) for hold in holds]
        for hold, queue in zip(holds, queues, strict=True):
            commands, token = hold.ownership.commands, 0 if queue is None else queue.token
            batch.append(Renewal(commands.name, hold.owner, token, lease_time, kind=commands.held))
        call = self.start(Renew(tuple(batch)), self.time() + seconds)
        for queue in queues:
            if queue is not None:
                queue.renewing = call.future
        return call

    def start(
        self,
        request: Request,
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
        future: Future[Any] | None = None,
    ) -> StoreCall:
        """Send a request in its turn; its future gets the answer.

        Raises:
            ClientClosedError: The client is closed.
        """
        if deadline is None:
            deadline = self.time() + self.command_timeout
        self._begin()
        call = StoreCall(request, deadline, must, until, future)
        timer = call_later(max(0.0, call.deadline - self.time()), lambda: self._time_up(call))
        call.future.add_done_callback(lambda _: timer.cancel())
        self.carrier.send(call)
        return call

    def _time_up(self, call: StoreCall) -> None:
        if not call.future.done():
            call.give_up(self.no_answer(maybe_held=call.sends > 0))

    async def answer(self, call: StoreCall) -> Any:
        """Wait for the answer to a call.

        Raises:
            BackendError: The store refused it.
            ConnectionLostError: It did not answer in time.
        """
        try:
            return await call.future
        except StoreRefusedError as error:
            raise error.error from error.error.__cause__

    def use(self, loop: Loop) -> None:
        """Belong to an event loop."""
        self.loop, self._probe = loop, None
        self.time = self.carrier.time = clock_of(loop)
