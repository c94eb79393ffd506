"""Server versions as forks and previews write them; none may stop the client."""

from __future__ import annotations

import pytest

from redisson_py import Redisson, UnsupportedServerError
from redisson_py._redis.dialect import Dialect
from redisson_py._redis.stream.handshake import dialect_of
from tests.fixtures.client import ClientFactory
from tests.support.fake_peer import FakePeer, bulk

ODD: dict[bytes, bool] = {
    b"6.2.14": False,
    b"6.2-rc1": False,
    b"7.0.0": True,
    b"7.2-rc1": True,
    b"7.4.0-v3": True,
    b"8.0-m02": True,
    b"v8.2": True,
    b"8": True,
    b"255.255.255": True,
    # Unknown: what every server takes.
    b"unstable": False,
    b"": False,
    b"-": False,
    b"\xff\xfe\x00": False,
    b"9" * 5000: False,
}


@pytest.mark.parametrize(("version", "modern"), ODD.items())
def test_version_is_read_tolerantly(version: bytes, modern: bool) -> None:
    assert (dialect_of({b"version": version}) is Dialect.MODERN) is modern


@pytest.mark.parametrize("version", [b"6.0.16", b"5", b"6", b"6.1-rc2", b"5.0.\xff"])
def test_old_servers_are_refused(version: bytes) -> None:
    with pytest.raises(UnsupportedServerError, match="too old"):
        dialect_of({b"version": version})


@pytest.mark.parametrize("version", ODD)
def test_sharded_pub_sub_needs_a_modern_server(version: bytes) -> None:
    facts = {b"version": version}
    if version.startswith(b"6"):
        with pytest.raises(UnsupportedServerError, match=r"for sharded pub/sub: 7\.0"):
            dialect_of(facts, sharded=True)
    else:
        # A server that cannot be read but has it is at least as new.
        assert dialect_of(facts, sharded=True) is Dialect.SHARDED


@pytest.mark.parametrize("version", ODD)
async def test_client_works_with_it(version: bytes, clients: ClientFactory) -> None:
    async with FakePeer() as peer:
        pairs = bulk(b"server") + bulk(b"redis") + bulk(b"version") + bulk(version)
        peer.greeting = b"%3\r\n" + pairs + bulk(b"proto") + b":3\r\n"
        client: Redisson = clients(peer.url)
        await client.ping()
        assert peer.commands == [(b"PING",)]
        await client.aclose()
