"""Chooses the router of a client, from its servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._options import Options
from redisson_py._redis.stream.router import Followers, NewStream, Router, SingleRouter
from redisson_py._redis.topology.cluster import ClusterRouter
from redisson_py._redis.topology.finder import FinderRouter, SentinelFinder
from redisson_py._redis.topology.replicated import ReplicatedFinder

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import Servers


def new_router(
    servers: Servers, options: Options, new_stream: NewStream, followers: Followers
) -> Router:
    """Return the router for these servers.

    Args:
        servers: What the user named.
        options: The client's.
        new_stream: Makes its streams.
        followers: What relies on the servers that serve its keys.
    """
    connector, addresses = servers.connector, servers.addresses
    if servers.topology == "cluster":
        return ClusterRouter(
            connector,
            addresses,
            address_map=options.address_map,
            sharded_pubsub=options.sharded_pubsub,
            new_stream=new_stream,
            followers=followers,
        )
    if servers.topology == "replicated":
        return FinderRouter(
            new_stream,
            lambda router: ReplicatedFinder(connector, addresses, on_elsewhere=router.leave_master),
        )
    if (sentinel := servers.sentinel) is not None:
        return FinderRouter(
            new_stream,
            lambda router: SentinelFinder(
                connector,
                sentinel,
                addresses,
                servers.service,
                options.reply_timeout_where(fails_over=True),
                address_map=options.address_map,
                on_elsewhere=router.leave_master,
                on_news=router.hurry,
                kept=lambda: router.only.ready or followers.any,
                needed=lambda: followers.any,
            ),
        )
    return SingleRouter(lambda: new_stream(connector))
