"""The errors that this library raises.

Each docstring says when it is raised and what is true then. redis-py's exceptions reach
users only as `__cause__`.
"""

from __future__ import annotations

from typing import Literal


class RedissonError(Exception):
    """Base of all errors of this library. They survive pickling, between processes."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(
    kind: type[RedissonError], args: tuple[object, ...], state: dict[str, object]
) -> RedissonError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class AcquireTimeoutError(RedissonError, TimeoutError):
    """Raised when something was still busy at the end of the caller's timeout. Nothing is held."""


class QuorumError(AcquireTimeoutError):
    """Raised when too few servers granted a RedLock in time. Nothing is held.

    Attributes:
        answers: What each server answered, by its address and database.
        quorum_answered: Whether a quorum of servers answered: then the lock was certainly busy.
    """

    def __init__(
        self, message: str, answers: dict[str, str], quorum_answered: bool = False
    ) -> None:
        super().__init__(message)
        self.answers = answers
        self.quorum_answered = quorum_answered


class NotHeldError(RedissonError, RuntimeError):
    """Raised when the caller releases or extends something that it does not hold.

    The caller never acquired it, or has already released it. Nothing was changed.
    """


class LeaseLostError(RedissonError):
    """Raised when a lease ended before its holder released it. Nothing is held any more.

    Attributes:
        name: The resource name.
        owner: The owner whose lease it was.
        held_for: Seconds from the grant to the loss.
        reason: `"expired"` (no renewal was confirmed in time), `"ended"` (its own `lease_time` or
            `max_hold` ran out), `"taken"` (the server reports another holder, or none), or
            `"forced"` (`force_release`).
    """

    def __init__(
        self,
        message: str,
        name: str | bytes,
        owner: str,
        held_for: float,
        reason: Literal["expired", "ended", "taken", "forced"],
    ) -> None:
        super().__init__(message)
        self.name = name
        self.owner = owner
        self.held_for = held_for
        self.reason = reason


class BrokenBarrierError(RedissonError):
    """Raised when a barrier is broken: a party left it or died, or it was aborted or reset."""


class ReplicationError(RedissonError):
    """Raised when too few replicas confirmed a grant in time. The grant is released.

    From `extend`: rely on the old or the new lease, whichever ends first.

    Attributes:
        asked: The number of confirmations that were required.
        got: The number of replicas that confirmed.
    """

    def __init__(self, message: str, asked: int, got: int) -> None:
        super().__init__(message)
        self.asked = asked
        self.got = got


class ClientClosedError(RedissonError, RuntimeError):
    """Raised when a client is used after it was closed, after a fork, or from another event loop.

    Calls that are waiting when the client is closed raise it too, and hold nothing. `aclose`
    releases what the client holds.
    """


class BackendError(RedissonError):
    """Raised when the server refuses this client (credentials, TLS) or sends a malformed reply.

    Base of all errors that come from a server. Unless a subclass says otherwise, nothing was
    changed.
    """


class ConnectionLostError(BackendError):
    """Raised when the server did not answer in time, or refused all clients until then.

    The text quotes such a refusal: the server is loading its data, cannot save it, or lacks
    replicas.

    Attributes:
        maybe_held: Whether the request may have been executed. If it was, the grant is released
            as soon as the server answers again, and ends with its lease in any case.
    """

    def __init__(self, message: str, *, maybe_held: bool) -> None:
        super().__init__(message)
        self.maybe_held = maybe_held


class ReleaseFailedError(ConnectionLostError):
    """Raised when a release got no answer. The work is done, and was protected while it ran.

    The release is repeated in the background until its lease has run out. Also raised when the
    server carried it out only after that.
    """


class ScriptError(BackendError):
    """Raised when Redis answers a script with an error. The script changed nothing.

    Examples: wrong type of key, out of memory, missing permission. `message` is the text of Redis;
    for a wrong type it names the key and its type.

    Attributes:
        script: Name and version of the script, such as `lock.acquire v1`.
        message: The error text from Redis.
        key: The key of the call, as text; empty if there is none.
        where: The address of the server if there are several, else empty.
    """

    def __init__(
        self, script: str, message: str, key: str = "", where: str = "", advice: str = ""
    ) -> None:
        about = f"{f' of {key!r}' if key else ''}{f' at {where}' if where else ''}"
        super().__init__(f"{script}{about}: {message}{advice and f'; {advice}'}")
        self.script = script
        self.message = message
        self.key = key
        self.where = where


class UnsupportedServerError(BackendError):
    """Raised when the server is too old, or does not allow a command that this library needs."""
