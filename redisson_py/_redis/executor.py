"""Redis as the engine sees a server; runs scripts and single commands.

Tombstones, versions, packed calls, the order on a stream and what replicas confirm are known from
here on, and not to the engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redisson_py._answers import Change, Granted, RefusedError, Taken
from redisson_py._engine.server import SHORTEST_RELEASE_SECONDS, Asked, Held
from redisson_py._loop import Future, Loop, clock_of, monotonic
from redisson_py._options import TOMBSTONE
from redisson_py._redis.commands.client_queue import ClientQueue
from redisson_py._redis.commands.contract import RedisCommands
from redisson_py._redis.commands.lock import LockCommands
from redisson_py._redis.commands.request import Command
from redisson_py._redis.scripts.source import Arg, Script
from redisson_py._redis.scripts.wrong_type import explained
from redisson_py._redis.stream.call import Call, ReplyError, shortened
from redisson_py._redis.stream.router import Router
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.stream.unconfirmed import (
    NEW_LEASE,
    NEW_RECORD,
    NOTHING_HELD,
    Unconfirmed,
)
from redisson_py._time import milliseconds
from redisson_py.errors import BackendError, ScriptError, UnsupportedServerError

#: Seconds to wait for the type of a key that was refused.
_TYPE_PATIENCE_SECONDS = 1.0


def _grants_nothing(reply: object) -> bool:
    """Return False: it keeps the order of grants, and needs no replica."""
    return False


def _keeps(reply: Any) -> bool:
    """Return whether a hold was kept for an adopter, or adopted, which replicas must confirm."""
    return bool(reply > 0)


class Executor:
    """Sends scripts to the node that serves their first key.

    Args:
        router: The streams.
        begin: Called before the first command, and whenever there is no connection.
        command_timeout: Seconds to wait for Redis while it does not answer.
        lease_time: Seconds of the client's lease.
        confirms: Grants count only when replicas have confirmed them.
    """

    def __init__(
        self,
        router: Router,
        begin: Callable[[], None],
        command_timeout: float,
        lease_time: float,
        *,
        confirms: bool,
    ) -> None:
        self.router = router
        #: Returns the stream to the node of a key.
        self.way_to: Callable[[bytes], Stream] = router.stream_for
        self.command_timeout = command_timeout
        self._lease_time = lease_time
        #: Whether grants count only when replicas have confirmed them: an answer may come later
        #: than what it tells of, and a release may overtake a request.
        self.confirms = confirms
        self._begin = begin
        #: The event loop that the client belongs to, from its first use to its end, and its clock.
        self.loop: object = None
        self.time: Callable[[], float] = monotonic

    def use(self, loop: Loop) -> None:
        """Belong to an event loop."""
        self.loop = loop
        self.time = clock_of(loop)

    def start(
        self,
        script: Script,
        key: bytes,
        args: bytes,
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
    ) -> Call:
        """Put one call of `script` in the stream of `key`; its future gets the answer.

        Args:
            script: What to run.
            key: The key that decides the node.
            args: What `script.bind` returned.
            deadline: When to give up, in loop time; None after `command_timeout`.
            must: It has to arrive even if nobody waits for the answer.
            until: Until when it is repeated, in loop time, if that is later than `deadline`.
        """
        return self._start(script, key, script.head + args, deadline, must, until)

    def start_record(self, script: Script, key: bytes, args: bytes) -> Call:
        """Put one call in the stream that records something for good, in order with all grants.

        It has to arrive even if nobody waits for the answer; 1, it was recorded, needs replicas.
        """
        packed = script.head + args
        return self._start(script, key, packed, must=True, gives=bool, short=NEW_RECORD)

    # What the engine asks: see `_engine/server.py`.

    def room(self, key: bytes, deadline: float | None) -> Awaitable[None] | None:
        """Return what a caller waits for before it asks for more; None: it may ask now."""
        stream = self.way_to(key)
        return stream.room(self.limit(deadline)) if stream.full else None

    def may_keep(self, commands: RedisCommands, hold: Held) -> bool:
        """Return whether Redis may still keep something of a hold that was lost."""
        # One that was renewed until now ends later there.
        ended_early = hold.reason == "ended" or self.confirms
        return commands.leaves_traces or (hold.renewed and ended_early)

    def ask(
        self,
        commands: RedisCommands,
        request: Asked,
        deadline: float | None = None,
        stream: Stream | None = None,
        future: Future[Any] | None = None,
    ) -> Call:
        """Send a request for a hold, in order with all grants."""
        plain, key, field = commands.plain, commands.key, request.field
        if (
            plain is not None
            and not (request.checks or request.compares or request.client or request.yields)
            and request.target == 1
            and request.change is None
            and request.lease_time == plain.lease_time
            and (not commands.queues or (request.deadline is None and not request.once))
        ):
            packed = plain.acquire[len(field)](key, field)
        else:
            packed = commands.acquire_script.head + commands.acquire(request)
        if stream is None:
            stream = self._stream_for(key)
        if deadline is None:
            deadline = self.time() + self.command_timeout
        call = Call(packed, deadline, commands.acquire_script, False, key, 0.0, future)
        if self.confirms:
            call.future = Unconfirmed(
                lambda reply: reply is None or type(commands.answer(reply, request)) is Granted
            )
            stream = stream.grants
        stream.send(call)
        call.fails_fast = request.fails_fast
        return call

    def give_back(
        self,
        commands: RedisCommands,
        hold: Held,
        keep: float,
        *,
        late: bool = False,
        change: Change | None = None,
        future: Future[Any] | None = None,
        at: float | None = None,
        taken: Taken | None = None,
    ) -> Call:
        """Send the release of a whole hold, or what leaves its name taken."""
        field, plain, script = hold.field, commands.plain, commands.release_script
        if taken is not None:
            assert isinstance(commands, LockCommands)
            assert commands.leave_taken_script is not None
            script = commands.leave_taken_script
            packed = script.head + commands.leave_taken(hold, taken, late)
        elif plain is not None and not late and change is None and hold.units == 1:
            packed = plain.release[len(field)](commands.key, field)
        else:
            args = commands.release(hold, 0, milliseconds(self._lease_time), late, change)
            packed = commands.release_script.head + args
        # As `_release`, without the cost of calls.
        key, present = commands.key, self.time() if at is None else at
        stream = self.way_to(key)
        if self.loop is None or not stream.ready:
            self._begin()
        if keep < SHORTEST_RELEASE_SECONDS:
            keep = SHORTEST_RELEASE_SECONDS
        until, deadline = present + keep, present + self.command_timeout
        if until < deadline:
            deadline = until
        call = Call(packed, deadline, script, True, key, until, future)
        if change is not None and self.confirms:
            call.future = Unconfirmed(_grants_nothing)
            stream = stream.grants
        stream.send(call)
        return call

    def lower(
        self,
        commands: RedisCommands,
        hold: Held,
        target: int,
        lease_time: float,
        keep: float,
        change: Change,
    ) -> Call:
        """Send a smaller hold count, or number of units, and the lease that is left."""
        # Repeated for less time than Redis remembers a later change.
        keep = min(keep, TOMBSTONE / 2)
        args = commands.release(hold, target, milliseconds(lease_time), False, change)
        return self._release(commands, commands.release_script.head + args, keep, change)

    def undo(
        self,
        commands: RedisCommands,
        request: Asked,
        keep: float,
        *,
        late: bool = False,
        change: Change | None = None,
    ) -> Call:
        """Send the release of what a request may have been granted."""
        late = late or (self.confirms and change is None)
        args = commands.undo(request, late, change)
        return self._release(commands, commands.release_script.head + args, keep, change)

    def _release(
        self, commands: RedisCommands, packed: bytes, keep: float, change: Change | None
    ) -> Call:
        """Send a release, and repeat it until it is answered or `keep` seconds have passed.

        A change is in order with all grants: its owner remains in use.
        """
        until = self.time() + max(keep, SHORTEST_RELEASE_SECONDS)
        deadline = min(self.limit(), until)
        gives = None if change is None else _grants_nothing
        script = commands.release_script
        return self._start(script, commands.key, packed, deadline, True, until, gives)

    def set_lease(
        self, commands: RedisCommands, hold: Held, lease_time: float, change: Change
    ) -> Call:
        """Send a new lease of a hold, in order with all grants."""
        args = commands.set_lease(hold, milliseconds(lease_time), change)
        script = commands.set_lease_script
        packed = script.head + args
        return self._start(script, commands.key, packed, must=True, gives=bool, short=NEW_LEASE)

    def hand_over(
        self, commands: LockCommands, hold: Held, lease_time: float, change: Change, secret: str
    ) -> Call:
        """Have a hold kept for whoever adopts it, in order with all grants.

        It need not arrive: a caller that has left goes on holding it.
        """
        args = commands.hand_over(hold, milliseconds(lease_time), change, secret)
        script = commands.hand_over_script
        packed = script.head + args
        return self._start(script, commands.key, packed, gives=_keeps, short=NEW_LEASE)

    def adopt(
        self, commands: LockCommands, request: Asked, giver: str, secret: str, until_ms: int
    ) -> Call:
        """Ask for the hold of another owner, in order with all grants."""
        script = commands.adopt_script
        packed = script.head + commands.adopt(request, giver, secret, until_ms)
        return self._start(script, commands.key, packed, gives=_keeps)

    def leave(self, clients: ClientQueue, client_id: str, *, closing: bool) -> None:
        """Take a client out of a queue of clients, without waiting.

        It may join again at once, so this is in order with its requests, but not when it closes:
        replicas may be slow to confirm what it was granted, and the connection is closed.
        """
        script, until = clients.leave_script, self.time() + SHORTEST_RELEASE_SECONDS
        packed = script.head + clients.left(client_id)
        gives = None if closing else _grants_nothing
        self._start(script, clients.key, packed, until, must=True, until=until, gives=gives)

    def group(self, commands: RedisCommands) -> tuple[Script, int]:
        """Return what is the same for names whose holds one renewal may be about."""
        return commands.renew_script, self.router.group(commands.key)

    def _start(
        self,
        script: Script,
        key: bytes,
        packed: bytes,
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
        gives: Callable[[Any], bool] | None = None,
        short: str = NOTHING_HELD,
    ) -> Call:
        """Send a packed call; with `gives` in order with grants: what it gives needs replicas."""
        call = Call(packed, self.limit(deadline), script, must, key, until)
        stream = self._stream_for(key)
        if gives is not None and self.confirms:
            call.future = Unconfirmed(gives, short=short)
            stream = stream.grants
        return stream.send(call)

    def _stream_for(self, key: bytes) -> Stream:
        """Return the stream to the node of a key; begin to connect it if it is not connected."""
        stream = self.router.stream_for(key)
        if self.loop is None or not stream.ready:
            self._begin()
        return stream

    def limit(self, deadline: float | None = None) -> float:
        """Return until when a call waits while Redis does not answer, in loop time."""
        return self.time() + self.command_timeout if deadline is None else deadline

    def start_batch(
        self,
        script: Script,
        keys: list[bytes],
        arguments: Sequence[str | bytes],
        seconds: float,
        *,
        splits: bool = False,
        **values: Arg,
    ) -> Call:
        """Send one renewal of many keys of one group, in order with their grants.

        The renewals of one iteration of the event loop leave in one write, whatever their number.
        With `splits` it fails at once where calls for single keys might be served.
        """
        deadline = self.time() + seconds
        args = script.bind_batch(keys, values, arguments)
        call = Call(args, deadline, script, key=keys[0])
        call.splits = splits
        stream = self.router.stream_for(keys[0])
        if self.confirms:
            call.future = Unconfirmed(any, partial=True)
            stream = stream.grants
        stream.gather()
        return stream.send(call)

    def command(
        self, key: bytes, *args: Arg, must: bool = False, seconds: float | None = None
    ) -> Call:
        """Send a plain command for `key`; it is given up after `seconds` or `command_timeout`."""
        self._begin()
        patience = self.command_timeout if seconds is None else seconds
        return self.router.stream_for(key).command(args, patience, key, must=must)

    def renew(
        self, holds: Sequence[Any], lease_time: float, seconds: float, *, splits: bool
    ) -> Call:
        """Renew holds of one kind and group; 0 only checks that they are there."""
        first = holds[0].ownership.commands
        families = zip(*(hold.ownership.commands.renewal_keys for hold in holds), strict=True)
        # The scripts never shorten a lease, so the shortest that they take changes nothing.
        only_looks = 0 if first.shares_lease else 1
        return self.start_batch(
            first.renew_script,
            [key for family in families for key in family],
            [hold.field for hold in holds],
            seconds,
            splits=splits,
            lease_ms=milliseconds(lease_time) if lease_time else only_looks,
            **first.renewal_values,
        )

    async def run(self, key: bytes, command: Command) -> Any:
        """Run a script and return its raw reply; errors as for `query`."""
        script, args = command
        return await self.answer(self.start(script, key, args))

    async def query(self, key: bytes, *args: Arg) -> Any:
        """Run a plain command and return its raw reply.

        Raises:
            ScriptError: Redis answered with an error.
            ConnectionLostError: It did not answer within `command_timeout`.
        """
        return await self.answer(self.command(key, *args))

    async def query_number(self, key: bytes, *args: Arg) -> int:
        """Run a plain command whose reply is a number; errors as for `query`."""
        call = self.command(key, *args)
        return self.number(call, await self.answer(call))

    async def exists(self, key: bytes) -> bool:
        """Return whether a key exists; fail with the first attempt to connect that fails."""
        call = self.command(key, "EXISTS", key)
        call.fails_fast = True
        return self.number(call, await self.answer(call)) > 0

    @staticmethod
    def number(call: Call, reply: object) -> int:
        """Return the reply to a plain command, if it is a number.

        Raises:
            BackendError: It is something else.
        """
        if type(reply) is not int:
            raise BackendError(f"unexpected answer to {call.name}: {shortened(reply)}")
        return reply

    async def answer(self, call: Call) -> Any:
        """Wait for the reply to a call; errors as for `query`."""
        try:
            return await call.future
        except ReplyError as error:
            raise await self.explain(call, error) from error

    async def explain(self, call: Any, error: RefusedError) -> ScriptError | UnsupportedServerError:
        """Return the error for the caller of a refused call; it says what a wrong key is."""
        refusal: ScriptError | UnsupportedServerError = call.refusal(error)
        if isinstance(refusal, UnsupportedServerError) or not error.means_gone:
            return refusal
        return await explained(call, refusal, self._type_of)

    async def _type_of(self, key: bytes) -> object:
        return await self.answer(self.command(key, "TYPE", key, seconds=_TYPE_PATIENCE_SECONDS))
