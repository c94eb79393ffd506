"""One ordered RESP3 stream to one Redis node: scripts, their replies, and the pushes.

Commands leave in the order in which they were called, those of one iteration of the event loop
together. Replies answer them in the same order. A push that confirms a subscription counts as the
reply to its command, because RESP3 sends no other.

When the connection breaks, unanswered calls are sent again on the next one, in order, until each
caller's own deadline: every script is safe to repeat. An abandoned call keeps its place, so that an
undo written after it cannot overtake it. An error reply can put a command behind others, and bytes
of an old connection can be executed late: in these cases the tombstones of the scripts ensure that
an undone acquire has no effect (lua/lock/acquire.lua).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from redisson_py._loop import (
    Future,
    Timer,
    call_later,
    current_task,
    loop_time,
    new_future,
    wait_for_all,
    wait_until,
    wake,
)
from redisson_py._options import (
    LAST_LOOK_SECONDS,
    MAX_COMMANDS_IN_FLIGHT,
    SHORTEST_WAIT_SECONDS,
    grace,
)
from redisson_py._redis.dialect import Dialect
from redisson_py._redis.error_replies import (
    Meaning,
    is_half_done,
    is_moving,
    is_try_again,
    meaning_of,
)
from redisson_py._redis.stream.call import (
    ASKING,
    Arg,
    Call,
    ReplyError,
    ScriptText,
    copied,
    cut_off,
    load_command,
)
from redisson_py._redis.stream.deadlines import Deadlines
from redisson_py._redis.stream.handshake import dialect_of, is_master
from redisson_py._redis.stream.health import Health
from redisson_py._redis.stream.refused_calls import RefusedCalls
from redisson_py._redis.stream.retry import PERMISSION_PAUSE_SECONDS, longest_pause
from redisson_py._redis.stream.room import Room
from redisson_py._redis.stream.settings import (
    LONGEST_ATTEMPT_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SLOW_OPENING_SECONDS,
    Elsewhere,
    StreamSettings,
)
from redisson_py._redis.stream.unconfirmed import Unconfirmed
from redisson_py._redis.stream.wire import Traffic, Wire
from redisson_py._retry import pause_before
from redisson_py.errors import (
    BackendError,
    ClientClosedError,
    ConnectionLostError,
    UnsupportedServerError,
)

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import AbstractConnection

log = logging.getLogger("redisson_py")

#: The dialect of most servers: a call that is already packed is sent to them as it is.
_MODERN = Dialect.MODERN
_SHARDED = Dialect.SHARDED

_ASKING = ("ASKING",)


class Stream:
    """One connection at a time to one server, opened at first need and reopened when it breaks.

    Attributes:
        main: The stream by which routers know the server: this one, if it is not one of grants.
        grants: The stream of what replicas must confirm: this one, if they confirm nothing.
        ready: A connection is open, and commands go out at once.
        outlives: The connection, after the event loop has ended the background task and while
            blocks still rely on it.
    """

    def __init__(self, settings: StreamSettings) -> None:
        self.main: Stream = self
        self.grants: Stream = self
        self._opener = settings.opener
        self._tell = settings.tell
        self._sharded = settings.sharded
        self._outages = settings.outages
        self._fails_over = settings.fails_over
        self._topology = settings.topology
        self.outlives: AbstractConnection | None = None
        self._health = Health(self, settings.reply_timeout)
        self._connection: AbstractConnection | None = None
        self._wire: Wire | None = None
        self._dialect = _MODERN
        self.ready: bool = False
        self._closed = False
        #: The calls that wait for a connection, in order; only those that are still wanted.
        self._backlog: dict[Call, None] = {}
        #: Calls that Redis could not serve yet, and its reason.
        self._delayed: dict[Call, tuple[Timer, str]] = {}
        self._refused_calls = RefusedCalls(settings.opener.where, self._send_again)
        self._loads: dict[str, int] = {}
        #: For each script that Redis refused to load: the number of that load, and the error reply.
        self._load_errors: dict[str, tuple[int, str]] = {}
        #: A call whose ASKING was refused, and the error reply.
        self._unasked: tuple[Call, ReplyError] | None = None
        self._room = Room(self._spare, self._no_room)
        self._wanted: Future[None] | None = None
        self._ready_soon: Future[None] | None = None
        self._seen = 0
        self._deadlines = Deadlines(self._sent_since, self._give_up)
        self._last_error: BackendError | None = None
        self._demoted = False
        #: The last connection was given up because of what came over it.
        self._garbled = False
        #: The server was out of reach, or silent: another one may have taken its keys.
        self._suspected = False
        self._resting = False
        self._retired = False
        self._pause: Future[None] | None = None
        #: How many attempts to connect have failed.
        self._attempt = 0
        self.traffic: Traffic = Traffic()

    # What callers use.

    @property
    def pair(self) -> tuple[Stream, ...]:
        """The streams to the server of this one: that of grants, and this one if it is another."""
        return (self,) if self.grants is self else (self.grants, self)

    def sender(self, call: Call) -> Stream:
        """Return the one of the pair that sends a call."""
        return self.grants if type(call.future) is Unconfirmed else self

    @property
    def full(self) -> bool:
        """Whether callers should wait for room before they send more."""
        return self._room.is_full or (self.grants is not self and self.grants.full)

    @property
    def whole_traffic(self) -> Traffic:
        """What went over all connections to this server."""
        return sum((each.traffic for each in self.pair), Traffic())

    def _spare(self) -> int:
        """Return how many more commands may be sent now."""
        wire = self._wire
        if wire is None or self._closed:
            return MAX_COMMANDS_IN_FLIGHT
        return 0 if wire.paused else MAX_COMMANDS_IN_FLIGHT - len(wire.in_flight)

    @property
    def where(self) -> str:
        """The address of the server."""
        return self._opener.where

    @property
    def needed(self) -> bool:
        """Whether somebody relies on the connection even while no command is under way."""
        return self._tell.needed(self)

    @property
    def suspected(self) -> bool:
        """Whether the server was out of reach, or silent, and has not been confirmed since."""
        return self._suspected

    def suspect(self) -> None:
        """Require another server to confirm this one before the next connection is used."""
        self._suspected = True

    @property
    def delays_callers(self) -> bool:
        """Whether somebody waits for a server that is suspected."""
        return self._suspected and (bool(self._backlog) or self.needed)

    def waiting_keys(self) -> list[bytes]:
        """Return the keys of the calls that wait for a connection."""
        return [call.key for call in self._backlog if call.deadline]

    @property
    def can_begin(self) -> bool:
        """Whether a grant may be asked for without waiting for anything first."""
        wire, grants = self._wire, self.grants
        return (
            self.ready
            and wire is not None
            and not wire.paused
            and not self._room.crowded
            and len(wire.in_flight) < MAX_COMMANDS_IN_FLIGHT
            and (grants is self or (grants.ready and not grants.full))
        )

    @property
    def peer(self) -> object:
        """What it is connected to now, as the transport names it; None: nothing."""
        return None if self._wire is None else self._wire.peer

    @property
    def waiting(self) -> bool:
        """Whether an answer is due."""
        return self._wire is not None and bool(self._wire.in_flight)

    @property
    def idle(self) -> bool:
        """Whether no call is under way."""
        return not (self.waiting or self._backlog or self._delayed or self._refused_calls)

    async def room(self, deadline: float) -> None:
        """Wait until the transport takes more.

        Raises:
            ConnectionLostError: There was no room before the deadline, in loop time.
        """
        await self._room.wait(deadline)
        if self.grants is not self:
            await self.grants.room(deadline)

    def _no_room(self) -> ConnectionLostError:
        return self.no_answer(maybe_held=False)

    def no_answer(self, *, maybe_held: bool) -> ConnectionLostError:
        """Return the error of a caller whose deadline passed."""
        where = self._opener.where
        if not self.ready:
            return cut_off(where, self._last_error, maybe_held)
        text = f"no answer from Redis at {where} in time"
        return ConnectionLostError(text, maybe_held=maybe_held)

    def send(self, call: Call) -> Call:
        """Send a command in its turn; its future gets the answer.

        Raises:
            ClientClosedError: The stream was closed.
        """
        if self.ready:
            wire, script = self._wire, call.script
            assert wire is not None
            if script is not None and script.text not in self._loads:
                # First use on this connection: loaded in the same write, which saves a NOSCRIPT.
                self._load(script)
            if call.asking:
                wire.put(Call(_ASKING, 0, must=True), ASKING)
            call.sends += 1
            call.written_at = self.traffic.commands
            args = call.args
            dialect = self._dialect
            packed = args if dialect is _MODERN and type(args) is bytes else call.pack(dialect)
            wire.put(call, packed)
        elif self._closed:
            if self._retired and self._topology is not None:
                return self._topology.send_again(call)
            raise ClientClosedError("the client is closed")
        else:
            self._backlog[call] = None
            self._deadlines.add(call)
            call.future.add_done_callback(lambda _: self._forget(call))
            wake(self._wanted)
        if 0 < call.deadline < self._deadlines.next:
            self._deadlines.arm(call.deadline)
        return call

    def want(self) -> None:
        """Open a connection, unless there is one."""
        wake(self._wanted)

    async def until_ready(self, seconds: float) -> None:
        """Open a connection, unless there is one, and wait for it."""
        if not self.ready:
            self.want()
            self._ready_soon = new_future()
            await wait_until(self._ready_soon, seconds)

    def command(
        self, args: tuple[Arg, ...], seconds: float, key: bytes = b"", *, must: bool = False
    ) -> Call:
        """Send a plain command that gives up after `seconds`."""
        return self.send(Call(args, loop_time() + seconds, must=must, key=key))

    def subscribe(self, channel: bytes) -> Call | None:
        """Listen to a channel; it takes effect before whatever is sent next.

        Return the command; None without a connection: the next one subscribes to what is needed.
        """
        return self._subscription("SUBSCRIBE", channel)

    def unsubscribe(self, channel: bytes) -> None:
        """Stop listening to a channel."""
        self._subscription("UNSUBSCRIBE", channel)

    def _subscription(self, word: str, channel: bytes) -> Call | None:
        # While there is no connection there is nothing to do: `on_connected` subscribes.
        if not self.ready:
            return None
        word = "S" + word if self._dialect is _SHARDED else word
        call = Call((word, channel), 0, must=True, channel=channel)
        self._send_subscription(call)
        return call

    def _send_subscription(self, call: Call) -> None:
        self.send(call)
        if call.args[0] == "SUNSUBSCRIBE":
            # Completes the SUNSUBSCRIBE: see `Wire`.
            self.send(Call(("HELLO",), 0, must=True))

    def _subscribe_later(self, call: Call, pause: float) -> None:
        """Send a SUBSCRIBE or UNSUBSCRIBE again after a pause, if it still applies then."""

        def again() -> None:
            # A connection that is new since then is subscribed to what is needed.
            if self.ready and self._tell.on_put_off(self, call):
                self._send_subscription(call)

        call.errors += 1
        call_later(pause, again)

    def ping(self) -> Call:
        """Send PING, or HELLO to see the role too; fails as soon as the connection breaks."""
        if not self._fails_over:
            return self.send(Call(("PING",), 0, must=True))
        call = self.send(Call(("HELLO",), 0, must=True))
        call.future.add_done_callback(self._said_hello)
        return call

    def ping_again(self, seconds: float) -> Call:
        """Send PING with the next connection, behind all that waits for it.

        It fails with the first attempt to connect that fails.
        """
        call = Call(("PING",), loop_time() + seconds)
        call.fails_fast = True
        # Who waits for it takes no answer: this keeps asyncio from logging.
        call.future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self.send(call)

    def _said_hello(self, done: Future[object]) -> None:
        """Give the connection up if a server that was a master no longer is one."""
        if not done.cancelled() and done.exception() is None and not is_master(done.result()):
            self._demoted = True
            self.abort("it is a replica now")

    def probe(self) -> None:
        """Send a ping unless an answer is due anyway."""
        if self.ready and not self.waiting:
            self.ping()

    def gather(self) -> None:
        """Write what is sent in this iteration of the event loop at its end, all at once."""
        if self._wire is not None:
            self._wire.gather()

    def answers_at(self, moment: float) -> bool:
        """Return whether Redis sent anything shortly before a moment, in loop time."""
        return self.traffic.heard_at >= moment - LAST_LOOK_SECONDS

    async def answered_at(self, moment: float) -> bool:
        """Return whether Redis answers at a moment that has come, in loop time."""
        late = loop_time() - moment
        if late > SHORTEST_WAIT_SECONDS and self.ready and not self.answers_at(moment):
            # The event loop was blocked: the probe before that moment had no time to be answered.
            await wait_until(self.ping().future, grace(late))
        return self.answers_at(moment)

    # The life of the connection.

    async def run(self) -> None:
        """Open connections whenever they are needed; ends only by cancellation."""
        attempt = 0
        broke = False
        while not self._closed:
            self._attempt = attempt
            # Holds are checked on the next connection at once, not only when a renewal is due.
            if not (self._backlog or (broke and self.needed)):
                self._wanted = new_future()
                await self._wanted
                if self._closed:
                    return
            self._wanted = None
            received = self.traffic.received
            self._demoted = False
            try:
                await self._connect()
            except Elsewhere:
                attempt = 0
                self._outages.ended()
                self._send_on()
            except ConnectionLostError as error:
                if self._closed:
                    return
                self._last_error = error
                self._outages.failed(error)
                if self._topology is not None:
                    self._suspected = True
                    self._topology.went_down(self)
                if self._topology is None or not self._demoted:
                    # A replica that answers is not out of reach, and others know its master.
                    self._fail_fast()
                await self._wait_before(attempt)
                attempt += 1
            except ClientClosedError:
                # Closed during the handshake; all callers have their error.
                pass
            except BackendError as error:
                if self._closed:
                    return
                broke = False
                self._outages.refused(error)
                self._fail_all(error)
            except Exception as error:
                # A bug. No caller is left waiting, and this task goes on for the next call.
                log.exception("the background task of %s failed", self._opener.where)
                self.break_down(error)
                await self._wait_before(attempt)
                attempt += 1
            else:
                # The answer to HELLO is one. The connection broke before it answered anything else.
                in_vain = self._demoted or self._garbled or self.traffic.received <= received + 1
                attempt = attempt + 1 if in_vain else 0
                broke = True
                if attempt:
                    await self._wait_before(attempt)

    async def _wait_before(self, attempt: int) -> None:
        """Pause before an attempt to connect; `hurry` ends the pause."""
        seconds = pause_before(attempt)
        self._pause = new_future()
        await wait_until(
            self._pause, min(seconds, LONGEST_PAUSE_SECONDS) if self._fails_over else seconds
        )

    def hurry(self) -> None:
        """Try to connect at once: the attempt is likely to succeed now."""
        wake(self._pause)

    def _send_on(self) -> None:
        """Send calls that wait here for a connection to the servers that have their keys."""
        assert self._topology is not None
        for call in self._give_away("there is no connection"):
            self._topology.send_again(call)

    def _give_away(self, reason: str) -> list[Call]:
        """Return the waiting calls; fail those that concern only a connection of this stream."""
        waiting = self.take(lambda _: True)
        for call in self._backlog:
            call.fail(ConnectionLostError(reason, maybe_held=False))
        self._backlog.clear()
        return waiting

    async def _connect(self) -> None:
        """Open a connection, make it ready, and stay until it breaks."""
        connection = self._connection = await self._open()
        if self._closed or current_task().cancelling():
            # Below Python 3.12 redis-py can swallow a cancellation while it connects.
            await connection.disconnect(nowait=True)
            raise asyncio.CancelledError
        wire = self._wire = Wire(
            self.traffic,
            on_message=self._tell.on_message,
            on_gone=self._gone,
            on_refused=self._refused,
            on_room=self._give_room,
            on_down=self._went_down,
        )
        try:
            # Imported when somebody connects: redis-py takes most of the import time.
            from redisson_py._redis.redis_py import take_over

            wire.attach(take_over(connection, wire, self._opener.where))
            await self._greet()
            if self._suspected and self._topology is not None:
                await self._topology.confirm(self)
                if wire.down.done() or self._closed:
                    return
            self._become_ready()
            try:
                await wait_for_all([wire.down])
            except asyncio.CancelledError:
                if await self._tell.on_end(self) and self.needed:
                    self.outlives = connection
                else:
                    wire.close()
                raise
        except GeneratorExit:
            # The event loop was closed, and this coroutine was collected.
            self.leave_behind()
            raise
        finally:
            if self.outlives is None and self._connection is connection:
                self._connection = None
                self._went_down()
                self._wire = None
                self._garbled = wire.garbled
                wire.abort()
                self._collect_unanswered(wire)
                await connection.disconnect(nowait=True)
        if self._resting:
            self._resting = False
        elif not self._closed:
            self._outages.broke(wire.why)
            self._tell.on_down(self)

    def _gone(self, channel: bytes) -> None:
        if self._topology is not None:
            self._topology.gone(self, channel)

    def _went_down(self) -> None:
        self.ready = False
        self._health.stop()
        if self.outlives is not None:
            # No task is left to open another one.
            self._end_outlived(self.outlives)

    async def _open(self) -> AbstractConnection:
        opener, began = self._opener, loop_time()
        limit = opener.connect_timeout or max(1.0, self.reply_timeout)
        if self._fails_over and opener.connect_timeout is None:
            # When many clients connect to a new master at once, each of them takes longer.
            limit = min(limit * 2.0 ** min(self._attempt, 10), max(limit, LONGEST_ATTEMPT_SECONDS))
        connection = await opener.open(limit)
        if loop_time() - began > SLOW_OPENING_SECONDS:
            self._suspected = True
        return connection

    @property
    def reply_timeout(self) -> float:
        """Seconds after which a connection without an answer counts as dead."""
        return self._health.reply_timeout

    async def _greet(self) -> None:
        """Send HELLO again: redis-py sends it too, but keeps the answer to itself."""
        hello = Call(("HELLO",), 0, must=True)
        assert self._wire is not None
        self._wire.put(hello, hello.pack(_MODERN))
        where = self._opener.where
        if not await wait_until(hello.future, self.reply_timeout):
            raise ConnectionLostError(f"Redis at {where} did not answer HELLO", maybe_held=False)
        if self._wire.down.done():
            text = f"the connection to Redis at {where} broke: {self._wire.why}"
            raise ConnectionLostError(text, maybe_held=False)
        facts = hello.future.result()
        if self._fails_over and not is_master(facts):
            self._demoted = True
            raise ConnectionLostError(f"Redis at {where} is a replica", maybe_held=False)
        try:
            self._dialect = dialect_of(facts, sharded=self._sharded)
        except UnsupportedServerError as error:
            raise UnsupportedServerError(f"cannot use Redis at {where}: {error}") from None

    def _become_ready(self) -> None:
        self.ready = True
        self._last_error, self._demoted, self._suspected = None, False, False
        self._loads.clear()
        self._load_errors.clear()
        self._unasked = None
        self._outages.ended()
        self._health.start()
        wake(self._ready_soon)
        self._tell.on_connected(self)
        backlog, self._backlog = self._backlog, {}
        for call in backlog:
            if call.wanted:
                self.send(call)

    def _collect_unanswered(self, wire: Wire) -> None:
        """Put unanswered calls before those that were not sent."""
        unanswered = [c for c in wire.in_flight if c.wanted and c.deadline]
        for call in unanswered:
            call.uncertain = True
            self._deadlines.add(call)
        self._deadlines.rearm()
        self._backlog = dict.fromkeys([*unanswered, *self._backlog])
        self._give_room()
        if self._topology is not None and not self._closed and not self._resting:
            self._suspected = True
            self._topology.went_down(self)

    def take(self, leaves: Callable[[bytes], bool]) -> list[Call]:
        """Return, in order, the calls that wait here for keys that another server has now.

        A call that was written to an open connection is answered there, and a call without a
        deadline concerns this connection only; both stay.
        """
        waiting = (*self._backlog, *self._delayed, *self._refused_calls)
        taken = [call for call in waiting if call.deadline and leaves(call.key)]
        for call in taken:
            self._backlog.pop(call, None)
            timer, _ = self._delayed.pop(call, (None, ""))
            if timer is not None:
                timer.cancel()
            self._refused_calls.drop(call)
            self._deadlines.release(call)
        return taken

    def retire(self, reason: str) -> list[Call]:
        """End, because the server serves none of our keys any more; return unanswered calls.

        Its later answers are ignored: it may have been frozen while another server took its place.
        """
        self.ready, self._closed, self._retired = False, True, True
        wire = self._wire
        if wire is not None:
            wire.why = reason
            wire.abort()
            self._collect_unanswered(wire)
            for call in wire.in_flight:
                if not call.deadline:
                    call.fail(ConnectionLostError(reason, maybe_held=False))
            wire.in_flight.clear()
        unanswered = self._give_away(reason)
        self._give_room()
        self._deadlines.close()
        self._outages.ended(served_elsewhere=True)
        wake(self._wanted)
        wake(self._pause)
        return unanswered

    def let_go(self, call: Call) -> None:
        """Forget the deadline of a call that was refused here and is sent elsewhere."""
        self._deadlines.release(call)
        self._refused_calls.drop(call)

    @property
    def may_close_idle(self) -> bool:
        """Whether the connection may be closed while nobody needs it."""
        return self._topology is not None

    def close_idle(self) -> None:
        """Close the unused connection until somebody needs one."""
        if self._wire is not None and not self._backlog:
            self.ready, self._resting = False, True
            self._wire.close()

    def _forget(self, call: Call) -> None:
        """Drop a call for whose answer nobody waits any more, if it need not arrive."""
        if not call.wanted:
            self._backlog.pop(call, None)
            self._deadlines.forget()

    def _fail_fast(self) -> None:
        """Fail the calls that wait for one attempt to connect only."""
        for call in [call for call in self._backlog if call.fails_fast]:
            self._give_up(call)

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        self._closed, self.ready = True, False
        self._deadlines.close()
        if self._wire:
            self._wire.flush()
        self._fail_all(error)

    async def close(self, error: ClientClosedError) -> None:
        """Fail what is under way and close the connection."""
        if (down := self.close_soon(error)) is not None:
            await wait_until(down, self.reply_timeout)

    def close_soon(self, error: ClientClosedError) -> Future[None] | None:
        """Fail what is under way; return a future that is done when the connection is closed.

        Without a connection, return None.
        """
        self.fail(error)
        if self._wire is None:
            return None
        # Closed only after everything is written, so that the last releases still arrive.
        self._wire.close()
        return self._wire.down

    def break_down(self, cause: BaseException) -> None:
        """The background task has failed: fail all calls; those that must arrive go out later."""
        text = f"the background task of {self._opener.where} failed: {cause!r}"
        calls, present = self._take_all(), loop_time()
        for call in calls:
            error = ConnectionLostError(text, maybe_held=call.maybe_executed)
            error.__cause__ = cause
            if not call.must or call.until <= present:
                call.fail(error)
                continue
            call.give_up(error)
            call.deadline = call.until
            self._backlog[call] = None
            self._deadlines.add(call)
            if call.deadline < self._deadlines.next:
                self._deadlines.arm(call.deadline)
        self.ready = False
        self._give_room()
        self._tell.on_down(self)

    def leave_behind(self) -> None:
        """Close the socket although the event loop was closed and nothing of it runs any more."""
        self._closed, self.ready = True, False
        connection, self._connection, self.outlives = self._connection, None, None
        if connection is not None:
            from redisson_py._redis.redis_py import tear_off

            tear_off(connection)

    def _fail_all(self, error: BackendError | ClientClosedError) -> None:
        for call in self._take_all():
            # Each gets its own: raising an error changes it, which other tasks must not see.
            call.fail(copied(error))
        self._give_room()
        if not self._closed:
            self._tell.on_down(self)

    def mistrust(self) -> None:
        """Hold back what a silent server sends next until another server has confirmed its role.

        It may be frozen, and another server may take its place meanwhile.
        """
        wire, topology = self._wire, self._topology
        if wire is None or topology is None:
            return

        def read_on() -> None:
            if self._wire is wire:
                wire.read_on()

        wire.hold_back(lambda: topology.confirm_late(self, read_on))

    def abort(self, reason: str) -> None:
        """Give the connections of the pair up; unanswered calls go out again on the next."""
        log.debug("connection to %s given up: %s", self._opener.where, reason)
        self.ready = False
        if self._wire is not None:
            self._wire.why = reason
            self._wire.abort()
        if self.grants is not self:
            self.grants.abort(reason)

    def _give_room(self) -> None:
        if self._room.waiting:
            self._room.give()
        if self.outlives is not None and not (self.waiting or self.needed):
            self._end_outlived(self.outlives)

    def _end_outlived(self, connection: AbstractConnection) -> None:
        """Close the connection that has outlived the background task, and that of grants."""
        if self.grants is not self and self.grants.outlives is not None:
            self.grants._end_outlived(self.grants.outlives)
        self.outlives = None
        self._went_down()
        if self._wire is not None:
            self._wire.close()
        from redisson_py._redis.redis_py import let_go

        let_go(connection)
        self._tell.on_outlived(self)

    # Error replies.

    def _refused(self, call: Call, error: ReplyError) -> None:
        """Handle an error reply: send the call again where that helps, else fail it."""
        text = str(error)
        meaning = meaning_of(text)
        if not is_half_done(text):
            call.refusals += 1
        if self._fails_over:
            error.where = self._opener.where
        if self._topology is not None and (
            self._not_asked(call, error) or self._topology.redirected(self, call, error)
        ):
            return
        if meaning is Meaning.NO_SCRIPT and call.script is not None:
            self._reload(call, call.script)
        elif call.splits and is_moving(text):
            call.fail(error)
        elif call.deadline and (
            meaning is Meaning.LATER or (meaning is Meaning.FULL and call.until)
        ):
            self._postponed(call, text)
            self._refused_calls.add(call, text)
        elif is_try_again(text) and call.deadline:
            self.delay(call, text)
            if "READONLY" in text:
                # A demoted master: sooner or later a new connection finds the new one.
                self._demoted = True
                self.abort(text)
        elif call.channel is not None:
            if is_try_again(text):
                longest = longest_pause(text, len(self._delayed))
                self._subscribe_later(call, pause_before(call.errors + 1, longest))
            # A SUNSUBSCRIBE that is refused because the slot moved away has taken effect anyway.
            elif call.args[0] != "SUNSUBSCRIBE" or not text.startswith(("MOVED", "CLUSTERDOWN")):
                if text != call.why_not and not self._tell.is_known(call.channel, text):
                    log.error("cannot listen to %r: %s", call.channel, text)
                call.why_not = text
                self._subscribe_later(call, PERMISSION_PAUSE_SECONDS)
        else:
            call.fail(error)

    def _not_asked(self, call: Call, error: ReplyError) -> bool:
        """Handle a refused ASKING and the call behind it; return whether the call was failed."""
        if call.args is _ASKING:
            assert self._wire is not None
            self._unasked = (self._wire.in_flight[0], error)
            return False
        if self._unasked is None or self._unasked[0] is not call:
            return False
        (_, reason), self._unasked = self._unasked, None
        if is_try_again(str(reason)) or not str(error).startswith("MOVED"):
            return False
        # Otherwise two nodes would send it back and forth forever.
        call.fail(reason)
        return True

    def _reload(self, call: Call, script: ScriptText) -> None:
        """Load a script that the server does not know, or forgot, and repeat the call."""
        refused_at, text = self._load_errors.get(script.text, (math.inf, ""))
        if call.written_at >= refused_at:
            refused = ReplyError(text)
            if self._fails_over:
                refused.where = self._opener.where
            call.fail(refused)
            return
        if call.written_at >= self._loads.get(script.text, -1):
            self._load(script)
        if call.wanted:
            self.send(call)

    def _load(self, script: ScriptText) -> None:
        assert self._wire is not None
        number = self._loads[script.text] = self.traffic.commands
        load = Call((), 0, must=True)
        load.future.add_done_callback(lambda done: self._loaded(script.text, number, done))
        self._wire.put(load, load_command(script, self._dialect))

    def _loaded(self, key: str, number: int, done: Future[object]) -> None:
        error = None if done.cancelled() else done.exception()
        if not isinstance(error, ReplyError):
            self._load_errors.pop(key, None)
            return
        # The next call loads it again: the permission may have been granted by then.
        if self._loads.get(key) == number:
            del self._loads[key]
        if not is_try_again(str(error)):
            self._load_errors[key] = number, str(error)

    def delay(self, call: Call, reply: str, reason: str = "") -> None:
        """Send a call again after a pause: Redis cannot serve it yet.

        Args:
            call: The call.
            reply: The error reply.
            reason: What it means, where it does not say so itself.
        """
        pause = pause_before(call.errors, longest_pause(reply, len(self._delayed)))
        reason = reason or reply
        self._delayed[call] = call_later(pause, lambda: self._end_pause(call)), reason
        self._postponed(call, reason)

    def _postponed(self, call: Call, reason: str) -> None:
        """Note that a call was refused, and waits here to be sent again."""
        call.why_not = f"it was not ready: {reason}"
        call.errors += 1
        self._deadlines.add(call)
        # Until now it may have been a call of another stream.
        self._deadlines.rearm()

    def _send_again(self, call: Call) -> None:
        if self._topology is not None:
            self._deadlines.release(call)
            self._topology.send_again(call)
        elif call.wanted and not self._closed:
            self.send(call)

    def _end_pause(self, call: Call) -> None:
        timer, _ = self._delayed.pop(call)
        timer.cancel()
        self._send_again(call)

    def end_pauses(self, concerns: Callable[[bytes], bool]) -> None:
        """Send the calls for some keys at once that wait for Redis to be ready for them."""
        for call in [each for each in self._delayed if concerns(each.key)]:
            self._end_pause(call)

    # Deadlines.

    def _under_way(self) -> list[Call]:
        in_flight = self._wire.in_flight if self._wire else ()
        return [*in_flight, *self._backlog, *self._delayed, *self._refused_calls]

    def _take_all(self) -> list[Call]:
        """Return the calls under way; nothing sends them any more."""
        calls = self._under_way()
        for timer, _ in self._delayed.values():
            timer.cancel()
        self._backlog.clear()
        self._delayed.clear()
        self._refused_calls.clear()
        return calls

    def _sent_since(self) -> Iterable[Call]:
        """Yield the calls in flight that were written since the last call of this, newest first."""
        seen, self._seen = self._seen, self.traffic.commands
        for call in reversed(self._wire.in_flight) if self._wire else ():
            if call.deadline and call.written_at < seen:
                break
            yield call

    def _give_up(self, call: Call) -> None:
        """Give up a call whose deadline passed, or that fails with an attempt to connect."""
        timer, reason = self._delayed.pop(call, (None, ""))
        if timer is not None:
            timer.cancel()
        if reason := reason or self._refused_calls.reason(call):
            text = f"Redis at {self._opener.where} was not ready in time: {reason}"
            call.give_up(ConnectionLostError(text, maybe_held=call.maybe_executed))
        else:
            error = self.no_answer(maybe_held=call.maybe_executed)
            if call.why_not:
                error = ConnectionLostError(
                    f"{error}; before that {call.why_not}",
                    maybe_held=error.maybe_held,
                )
            call.give_up(error)
        if call.must and call.until > loop_time():
            # Nobody waits for its answer any more, but it has to arrive.
            call.deadline = call.until
            if timer is not None:
                self.send(call)
            return
        call.must = False
        self._refused_calls.drop(call)
        if self._backlog.pop(call, self) is None:
            self.traffic.evicted += 1
