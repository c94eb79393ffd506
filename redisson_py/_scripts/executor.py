"""Runs scripts and single commands: arguments by name, errors of this library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redisson_py._answers import RefusedError
from redisson_py._loop import Loop, clock_of, monotonic
from redisson_py._scripts.source import Arg, Script
from redisson_py._scripts.wrong_type import explained
from redisson_py._stream.call import Call, ReplyError, shortened
from redisson_py._stream.router import Router
from redisson_py._stream.unconfirmed import Unconfirmed, denied
from redisson_py._time import milliseconds
from redisson_py.errors import BackendError, ScriptError, UnsupportedServerError

#: Seconds to wait for the type of a key that was refused.
_TYPE_PATIENCE = 1.0


class Executor:
    """Sends scripts to the node that serves their first key.

    Args:
        router: The streams.
        begin: Called before the first command, and whenever there is no connection.
        command_timeout: Seconds to wait for Redis while it does not answer.
    """

    new_call = Call
    unconfirmed = Unconfirmed

    def __init__(self, router: Router, begin: Callable[[], None], command_timeout: float) -> None:
        self.router = router
        self.command_timeout = command_timeout
        #: Whether grants count only when replicas have confirmed them.
        self.confirms = False
        self._begin = begin
        #: The event loop that the client belongs to, from its first use to its end, and its clock.
        self.loop: object = None
        self.time: Callable[[], float] = monotonic
        self._closing = False

    def use(self, loop: Loop) -> None:
        """Belong to an event loop."""
        self.loop = loop
        self.time = clock_of(loop)

    def close(self) -> None:
        """Refuse all calls from now on; the stream still sends the last releases."""
        self._closing = True
        self.loop = None

    def reopen(self) -> None:
        """Belong to no event loop, and accept calls again."""
        self._closing = False
        self.loop = None

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
        return self.start_packed(script, key, script.head + args, deadline, must, until)

    def start_packed(
        self,
        script: Script,
        key: bytes,
        call: bytes,
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
    ) -> Call:
        """As `start`, with a call that is already packed."""
        stream = self.router.stream_for(key)
        if self._closing or not stream.ready:
            self._begin()
        return stream.send(Call(call, self.limit(deadline), script, must, key, until))

    def start_grant(
        self,
        script: Script,
        key: bytes,
        call: bytes,
        gives: Callable[[Any], bool],
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
    ) -> Call:
        """As `start_packed`, in order with all grants; what it `gives` must be confirmed."""
        stream = self.router.stream_for(key)
        if self._closing or not stream.ready:
            self._begin()
        grant = Call(call, self.limit(deadline), script, must, key, until)
        if self.confirms:
            grant.future = Unconfirmed(gives)
        return stream.send(grant)

    def start_in_line(
        self,
        script: Script,
        key: bytes,
        call: bytes,
        deadline: float | None = None,
        must: bool = False,
        until: float = 0.0,
    ) -> Call:
        """As `start_packed`, in order with all grants, although it grants nothing itself."""
        return self.start_grant(script, key, call, lambda _: False, deadline, must, until)

    def limit(self, deadline: float | None = None) -> float:
        """Return until when a call waits while Redis does not answer, in loop time."""
        return self.time() + self.command_timeout if deadline is None else deadline

    def start_batch(
        self,
        script: Script,
        keys: list[bytes],
        rest: Sequence[str | bytes],
        seconds: float,
        *,
        splits: bool = False,
        **values: Arg,
    ) -> Call:
        """Send one renewal of many keys of one group, in order with their grants.

        The renewals of one turn of the event loop leave in one write, whatever their number. With
        `splits` it fails at once where calls for single keys might be served.
        """
        deadline = self.time() + seconds
        args = script.bind_batch(keys, values, rest)
        call = Call(args, deadline, script, key=keys[0])
        call.splits = splits
        stream = self.router.stream_for(keys[0])
        stream.gather()
        if self.confirms:
            call.future = Unconfirmed(any)
        return stream.send(call)

    def command(
        self, key: bytes, *args: Arg, must: bool = False, seconds: float | None = None
    ) -> Call:
        """Send a plain command for `key`; it is given up after `seconds` or `command_timeout`."""
        self._begin()
        patience = self.command_timeout if seconds is None else seconds
        return self.router.stream_for(key).command(args, patience, key, must=must)

    @staticmethod
    def pack(script: Script, args: bytes) -> bytes:
        """Return a call of `script` with what `script.bind` returned."""
        return script.head + args

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

    @staticmethod
    def denied(call: Any, holds: Sequence[Any]) -> Sequence[Any]:
        """Return the holds of which the server said that they are gone, in a call that failed."""
        return denied(call.future, holds)

    async def run(self, script: Script, key: bytes, /, **values: Arg) -> Any:
        """Run `script` and return its raw reply.

        Raises:
            ScriptError: Redis answered with an error.
            ConnectionLostError: It did not answer within `command_timeout`.
        """
        return await self.answer(self.start(script, key, script.bind(**values)))

    async def ask(self, key: bytes, *args: Arg) -> Any:
        """Run a plain command and return its raw reply; errors as for `run`."""
        return await self.answer(self.command(key, *args))

    async def ask_number(self, key: bytes, *args: Arg) -> int:
        """Run a plain command whose reply is a number; errors as for `run`."""
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
        """Wait for the reply to a call; errors as for `run`."""
        try:
            return await call.future
        except ReplyError as error:
            raise await self.explain(call, error) from error

    async def explain(
        self, call: Call, error: RefusedError
    ) -> ScriptError | UnsupportedServerError:
        """Return the error for the caller of a refused call; it says what a wrong key is."""
        refusal = call.refusal(error)
        if isinstance(refusal, UnsupportedServerError) or not error.means_gone:
            return refusal
        return await explained(call, refusal, self._type_of)

    async def _type_of(self, key: bytes) -> object:
        return await self.answer(self.command(key, "TYPE", key, seconds=_TYPE_PATIENCE))
