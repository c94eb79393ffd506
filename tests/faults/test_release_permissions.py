"""Who may not release is refused when it acquires: it would keep others out for a lease."""

from __future__ import annotations

import pytest

from redisson_py import Lease, Redisson, ScriptError
from redisson_py._scripts import source
from tests.faults.test_permissions import Allow, all_but, allow  # noqa: F401
from tests.fixtures.client import ClientFactory
from tests.support.kinds import KINDS, Kind
from tests.support.leases import renew_now
from tests.support.waiting import until

SINGLE = {name: kind for name, kind in KINDS.items() if kind.servers == 1}

each_kind = pytest.mark.parametrize("kind", SINGLE.values(), ids=SINGLE)


async def assert_all_or_nothing(kind: Kind, client: Redisson) -> str:
    """Fail if it can be acquired but not kept and released; return why it cannot be acquired."""
    try:
        lease: Lease = await kind.one(client).acquire()
    except ScriptError as error:
        return error.message
    renewals = client.statistics().renewals
    renew_now(client)
    await until(lambda: client.statistics().renewals > renewals)
    await lease.extend(30)
    await lease.release()
    return ""


@each_kind
async def test_a_user_without_channels_acquires_nothing(
    kind: Kind,
    clients: ClientFactory,
    allow: Allow,  # noqa: F811
) -> None:
    client = clients(await allow("allkeys", "allcommands", "resetchannels"))
    refused = await assert_all_or_nothing(kind, client)
    assert "NOPERM a release needs" in refused
    assert "'publish' command on the channel redisson_" in refused
    await (await kind.rival_of(clients()).acquire(timeout=0)).release()


@pytest.mark.more
@pytest.mark.parametrize("missing", source.commands())
@each_kind
async def test_what_is_granted_can_be_kept_and_released(
    kind: Kind,
    missing: str,
    clients: ClientFactory,
    allow: Allow,  # noqa: F811
    server_choice: str,
) -> None:
    if server_choice == "redis62":
        pytest.skip("scripts of Redis 6.2 cannot ask what a user may do")
    client = clients(await allow(*all_but(missing)), command_timeout=1)
    await assert_all_or_nothing(kind, client)
