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
    """The keyword arguments of `Redisson` and `Redisson.from_url`."""

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
