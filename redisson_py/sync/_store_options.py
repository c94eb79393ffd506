"""The options of the clients of stores other than Redis.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import TypedDict

from redisson_py import Listener
from redisson_py._keys import NameMapper
from redisson_py._options import OnReleaseError
from redisson_py._time import Duration
from redisson_py.sync._options import OnLost


class StoreOptions(TypedDict, total=False):
    """The options of every store: those of `Redisson` that do not need Redis.

    Attributes:
        lease_time: Seconds for which the watchdog keeps a lock; it renews it every third of
            that. Shorter: the lock of a crashed process is free sooner. Longer: locks survive
            longer outages, of up to two thirds of it. Default: 30
        prefix: Text that is put before every name. Default: ""
        name_mapper: A function from a name to its key; instead of `prefix`. Default: None
        on_lost: A function that is called with the `LostEvent` of each lost lease, in a thread
            that all clients share: it may block, and use the client. `"raise"` calls nothing.
            In both cases the body of a block runs on, and `LeaseLostError` is raised at its
            end. Default: "raise"
        turn: Seconds for which a contended lock is passed among this client's threads before
            other processes get a chance; 0 never passes it. Default: 0.01
        command_timeout: Seconds for which a call without a timeout of its own waits for a
            server that does not answer; at most 30. Default: 5
        acquire_timeout: The `timeout` of every acquire that has none; None waits without end.
            Default: None
        on_release_error: What a block does when its release gets no answer: `"log"` logs a
            warning and ends normally, because the work was protected; `"raise"` raises
            `ReleaseFailedError`. Default: "log"
        listener: A `Listener`, which is called with acquisitions, waits, losses and outages, in
            the thread of the event loop: its methods must not block. Default: None
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
