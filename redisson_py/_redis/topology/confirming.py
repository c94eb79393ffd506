"""A stream whose grants count only when replicas have confirmed them.

WAIT says how many replicas have what its own connection wrote, and while it waits, nothing but
messages comes over that connection. So grants have a connection of their own, and neither a WAIT
nor a frozen replica holds up releases. The subscriptions of waiters are there as well, because
SUBSCRIBE has to leave before the acquire request.

A batch is all calls of one iteration of the event loop, and one WAIT behind them. Calls that are
sent before its answer gather, in order, and are the next batch. "Busy" is passed on as soon as it
comes.

The replicas have `sync_timeout` for a call from the moment it was sent here, even if it had to
gather. So a WAIT ends when the time of its oldest call is up. If too few replicas have confirmed by
then, the caller gets `ReplicationError` and undoes the grant. Gathered calls that have hardly any
time left fail as well, unsent; written calls with more time are covered by the next WAIT. If WAIT
is not answered, because the connection broke or the server is no longer the master, the grant is
not answered either: it is asked for again on the next connection, where the script writes again, so
that WAIT covers it (lua/README.md).

An undo travels on the main stream, and may overtake its grant: the tombstone refuses it then.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

from redisson_py._loop import Future, loop_time, running_loop
from redisson_py._redis.error_replies import is_try_again
from redisson_py._redis.stream.call import Call, ReplyError, shortened
from redisson_py._redis.stream.settings import StreamSettings
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.stream.unconfirmed import Unconfirmed
from redisson_py._redis.stream.wire import Wire
from redisson_py._time import milliseconds
from redisson_py.errors import (
    ClientClosedError,
    ConnectionLostError,
    RedissonError,
    ReplicationError,
    UnsupportedServerError,
)

log = logging.getLogger("redisson_py")

#: Seconds after which a master that had no replicas is asked again.
_LOOK_PAUSE_SECONDS = 1.0

#: The least share of `sync_timeout` that a WAIT lasts, so that working replicas are not too late
#: because a call had to gather. Calls with less time left fail together, not after a WAIT each.
_SHORTEST_WAIT_SHARE = 0.25

#: A replica that has all of the master's data, and how much of what followed it has confirmed.
_ONLINE = re.compile(r"^slave\d+:.*\bstate=online,offset=(\d+)", re.MULTILINE)
_NOTHING_FOLLOWED = re.compile(r"^master_repl_offset:0\s*$", re.MULTILINE)


def count_replicas(replication: str) -> int:
    """Return how many replicas can confirm, from the master's INFO replication.

    A new replica counts only after its first acknowledgement, which takes up to a second. Until
    then it gets no data even if it is online, and WAIT would last as long.
    """
    heard_of = _ONLINE.findall(replication)
    if _NOTHING_FOLLOWED.search(replication):
        return len(heard_of)
    return sum(offset != "0" for offset in heard_of)


class _Gate(Future[Any]):
    """The future of a call that holds up all later ones; it reports at once, not a turn later."""

    def __init__(self, then: Callable[[Any], None], failed: Callable[[ReplyError], None]) -> None:
        super().__init__()
        self._then = then
        self._failed = failed

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        self._then(result)

    def set_exception(self, exception: Any) -> None:
        super().set_exception(exception)
        # With any other error the connection is gone, and waiting calls are sent again.
        if isinstance(exception, ReplyError):
            self._failed(exception)


class ConfirmingStream(Stream):
    """The stream for grants and renewals, and for the messages to those that wait for a grant.

    Args:
        settings: As for `Stream`.
        main: The stream of releases, and of everything else, to the same server.
        replicas: How many must confirm; "auto": one, if the master has any.
        sync_timeout: Seconds that they have for it.
    """

    def __init__(
        self,
        settings: StreamSettings,
        *,
        main: Stream,
        replicas: Literal["auto"] | int,
        sync_timeout: float,
    ) -> None:
        super().__init__(settings)
        self.main, main.grants = main, self
        self._wanted_replicas = replicas
        self._sync_timeout = sync_timeout
        self._number = 0 if replicas == "auto" else replicas
        #: Written, and not confirmed yet; the oldest first.
        self._batch: dict[Call, None] = {}
        #: How many replicas have confirmed it, if these were too few.
        self._got = 0
        #: The WAIT, or the question for replicas, behind which calls gather.
        self._gate: Call | None = None
        self._gate_ends = 0.0
        self._looked_at = 0.0
        self._ending = False
        #: When the first call of this iteration of the event loop was written.
        self._batch_began_at = 0.0

    # What callers use.

    def _spare(self) -> int:
        """Return how many more commands may be sent now; gathered calls go first."""
        spare = super()._spare()
        return spare if self._gate is None else spare - len(self._backlog)

    @property
    def waiting(self) -> bool:
        """Whether an answer is due; that of WAIT only when its time is up."""
        wire = self._wire
        if wire is None or not wire.in_flight:
            return False
        return wire.in_flight[0] is not self._gate or loop_time() >= self._gate_ends

    def send(self, call: Call) -> Call:
        """Send a command in its turn, or with the next batch; its future gets the answer."""
        if not self.main.ready:
            # Open the other connection too: releases and pings go there.
            self.main.want()
        if not self.ready:
            return super().send(call)
        future = call.future
        if self._gate is not None:
            self._backlog[call] = None
            if type(future) is Unconfirmed and not future.since:
                future.since = loop_time()
            if 0 < call.deadline < self._deadlines.next:
                self._deadlines.arm(call.deadline)
            return call
        self._begin_batch()
        if type(future) is Unconfirmed:
            future.begin(self._number > 0, self._batch_began_at)
            self._batch[call] = None
        return super().send(call)

    def gather(self) -> None:
        """Write what is sent in this iteration of the event loop at its end, all at once."""
        if self.ready and self._gate is None:
            self._begin_batch()
            super().gather()

    # Batches.

    def _begin_batch(self) -> None:
        if not self._ending:
            # Called before the wire's own callback: WAIT leaves in one write with its calls.
            self._ending = True
            self._batch_began_at = loop_time()
            running_loop().call_soon(self._end_batch)

    def _end_batch(self) -> None:
        """Write WAIT behind the calls of this turn, if any of them has to be confirmed."""
        self._ending = False
        wire = self._wire
        if wire is None or not self.ready or self._gate is not None:
            return
        if self._batch and self._number:
            oldest = self._future(next(iter(self._batch)))
            left = oldest.since + self._sync_timeout - loop_time()
            seconds = max(left, self._sync_timeout * _SHORTEST_WAIT_SHARE)
            words = ("WAIT", self._number, milliseconds(seconds))
            self._close_gate(words, self._waited, self._not_waited, seconds)
        elif self._batch:
            self._batch.clear()
            present = loop_time()
            if self._wanted_replicas == "auto" and present >= self._looked_at + _LOOK_PAUSE_SECONDS:
                self._look()
        wire.flush()

    def _close_gate(
        self,
        words: tuple[str | int, ...],
        then: Callable[[Any], None],
        failed: Callable[[ReplyError], None],
        seconds: float = 0.0,
    ) -> None:
        """Write a command that holds up all later ones; its answer may take `seconds`."""
        assert self._wire is not None
        gate = self._gate = Call(words, 0, must=True)
        gate.future = _Gate(then, failed)
        self._gate_ends = loop_time() + seconds
        self._wire.put(gate, gate.pack(self._dialect))

    def _waited(self, got: int) -> None:
        """Take the answer to WAIT: how many replicas have what was written before it."""
        if type(got) is not int:
            # As if it was not answered: what it should confirm is asked for again.
            self.abort(f"unexpected answer to WAIT: {shortened(got)}")
            return
        if got < self._number:
            self._got = got
            if self._wanted_replicas == "auto":
                # The last replica may be gone for good.
                self._look()
            else:
                self._fall_short()
            return
        self._confirm()

    def _confirm(self) -> None:
        batch, self._batch = self._batch, {}
        for call in batch:
            self._future(call).confirm()
        self._open_gate()

    def _fall_short(self) -> None:
        """Too few replicas confirmed: fail calls whose time is up; a new WAIT covers the others."""
        began = loop_time() - self._sync_timeout * (1 - _SHORTEST_WAIT_SHARE)
        held = self._held()
        self._batch = {call: None for call in held if self._future(call).since > began}
        for call in held:
            if call not in self._batch:
                self._fail_short(call, self._got)
        for call in [call for call in self._backlog if self._is_unsent(call)]:
            if self._future(call).since <= began:
                del self._backlog[call]
                call.fail(self._behind())
        self._open_gate()

    def _fail_batch(self, error: Callable[[], RedissonError]) -> None:
        held, self._batch = self._held(), {}
        for call in held:
            call.fail(error())
        self._open_gate()

    def _open_gate(self) -> None:
        """Send what has gathered."""
        self._gate = None
        if not self.ready:
            return
        if self._batch:
            self._begin_batch()
        gathered, self._backlog = self._backlog, {}
        for call in gathered:
            if call.wanted:
                self.send(call)

    def _fail_short(self, call: Call, got: int) -> None:
        # `sync_timeout` has passed, or a shorter timeout of the caller.
        call.fail(self._future(call).shortfall(self._number, got))

    def _behind(self) -> ReplicationError:
        # The master answers; the replicas do not.
        text = "replicas did not confirm earlier calls in time: nothing is held"
        return ReplicationError(text, self._number, 0)

    def _not_waited(self, error: ReplyError) -> None:
        """Redis refuses WAIT, or has broken it off."""
        text = str(error)
        if is_try_again(text):
            # Nobody knows which replicas have it: all of it is asked for again, at the new master.
            self._demoted = True
            self.abort(text)
            return
        self._fail_batch(
            lambda: UnsupportedServerError(
                f"sync_replicas needs WAIT, which Redis at {self.where} refuses: {text}"
            )
        )

    # How many replicas there are.

    def _look(self) -> None:
        """Ask the master for its replicas; what is sent until its answer gathers."""
        self._looked_at = loop_time()
        self._close_gate(("INFO", "replication"), self._on_info, self._on_no_info)

    def _on_info(self, reply: object) -> None:
        text = reply.decode(errors="replace") if isinstance(reply, bytes) else str(reply)
        self._use(count_replicas(text))

    def _on_no_info(self, error: ReplyError) -> None:
        """The master does not say how many replicas it has: ask what other servers know."""
        log.debug("sync_replicas='auto' without INFO: %s", error)
        gate = self._gate

        def use(replicas: int | None) -> None:
            if self._gate is gate:
                self._use(self._number if replicas is None else replicas)

        self._tell.count_replicas(self, use)

    def _use(self, replicas: int) -> None:
        """Go on with this number of replicas: one of them must confirm, if there are any."""
        self._number = 1 if replicas else 0
        if self._number and self._batch:
            self._fall_short()
        else:
            self._confirm()

    # The life of the connection.

    async def _greet(self) -> None:
        await super()._greet()
        # Without a connection for releases, a closed client could not give back its grants.
        await self.main.until_ready(self.reply_timeout)
        if self._wire is None or self._wire.down.done():
            raise ConnectionLostError("the connection broke", maybe_held=False)

    def _become_ready(self) -> None:
        if self._wanted_replicas == "auto":
            self._look()
        super()._become_ready()

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; what gathered and has to arrive goes out on the main stream."""
        if self.main.ready:
            for call in [each for each in self._backlog if each.must and each.deadline]:
                del self._backlog[call]
                self.main.send(call)
        super().fail(error)

    def _collect_unanswered(self, wire: Wire) -> None:
        """Put calls first that were answered and not confirmed: they are sent again."""
        held, batch = self._held(), self._batch
        self._batch, self._gate = {}, None
        wire.in_flight.extendleft(reversed(held))
        for call in list(self._backlog):
            if not call.deadline:
                # It concerns this connection only: the next one subscribes all seats.
                del self._backlog[call]
                call.fail(self.no_answer(maybe_held=False))
            elif call.wanted:
                self._keep(call)
        for call in (*batch, *self._backlog):
            if isinstance(call.future, Unconfirmed):
                call.future.begin_anew()
        super()._collect_unanswered(wire)

    def _keep(self, call: Call) -> None:
        self._deadlines.add(call)
        call.future.add_done_callback(lambda _: self._forget(call))

    def _refused(self, call: Call, error: ReplyError) -> None:
        """Handle an error reply: the WAIT of this batch does not cover the call any more."""
        if self._batch.pop(call, call) is None:
            self._future(call).begin_anew()
        super()._refused(call, error)

    @staticmethod
    def _is_unsent(call: Call) -> bool:
        """Whether a gathered grant was never sent to the server, and need not be."""
        return type(call.future) is Unconfirmed and not (call.must or call.sends)

    @staticmethod
    def _future(call: Call) -> Unconfirmed:
        assert isinstance(call.future, Unconfirmed)
        return call.future

    def _held(self) -> list[Call]:
        return [call for call in self._batch if self._future(call).is_held]

    def _under_way(self) -> list[Call]:
        return [*self._held(), *super()._under_way()]

    def _sent_since(self) -> Iterable[Call]:
        # Gathered calls are in no heap: most of them are sent long before their deadline.
        return [*super()._sent_since(), *self._held(), *self._backlog]

    def _give_up(self, call: Call) -> None:
        """Give up a call whose deadline passed; only the confirmation may be missing."""
        future = call.future
        if isinstance(future, Unconfirmed) and future.is_held:
            self._fail_short(call, 0)
        elif (
            self._gate is not None
            and self._gate.args[0] == "WAIT"
            and self._is_unsent(call)
            and call in self._backlog
        ):
            del self._backlog[call]
            call.fail(self._behind())
        else:
            super()._give_up(call)
