"""What a stream is made of."""

from __future__ import annotations

from dataclasses import dataclass

from redisson_py._stream.callbacks import Callbacks
from redisson_py._stream.outage import Outages
from redisson_py._stream.topology import Opener, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """What a stream is made of.

    Attributes:
        opener: Opens connections.
        reply_timeout: Seconds after which a connection without an answer counts as dead.
        tell: The client's functions.
        outages: Is informed when the connection is lost, and when it is back.
        sharded: The server belongs to a cluster with sharded pub/sub.
        fails_over: Another server may become the master, so the role of this one is checked.
        topology: The other servers that may serve its keys.
    """

    opener: Opener
    reply_timeout: float
    tell: Callbacks
    outages: Outages
    sharded: bool = False
    fails_over: bool = False
    topology: Topology | None = None
