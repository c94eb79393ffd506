"""The options of a client.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict

from redisson_py import Listener, LostEvent
from redisson_py._addresses import AddressMapping
from redisson_py._keys import NameMapper
from redisson_py._options import OnReleaseError, ShardedPubSub
from redisson_py._time import Duration

OnLost = Literal["raise"] | Callable[[LostEvent], object]


class RedissonOptions(TypedDict, total=False):
    """The options of a client: keyword arguments of `Redisson`, `from_url` and `from_file`.

    Attributes:
        lease_time: Seconds for which the watchdog keeps a lock; it renews it every third of
            that. Shorter: the lock of a crashed process is free sooner. Longer: locks survive
            longer outages, of up to two thirds of it. Default: 30
        prefix: Text that is put before every name. Default: ""
        name_mapper: A function from a name to its Redis key; instead of `prefix`. Default: None
        on_lost: A function that is called with the `LostEvent` of each lost lease, in a thread
            that all clients share: it may block, and use the client. `"raise"` calls nothing.
            In both cases the body of a block runs on, and `LeaseLostError` is raised at its
            end. Default: "raise"
        turn: Seconds for which a contended lock is passed among this client's threads before
            other processes get a chance; 0 never passes it. Default: 0.01
        client_name: Name of the connection, which `inspect` and CLIENT LIST show. Default: None
        sharded_pubsub: For clusters: `"auto"` uses sharded pub/sub where the cluster has it, as
            Redisson does; `"on"` and `"off"` force it, and Redisson needs the same setting.
            Default: "auto"
        sync_replicas: How many replicas must confirm a grant or a renewal before it counts. If
            too few do, `ReplicationError` is raised and nothing is held. `"auto"`: one if the
            master has any, and none for a single server. Releases, latches and barriers are not
            confirmed. Only a grant that all replicas have survives whichever of them is
            promoted. Default: "auto"
        sync_timeout: Seconds to wait for replicas to confirm. Default: 1
        address_map: For clusters and Sentinel: maps the address that a node announces to the
            one to use. A mapping from `"host:port"` or `(host, port)` to either, or a function
            that takes host and port and returns both. Without it, a `RedisCluster`'s own
            `address_remap` is used. Default: None
        command_timeout: Seconds for which a call without a timeout of its own waits for a
            server that does not answer; at most 30. Default: 5
        acquire_timeout: The `timeout` of every acquire that has none; None waits without end.
            Default: None
        on_release_error: What a block does when its release gets no answer: `"log"` logs a
            warning and ends normally, because the work was protected; `"raise"` raises
            `ReleaseFailedError`. Default: "log"
        idle_lifetime: Seconds after the last lease for which Redis keeps a semaphore, and the
            counter of a fenced lock; None keeps them, as Redisson does. At least 10, and more
            than `lease_time`. Set the same `idle_lifetime` on every client that uses the name,
            and none for names that Redisson uses too. Afterwards a semaphore has forgotten its
            number of permits, and tokens grow only if the server's clock was not stepped back:
            see "What stays in Redis" in docs/safety.md. Default: None
        listener: A `Listener`, which is called with acquisitions, waits, losses and outages, in
            the thread of the event loop: its methods must not block. Default: None
    """

    lease_time: Duration
    prefix: str
    name_mapper: NameMapper | None
    on_lost: OnLost
    sharded_pubsub: ShardedPubSub
    sync_replicas: Literal["auto"] | int
    sync_timeout: Duration
    turn: Duration
    client_name: str | None
    command_timeout: Duration
    acquire_timeout: Duration | None
    on_release_error: OnReleaseError
    idle_lifetime: Duration | None
    listener: Listener | None
    address_map: AddressMapping | None
