"""The ZooKeeper store over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py.errors import BackendError
from redisson_py.testing._configuration import free_port
from tests.stores.bell import Bell
from tests.stores.zookeeper.server import HOST
from tests.stores.zookeeper.support import granted, opened, soon, zookeeper_or_skip
from tests.support.certificates import Certificates, make_certificates


class Secure(NamedTuple):
    url: str
    certificates: Certificates


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A server that wants a certificate from its clients."""
    folder = tmp_path_factory.mktemp("tls")
    made = make_certificates(folder / "certificates", f"IP:{HOST}")
    both = folder / "both.pem"
    both.write_text(made.key.read_text() + made.certificate.read_text())
    port = free_port()
    options = (
        "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "-Dzookeeper.ssl.keyStore.type=PEM",
        f"-Dzookeeper.ssl.keyStore.location={both}",
        "-Dzookeeper.ssl.trustStore.type=PEM",
        f"-Dzookeeper.ssl.trustStore.location={made.authority}",
        "-Dzookeeper.ssl.clientAuth=need",
    )
    rows = (f"secureClientPort={port}", f"secureClientPortAddress={HOST}")
    with zookeeper_or_skip(folder / "server", *options, rows=rows):
        yield Secure(f"zookeepers://{HOST}:{port}", made)


def url_of(secure: Secure, authority: Path) -> str:
    made = secure.certificates
    files = f"ssl_certfile={made.certificate}&ssl_keyfile={made.key}"
    return f"{secure.url}?ssl_ca_certs={authority}&{files}"


async def test_connects_with_certificates(secure: Secure) -> None:
    async with opened(url_of(secure, secure.certificates.authority)) as store:
        await granted(store, "tls", "tls:1")
        assert await store.give_back("tls", "tls:1", False, soon()) is True


# kazoo leaves the sockets of such attempts to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_server_of_another_authority_is_refused(secure: Secure, tmp_path: Path) -> None:
    foreign = make_certificates(tmp_path / "foreign", f"IP:{HOST}")
    store = ZooKeeperStore.from_url(url_of(secure, foreign.authority))
    with pytest.raises(BackendError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        await store.start(Bell(), soon(3))
    assert type(caught.value) is BackendError
    missing = ZooKeeperStore.from_url(url_of(secure, tmp_path / "missing"))
    with pytest.raises(BackendError, match="file"):
        await missing.start(Bell(), soon())
