"""What tests of real Sentinels and replicas share."""

from __future__ import annotations

from redisson_py import Redisson
from redisson_py._topology.finder import SentinelFinder
from redisson_py._topology.master import FinderRouter
from redisson_py.testing import EmbeddedServer


def finder_of(client: Redisson) -> SentinelFinder:
    """Return what finds the master for a client."""
    assert isinstance(client._router, FinderRouter)
    finder = client._router._finder
    assert isinstance(finder, SentinelFinder)
    return finder


def listens(client: Redisson, count: int = 3) -> bool:
    """Return whether a client listens to so many Sentinels."""
    known = finder_of(client).sentinels.known
    return sum(each.stream.ready and not each.stream.waiting for each in known) == count


async def has(server: EmbeddedServer, *keys: str) -> bool:
    """Return whether a server has all of these keys."""
    return int(await server.execute("EXISTS", *keys)) == len(keys)
