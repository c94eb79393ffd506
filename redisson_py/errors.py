"""Every error this library raises on its own account.

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
    """Raised when something stayed busy until the caller's timeout.

    Nothing is held.
    """


class QuorumError(AcquireTimeoutError):
    """Raised when too few servers granted a RedLock in time. Nothing is held.

    Attributes:
        answers: What each server said, by its address and database.
        quorum_answered: Whether a quorum of them answered, so that it was busy for certain.
    """

    def __init__(
        self, message: str, answers: dict[str, str], quorum_answered: bool = False
    ) -> None:
        super().__init__(message)
        self.answers = answers
        self.quorum_answered = quorum_answered


class NotHeldError(RedissonError, RuntimeError):
    """Raised when the caller releases or extends what it does not hold.

    The caller never acquired it, or has released it already. Nothing was changed.
    """


class LeaseLostError(RedissonError):
    """Raised when a lease ended without its holder's release. Nothing is held any more.

    Attributes:
        name: The resource name.
        owner: The owner whose lease it was.
        held_for: Seconds from the grant to the loss.
        reason: `"expired"` (no renewal was confirmed in time), `"ended"` (its own `lease_time` or
            `max_hold` ran out), `"taken"` (the server says that it has another holder, or none), or
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
    """Raised when too few replicas confirmed a grant in time. The grant is given back.

    From `extend`: the old or the new lease is in force, whichever ends first.

    Attributes:
        asked: The number of replicas that had to confirm.
        got: The number of replicas that did.
    """

    def __init__(self, message: str, asked: int, got: int) -> None:
        super().__init__(message)
        self.asked = asked
        self.got = got


class ClientClosedError(RedissonError, RuntimeError):
    """Raised when a client is used after it was closed, after a fork, or from another event loop.

    Calls that still wait when the client is closed raise it too. The call holds nothing. `aclose`
    releases what the client holds.
    """


class BackendError(RedissonError):
    """Raised when the server refuses this client: credentials, certificates, a broken reply.

    Base of all errors on the side of servers. Unless a subclass says otherwise, nothing was
    changed.
    """


class ConnectionLostError(BackendError):
    """Raised when the server gave no answer in time, or refused everybody until then.

    The text quotes such a refusal: it loads its data, cannot save it, lacks replicas.

    Attributes:
        maybe_held: Whether the request may have been executed. A grant without an answer is
            released as soon as the server answers again, and ends with its lease in any case.
    """

    def __init__(self, message: str, *, maybe_held: bool) -> None:
        super().__init__(message)
        self.maybe_held = maybe_held


class ReleaseFailedError(ConnectionLostError):
    """Raised when a release got no answer: the work is done, and was protected while it ran.

    The release is repeated in the background until its lease has run out. Raised as well when the
    server carried it out only after that.
    """


class ScriptError(BackendError):
    """Raised when Redis answers a script with an error. The script changed nothing.

    Examples: wrong type of key, out of memory, missing permission. `message` is the text of Redis.

    Attributes:
        script: Name and version of the script, such as `lock.acquire v1`.
        message: The text of the error from Redis.
        key: The key of the call, as text; empty if there is none.
        where: The address of the server if there are several; else empty.
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
    """Raised when the server is too old, or a command this library needs is forbidden there."""
