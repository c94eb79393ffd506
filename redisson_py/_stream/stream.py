"""One ordered RESP3 stream to one Redis node: scripts, their replies, and the pushes.

Commands leave in the order they were called, those of one turn of the event loop together.
Replies answer them first in, first out; a push that confirms a subscription takes its
command's place in that line, because RESP3 sends no other reply to it.

When the connection breaks, what was not answered is sent again, in order, on the next one,
until each caller's own deadline: every script is safe to repeat. What a caller abandoned
keeps its place, so that an undo written after it cannot overtake it. Where an error reply
puts a command behind others, and where bytes of an old connection are executed late, the
tombstones of the scripts keep the promise instead (lua/lock/acquire.lua).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from redisson_py._loop import (
    Future,
    Timer,
    call_later,
    current_task,
    new_future,
    running_loop,
    wait_for_all,
    wait_until,
    wake,
)
from redisson_py._options import LAST_LOOK, MAX_IN_FLIGHT, SHORTEST_WAIT
from redisson_py._stream.call import (
    Arg,
    Call,
    ReplyError,
    ScriptText,
    cut_off,
    load_command,
    told_again,
)
from redisson_py._stream.deadlines import Deadlines, grace
from redisson_py._stream.handshake import knows_flags
from redisson_py._stream.health import Health
from redisson_py._stream.outage import Outages
from redisson_py._stream.retry import is_moving, is_try_again, pause_before
from redisson_py._stream.room import Room
from redisson_py._stream.wire import Traffic, Wire
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._redis import AbstractConnection, Connector

log = logging.getLogger("redisson_py")


async def _at_once() -> bool:
    """End without waiting for anything."""
    return False


class Stream:
    """One connection at a time to one server, opened at first need and reopened when it breaks.

    Args:
        connector: Opens connections.
        reply_timeout: Seconds after which a connection without an answer counts as dead.
        on_message: Called with channel and payload of every message.
        on_connected: Called when a connection is ready, before anything else is written to it.
        on_down: Called when the connection broke, or could not be opened for good.
        on_end: Awaited when the background task is cancelled while it has a connection, which
            it then keeps for that long; and if it returns True until nothing is `needed`.
        on_outlived: Called when that connection is closed.
        needed: Whether somebody relies on the connection even while no command is under way.
        outages: Is told when the connection is lost, and when it is back.

    Attributes:
        ready: A connection is open and commands go out at once.
        outlives: The connection, once the event loop has ended everything but blocks that rely on
            it.
    """

    def __init__(
        self,
        connector: Connector,
        reply_timeout: float,
        *,
        on_message: Callable[[bytes, bytes], None],
        on_connected: Callable[[], None],
        on_down: Callable[[], None],
        on_end: Callable[[], Awaitable[bool]] = _at_once,
        on_outlived: Callable[[], None] = lambda: None,
        needed: Callable[[], bool],
        outages: Outages | None = None,
    ) -> None:
        self._connector = connector
        self._on_message = on_message
        self._on_connected = on_connected
        self._on_down = on_down
        self._on_end = on_end
        self._on_outlived = on_outlived
        self._needed = needed
        self._outages = outages or Outages(connector.where)
        self.outlives: AbstractConnection | None = None
        self._health = Health(self, reply_timeout, needed)
        self._connection: AbstractConnection | None = None
        self._wire: Wire | None = None
        self._modern = True
        self.ready: bool = False
        self._closed = False
        #: What waits for a connection, in order: nothing that nobody waits for and need not arrive.
        self._backlog: dict[Call, None] = {}
        #: What Redis did not want to do yet, and its reason.
        self._delayed: dict[Call, tuple[Timer, str]] = {}
        self._loads: dict[str, int] = {}
        #: Of scripts that were refused: the number of that load, and Redis' text.
        self._load_errors: dict[str, tuple[int, str]] = {}
        self._room = Room(self._spare, self._no_room)
        self._wanted: Future[None] | None = None
        self._seen = 0
        self._deadlines = Deadlines(self._sent_since, self._give_up)
        self._last_error: BackendError | None = None
        self._demoted = False
        self.traffic: Traffic = Traffic()

    # What callers use.

    @property
    def full(self) -> bool:
        """Whether callers should wait for room before they send more."""
        return self._room.is_full

    def _spare(self) -> int:
        """Return how many more commands may be sent now."""
        wire = self._wire
        if wire is None or self._closed:
            return MAX_IN_FLIGHT
        return 0 if wire.paused else MAX_IN_FLIGHT - len(wire.in_flight)

    @property
    def has_room(self) -> bool:
        """Whether there is a connection, and what is sent now is written at once."""
        wire = self._wire
        return (
            self.ready
            and wire is not None
            and not wire.paused
            and not self._room.crowded
            and len(wire.in_flight) < MAX_IN_FLIGHT
        )

    @property
    def waiting(self) -> bool:
        """Whether an answer is due."""
        return self._wire is not None and bool(self._wire.in_flight)

    async def room(self, deadline: float) -> None:
        """Wait until the transport takes more.

        Raises:
            ConnectionLostError: There was no room before the deadline, in loop time.
        """
        await self._room.wait(deadline)

    def _no_room(self) -> ConnectionLostError:
        return self.no_answer(maybe_held=False)

    def no_answer(self, *, maybe_held: bool) -> ConnectionLostError:
        """Return the error of a caller whose time was up."""
        where = self._connector.where
        if not self.ready:
            return cut_off(where, self._last_error, maybe_held)
        text = f"no answer from Redis at {where} in time"
        return ConnectionLostError(text, maybe_held=maybe_held)

    def send(self, call: Call) -> Call:
        """Put a command in the line; its future gets the answer.

        Raises:
            ClientClosedError: The stream was closed.
        """
        if self.ready:
            wire, script = self._wire, call.script
            assert wire is not None
            if script is not None and script.text not in self._loads:
                # First use on this connection: loaded in the same write, and no NOSCRIPT.
                self._load(script)
            call.sends += 1
            call.written_at = self.traffic.commands
            args = call.args
            packed = args if self._modern and type(args) is bytes else call.pack(self._modern)
            wire.put(call, packed)
        elif self._closed:
            raise ClientClosedError("the client is closed")
        else:
            self._backlog[call] = None
            self._deadlines.add(call)
            call.future.add_done_callback(lambda _: self._forget(call))
            wake(self._wanted)
        if 0 < call.deadline < self._deadlines.next:
            self._deadlines.arm(call.deadline)
        return call

    def command(
        self, args: tuple[Arg, ...], seconds: float, key: bytes = b"", *, must: bool = False
    ) -> Call:
        """Send a plain command that gives up after `seconds`."""
        return self.send(Call(args, running_loop().time() + seconds, must=must, key=key))

    def subscribe(self, channel: bytes) -> None:
        """Listen to a channel; takes effect before whatever is sent next."""
        self._subscription("SUBSCRIBE", channel)

    def unsubscribe(self, channel: bytes) -> None:
        """Stop listening to a channel."""
        self._subscription("UNSUBSCRIBE", channel)

    def _subscription(self, word: str, channel: bytes) -> None:
        # While there is no connection there is nothing to do: `on_connected` subscribes.
        if self.ready:
            self.send(Call((word, channel), 0, must=True, channel=channel))

    def ping(self) -> Call:
        """Ask for a sign of life on this connection; fails as soon as it breaks."""
        return self.send(Call(("PING",), 0, must=True))

    def probe(self) -> None:
        """Have Redis say something, unless an answer is due anyway."""
        if self.ready and not self.waiting:
            self.ping()

    def answers_at(self, moment: float) -> bool:
        """Return whether Redis said anything shortly before a moment, in loop time."""
        return self.traffic.heard_at >= moment - LAST_LOOK

    async def answered_at(self, moment: float) -> bool:
        """Return whether Redis answers at a moment that has come, in loop time."""
        late = running_loop().time() > moment + SHORTEST_WAIT
        if late and self.ready and not self.answers_at(moment):
            # The event loop was blocked: the probe before that moment had no time to be answered.
            await wait_until(self.ping().future, grace(moment))
        return self.answers_at(moment)

    # The life of the connection.

    async def run(self) -> None:
        """Open connections whenever they are needed; ends only by cancellation."""
        attempt = 0
        broke = False
        while not self._closed:
            # What is held is asked after on the next connection, and not only when it is due.
            if not (self._backlog or (broke and self._needed())):
                self._wanted = new_future()
                await self._wanted
            self._wanted = None
            received = self.traffic.received
            try:
                await self._connect()
            except ConnectionLostError as error:
                self._last_error = error
                self._outages.failed(error)
                self._fail_fast()
                await asyncio.sleep(pause_before(attempt))
                attempt += 1
            except BackendError as error:
                broke = False
                self._outages.refused(error)
                self._fail_all(error)
            except Exception as error:
                # Not foreseen. Nobody waits in vain, and the next call finds somebody at work.
                log.exception("the background task of %s failed", self._connector.where)
                self.break_down(error)
                await asyncio.sleep(pause_before(attempt))
                attempt += 1
            else:
                # HELLO is one: a connection that broke before it answered anything else.
                in_vain = self._demoted or self.traffic.received <= received + 1
                attempt = attempt + 1 if in_vain else 0
                broke = True
                if attempt:
                    await asyncio.sleep(pause_before(attempt))

    async def _connect(self) -> None:
        """Open a connection, make it ready, and stay until it breaks."""
        connection = self._connection = await self._open()
        if self._closed or current_task().cancelling():
            # Below Python 3.12 redis-py can swallow a cancellation while it connects.
            await connection.disconnect(nowait=True)
            raise asyncio.CancelledError
        wire = self._wire = Wire(
            self.traffic,
            on_message=self._on_message,
            on_refused=self._refused,
            on_room=self._give_room,
            on_down=self._went_down,
        )
        try:
            # Not imported before somebody connects: redis-py is most of what an import costs.
            from redisson_py._redis import take_over

            wire.attach(take_over(connection, wire))
            await self._greet()
            self._become_ready()
            try:
                await wait_for_all([wire.down])
            except asyncio.CancelledError:
                if await self._on_end():
                    self.outlives = connection
                else:
                    wire.close()
                raise
        except GeneratorExit:
            # The event loop was closed, and this is garbage.
            self.leave_behind()
            raise
        finally:
            if self.outlives is None and self._connection is connection:
                self._connection = None
                self._went_down()
                self._wire = None
                wire.abort()
                self._collect_unanswered(wire)
                await connection.disconnect(nowait=True)
        if not self._closed:
            self._outages.broke(wire.why)
            self._on_down()

    def _went_down(self) -> None:
        self.ready = False
        self._health.stop()
        if self.outlives is not None:
            # Nobody is left to open another.
            self._end_outlived(self.outlives)

    async def _open(self) -> AbstractConnection:
        connector = self._connector
        limit = connector.connect_timeout or max(1.0, self._health.reply_timeout)
        return await connector.open(limit)

    async def _greet(self) -> None:
        """Ask the server who it is, which redis-py did too but keeps to itself."""
        hello = Call(("HELLO",), 0, must=True)
        assert self._wire is not None
        self._wire.put(hello, hello.pack(modern=True))
        if not await wait_until(hello.future, self._health.reply_timeout):
            raise ConnectionLostError("the server did not answer HELLO", maybe_held=False)
        self._modern = knows_flags(hello.future.result())

    def _become_ready(self) -> None:
        self.ready = True
        self._last_error, self._demoted = None, False
        self._loads.clear()
        self._load_errors.clear()
        self._outages.over()
        self._health.start()
        self._on_connected()
        backlog, self._backlog = self._backlog, {}
        for call in backlog:
            if call.wanted:
                self.send(call)

    def _collect_unanswered(self, wire: Wire) -> None:
        """Put what was not answered before what was not sent."""
        unanswered = [c for c in wire.in_flight if c.wanted and c.deadline]
        for call in unanswered:
            call.uncertain = True
            self._deadlines.add(call)
        self._deadlines.rearm()
        self._backlog = dict.fromkeys([*unanswered, *self._backlog])
        self._give_room()

    def _forget(self, call: Call) -> None:
        """Nobody waits for the answer to a call any more, perhaps before it was sent."""
        if not call.wanted:
            self._backlog.pop(call, None)
            self._deadlines.forget()

    def _fail_fast(self) -> None:
        """An attempt to connect has failed, and with it those who ask only once."""
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
        self.fail(error)
        if (wire := self._wire) is not None:
            # Graceful where the server reads, so that the last releases still arrive.
            wire.close()
            await wait_until(wire.down, self._health.reply_timeout)

    def break_down(self, cause: BaseException) -> None:
        """The background task has failed: fail what waits; what must arrive goes out later."""
        text = f"the background task of {self._connector.where} failed: {cause!r}"
        calls, present = self._under_way(), running_loop().time()
        for timer, _ in self._delayed.values():
            timer.cancel()
        self._backlog.clear()
        self._delayed.clear()
        for call in calls:
            error = ConnectionLostError(text, maybe_held=call.sends > 0)
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
        self._on_down()

    def leave_behind(self) -> None:
        """Close the socket although the event loop was closed and nothing of it runs any more."""
        self._closed, self.ready = True, False
        connection, self._connection, self.outlives = self._connection, None, None
        if connection is not None:
            from redisson_py._redis import tear_off

            tear_off(connection)

    def _fail_all(self, error: BackendError | ClientClosedError) -> None:
        calls = self._under_way()
        for timer, _ in self._delayed.values():
            timer.cancel()
        self._backlog.clear()
        self._delayed.clear()
        for call in calls:
            # Each its own: what is raised in one task must not change what another one sees.
            call.fail(told_again(error))
        self._give_room()
        if not self._closed:
            self._on_down()

    def abort(self, reason: str) -> None:
        """Give this connection up; what was not answered goes out again on the next."""
        log.debug("connection to %s given up: %s", self._connector.where, reason)
        self.ready = False
        if self._wire is not None:
            self._wire.why = reason
            self._wire.abort()

    def _give_room(self) -> None:
        if self._room.waiting:
            self._room.give()
        if self.outlives is not None and not (self.waiting or self._needed()):
            self._end_outlived(self.outlives)

    def _end_outlived(self, connection: AbstractConnection) -> None:
        """Close the connection that has outlived the background task."""
        self.outlives = None
        self._went_down()
        if self._wire is not None:
            self._wire.close()
        from redisson_py._redis import let_go

        let_go(connection)
        self._on_outlived()

    # Answers that are errors.

    def _refused(self, call: Call, error: ReplyError) -> None:
        """An error reply: the command was not executed. Send it again where that helps."""
        text = str(error)
        if text.startswith("NOSCRIPT") and call.script is not None:
            self._reload(call, call.script)
        elif call.splits and is_moving(text):
            call.fail(error)
        elif is_try_again(text) and call.deadline:
            self._delay(call, text)
            if "READONLY" in text:
                # A demoted master: a new connection finds the new one, sooner or later.
                self._demoted = True
                self.abort(text)
        elif call.channel is not None:
            log.error("cannot listen to %r: %s", call.channel, text)
        else:
            call.fail(error)

    def _reload(self, call: Call, script: ScriptText) -> None:
        """The server does not know a script (any more): load it, then repeat the call."""
        refused_at, text = self._load_errors.get(script.text, (math.inf, ""))
        if call.written_at >= refused_at:
            call.fail(ReplyError(text))
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
        self._wire.put(load, load_command(script, self._modern))

    def _loaded(self, key: str, number: int, done: Future[object]) -> None:
        error = None if done.cancelled() else done.exception()
        if not isinstance(error, ReplyError):
            self._load_errors.pop(key, None)
            return
        # The next call tries again: the permission may have been granted by then.
        if self._loads.get(key) == number:
            del self._loads[key]
        if not is_try_again(str(error)):
            self._load_errors[key] = number, str(error)

    def _delay(self, call: Call, reason: str) -> None:
        def again() -> None:
            del self._delayed[call]
            if call.wanted and not self._closed:
                self.send(call)

        self._delayed[call] = call_later(pause_before(call.errors), again), reason
        self._deadlines.add(call)
        call.errors += 1

    # Deadlines.

    def _under_way(self) -> list[Call]:
        return [*(self._wire.in_flight if self._wire else ()), *self._backlog, *self._delayed]

    def _sent_since(self) -> Iterable[Call]:
        """Yield the calls in flight that were written since this was asked last, newest first."""
        seen, self._seen = self._seen, self.traffic.commands
        for call in reversed(self._wire.in_flight) if self._wire else ():
            if call.deadline and call.written_at < seen:
                break
            yield call

    def _give_up(self, call: Call) -> None:
        """The time of a call is up, or it fails with an attempt to connect."""
        timer, reason = self._delayed.pop(call, (None, ""))
        if timer is not None:
            timer.cancel()
            text = f"Redis at {self._connector.where} was not ready in time: {reason}"
            call.give_up(ConnectionLostError(text, maybe_held=call.uncertain))
        else:
            call.give_up(self.no_answer(maybe_held=call.uncertain or call.sends > 0))
        if call.must and call.until > running_loop().time():
            # Nobody waits for its answer any more, but it has to arrive.
            call.deadline = call.until
            if timer is not None:
                self.send(call)
            return
        call.must = False
        if self._backlog.pop(call, self) is None:
            self.traffic.evicted += 1
