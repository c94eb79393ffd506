"""What must be right in a URL, and what a user of a Sentinel must be allowed, on real ones."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import quote

import pytest

from redisson_py import BackendError, ConnectionLostError, Redisson
from redisson_py.testing import EmbeddedSentinel
from tests.fixtures.client import ClientFactory
from tests.fixtures.topologies import SentinelFactory
from tests.support import until
from tests.topology.support import listens

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PASSWORD = "n0t-to-be-told"
SENTINEL_PASSWORD = "neither-th1s"


def rules() -> str:
    """Return what a user of the Sentinels must be allowed, as documented."""
    command = [sys.executable, "-m", "redisson_py", "acl", "--sentinel"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def url_of(servers: EmbeddedSentinel, user: str = "", password: str = "", service: str = "") -> str:
    """Return the URL for a user of the Sentinels."""
    addresses = ",".join(each.address for each in servers.sentinels)
    query = f"?sentinel_username={user}&sentinel_password={quote(password)}" if password else ""
    own = f":{quote(PASSWORD)}@" if servers.password else ""
    return f"redis+sentinel://{own}{addresses}/{service or servers.service}{query}"


async def refusal(client: Redisson) -> str:
    """Return the words of an error that is final."""
    with pytest.raises(BackendError) as caught:
        await client.ping(timeout=20)
    assert not isinstance(caught.value, ConnectionLostError)
    assert PASSWORD not in str(caught.value)
    assert SENTINEL_PASSWORD not in str(caught.value)
    return str(caught.value)


async def test_wrong_settings_are_told_at_once(
    sentinel_factory: SentinelFactory, clients: ClientFactory
) -> None:
    servers = await sentinel_factory(
        password=PASSWORD,
        sentinel_password=SENTINEL_PASSWORD,
        sentinel_users={
            "exact": f"on >{SENTINEL_PASSWORD} {rules()}",
            "deaf": f"on >{SENTINEL_PASSWORD} {rules().replace('&+switch-master', '')}",
            "unanswered": f"on >{SENTINEL_PASSWORD} {rules().replace('+sentinel|master', '')}",
        },
    )
    first = servers.sentinels[0].address
    right = clients(url_of(servers, "exact", SENTINEL_PASSWORD), client_name="orders")
    async with right.get_lock("a"):
        await until(lambda: listens(right))
    text = await refusal(clients(url_of(servers, "exact", "wr0ng")))
    assert f"Sentinel at {first} refused the credentials" in text
    text = await refusal(clients(url_of(servers)))
    assert f"Sentinel at {first}" in text
    text = await refusal(clients(url_of(servers, "exact", SENTINEL_PASSWORD, "other")))
    assert f"Sentinel at {first} knows no 'other'" in text
    text = await refusal(clients(url_of(servers, "deaf", SENTINEL_PASSWORD)))
    assert f"Sentinel at {first} does not let us subscribe to +switch-master" in text
    text = await refusal(clients(url_of(servers, "unanswered", SENTINEL_PASSWORD)))
    assert f"Sentinel at {first} refused to say where the master is" in text
    # The data servers have credentials of their own.
    url = url_of(servers, "exact", SENTINEL_PASSWORD).replace(quote(PASSWORD), "wr0ng")
    text = await refusal(clients(url))
    assert f"Redis at {servers.nodes[0].address} refused the credentials" in text
    # A data server is asked for a master.
    address = servers.nodes[1].address
    query = f"?sentinel_password={quote(PASSWORD)}"
    text = await refusal(clients(f"redis+sentinel://{address}/{servers.service}{query}"))
    assert f"the server at {address} is no Sentinel" in text
