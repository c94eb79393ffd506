"""The options of the clients of stores other than Redis."""

from __future__ import annotations

from typing import TypedDict

from redisson_py._keys import NameMapper
from redisson_py._listener import Listener
from redisson_py._options import OnLost, OnReleaseError, Options, check_options, unknown_option
from redisson_py._time import Duration


class StoreOptions(TypedDict, total=False):
    """The options of every store: those of `Redisson` that do not need Redis.

    Attributes:
        lease_time: Seconds for which the watchdog keeps a lock; it renews it every third of that.
            Shorter: the lock of a crashed process is free sooner. Longer: locks survive longer
            outages, of up to two thirds of it. Default: 30
        prefix: Text that is put before every name. Default: ""
        name_mapper: A function from a name to its key; instead of `prefix`. Default: None
        on_lost: What a block does when its lease is lost: `"cancel"` cancels its body, `"raise"`
            lets the body run on and raises `LeaseLostError` at its end. Default: "cancel"
        turn: Seconds for which a contended lock is passed among this client's tasks before other
            processes get a chance; 0 never passes it. Default: 0.01
        command_timeout: Seconds for which a call without a timeout of its own waits for a server
            that does not answer; at most 30. Default: 5
        acquire_timeout: The `timeout` of every acquire that has none; None waits without end.
            Default: None
        on_release_error: What a block does when its release gets no answer: `"log"` logs a warning
            and ends normally, because the work was protected; `"raise"` raises
            `ReleaseFailedError`. Default: "log"
        listener: A `Listener`, which is called with acquisitions, waits, losses and outages.
            Default: None
    """

    lease_time: Duration
    prefix: str
    name_mapper: NameMapper | None
    on_lost: OnLost
    turn: Duration
    command_timeout: Duration
    acquire_timeout: Duration | None
    on_release_error: OnReleaseError
    listener: Listener | None


def check_store_options(options: StoreOptions) -> Options:
    """Return the options, checked.

    Raises:
        TypeError: There is no such option, or it has the wrong type.
        ValueError: An option is out of range, or two of them exclude each other.
    """
    known = StoreOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(unknown_option(name, known))
    return check_options(**options)
