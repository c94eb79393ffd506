"""One command on its way: what to send, who waits for the answer, and how long."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Protocol, TypeVar

import hiredis

from redisson_py._answers import RefusedError
from redisson_py._loop import Future
from redisson_py._redis.dialect import Dialect
from redisson_py._redis.error_replies import (
    Meaning,
    is_forbidden,
    is_moving,
    meaning_of,
    missing_command,
)
from redisson_py._redis.stream.unconfirmed import Unconfirmed
from redisson_py.errors import (
    BackendError,
    ConnectionLostError,
    ScriptError,
    UnsupportedServerError,
)

Arg = bytes | str | int
_E = TypeVar("_E", bound=BaseException)

# The type stubs of hiredis lack an argument and the result of this function.
_pack: Callable[[tuple[Arg, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]

#: Allows the command behind it to use a slot that is being imported; it has a reply of its own.
ASKING = _pack(("ASKING",))


class ScriptWording(Protocol):
    """A script in one dialect."""

    @property
    def text(self) -> str: ...
    @property
    def sha(self) -> str: ...
    @property
    def head(self) -> bytes: ...


class ScriptText(Protocol):
    """What the stream must know of a script to send it, and to load it where it is missing."""

    @property
    def text(self) -> str: ...
    @property
    def head(self) -> bytes: ...
    @property
    def wordings(self) -> Sequence[ScriptWording]: ...
    @property
    def follows_ask(self) -> bool: ...
    @property
    def may_be_nil(self) -> bool: ...
    @property
    def least(self) -> float: ...
    @property
    def most(self) -> float: ...
    @property
    def literals(self) -> frozenset[int]: ...
    def fits(self, reply: object, args: object) -> bool: ...


#: The name of the user may come from a URL, and no error quotes a URL.
_USER = re.compile(r"\b(?:User|user) \S+ has\b")


def without_user(text: str) -> str:
    """Return an error reply without the name of the user in it."""
    return _USER.sub("the user has", text)


def shortened(reply: object) -> str:
    """Return a reply as an error can quote it."""
    return reprlib.repr(reply)


class ReplyError(RefusedError):
    """Raised when Redis answered a command with an error: it was not executed."""

    def __init__(self, text: str) -> None:
        super().__init__(without_user(text))
        self.means_gone: bool = "WRONGTYPE" in text
        self.means_moving: bool = is_moving(text)
        self.concerns_key: bool = meaning_of(text) is Meaning.KEY


class Call:
    """One command and its answer.

    Attributes:
        args: The command's words, or a whole call of a script, packed in the dialect `MODERN`.
        key: The key it is about.
        future: Gets the reply. If it is cancelled or failed, nobody waits any more; the command
            keeps its place in the stream all the same.
        must: The command has to arrive even if nobody waits any more (a release, an undo).
        until: Until when `must` applies, in loop time, if that is later than the deadline.
        asking: Another node of a cluster replied that this node may have the key (ASK): ASKING is
            written right before the call. It is reset when the call is sent to yet another node.
        fails_fast: It fails with the first attempt to connect that fails.
        splits: It is about several keys, and fails at once where calls for single keys would be
            served: while their slot moves.
        timed_by: The deadlines whose heap it is in, or was in.
        sends: How often it was written.
        refusals: How often the answer was an error which says that it was not executed.
        uncertain: It was written to a connection that broke before the answer came, so it
            may be executed twice, or late.
        why_not: The last refusal, or useless answer, if that is why it is sent again.
    """

    #: A lease in Redis counts from when its request was sent.
    counts_from: float | None = None

    __slots__ = (
        "args",
        "asking",
        "channel",
        "deadline",
        "errors",
        "fails_fast",
        "future",
        "key",
        "must",
        "refusals",
        "script",
        "sends",
        "splits",
        "timed_by",
        "uncertain",
        "until",
        "why_not",
        "written_at",
    )

    def __init__(
        self,
        args: tuple[Arg, ...] | bytes,
        deadline: float,
        script: ScriptText | None = None,
        must: bool = False,
        key: bytes = b"",
        until: float = 0.0,
        future: Future[Any] | None = None,
        *,
        channel: bytes | None = None,
    ) -> None:
        self.args: tuple[Arg, ...] | bytes = args
        self.key: bytes = key
        self.deadline: float = deadline
        self.script: ScriptText | None = script
        self.must: bool = must
        self.until: float = until
        self.channel: bytes | None = channel
        self.future: Future[Any] = Future() if future is None else future
        self.sends: int = 0
        self.refusals: int = 0
        self.errors: int = 0
        self.asking: bool = False
        self.fails_fast: bool = False
        self.splits: bool = False
        self.timed_by: object = None
        self.uncertain: bool = False
        self.why_not: str = ""
        self.written_at: int = 0

    @property
    def name(self) -> str:
        """The name for error messages: a script and its version, or a command."""
        return str(self.script or self.args[0])

    def refusal(self, error: RefusedError) -> ScriptError | UnsupportedServerError:
        """Return the error for the caller, from an error reply."""
        text, key = str(error), self.key.decode(errors="replace")
        missing = missing_command(text)
        if self.script is not None and missing is not None:
            return UnsupportedServerError(
                f"Redis{error.where and f' at {error.where}'} does not have"
                f" {missing.upper() or 'a command'}, which {self.name} needs: rename-command"
                " disables it there, or the service does not offer it"
            )
        advice = "grant the user what `redisson-py acl` prints" if is_forbidden(text) else ""
        return ScriptError(self.name, text, key, error.where, advice)

    @property
    def wanted(self) -> bool:
        """Whether it still makes sense to send this."""
        return self.must or not self.future.done()

    @property
    def subscribes(self) -> bool:
        """Whether it is a SUBSCRIBE, sharded or not."""
        return self.args[0] in ("SUBSCRIBE", "SSUBSCRIBE")

    @property
    def is_settled(self) -> bool:
        """Whether it was answered, or nothing needs an answer any more."""
        future = self.future
        if not future.done():
            return False
        return not self.must or not (future.cancelled() or future.exception() is not None)

    @property
    def maybe_executed(self) -> bool:
        """Whether it was written at least once without being refused."""
        return self.sends > self.refusals

    def pack(self, dialect: Dialect) -> bytes:
        """Return the bytes of this command for a server that speaks `dialect`."""
        script, args = self.script, self.args
        if type(args) is bytes:
            assert script is not None
            own, head = script.head, script.wordings[dialect].head
            # Heads are equally long, and many scripts have the same text in two dialects.
            return args if head is own else head + args[len(own) :]
        assert isinstance(args, tuple)
        if script is None:
            return _pack(args)
        return _pack(("EVALSHA", script.wordings[dialect].sha, *args))

    def succeed(self, reply: object) -> None:
        """Hand over the answer, if anybody still waits for it."""
        future = self.unattended() if self.must else self.future
        if not future.done():
            future.set_result(reply)
        self.must = False

    def unattended(self) -> Future[Any]:
        """Return the future of the answer; another one if a cancelled caller has cancelled it."""
        future = self.future
        if future.cancelled():
            self.future = future.again() if isinstance(future, Unconfirmed) else Future()
        return self.future

    def fail(self, error: BaseException) -> None:
        """Hand over an error for good, if anybody still waits for the answer."""
        self.give_up(error)
        self.must = False

    def give_up(self, error: BaseException) -> None:
        """Hand over an error, if anybody waits; a `must` call still has to arrive."""
        future = self.unattended() if self.must else self.future
        if not future.done():
            future.set_exception(error)
            if self.must:
                # Often nobody waits for a call that must arrive: this keeps asyncio from logging.
                future.exception()


def load_command(script: ScriptText, dialect: Dialect) -> bytes:
    """Return the bytes that load a script."""
    return _pack(("SCRIPT", "LOAD", script.wordings[dialect].text))


def cut_off(where: str, reason: BackendError | None, maybe_held: bool) -> ConnectionLostError:
    """Return the error of a call whose deadline passed while there was no connection."""
    text = str(reason or f"no connection to Redis at {where}")
    if maybe_held:
        text += ": the request may have been executed"
    error = ConnectionLostError(text, maybe_held=maybe_held)
    # Not the reason itself: it says the same.
    error.__cause__ = reason.__cause__ if reason is not None else None
    return error


def copied(error: _E) -> _E:
    """Return a copy of an error for one more caller: the same words and cause."""
    again = copy(error)
    again.__cause__ = error.__cause__
    return again
