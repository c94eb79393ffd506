"""A command that is disabled on the server, or not granted: the error says what to do.

Who may not release is refused when it acquires: it would keep others out for a lease.
"""

from __future__ import annotations

import pickle

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, Redisson, ScriptError, UnsupportedServerError
from redisson_py._cli.commands.acl import commands
from redisson_py._redis.scripts import source
from redisson_py.testing import EmbeddedServer
from tests.faults.test_permissions import Allow, all_but, allow  # noqa: F401
from tests.fixtures.client import ClientFactory
from tests.support.kinds import KINDS, Kind
from tests.support.leases import renew_now
from tests.support.waiting import until

MISSING = {
    "evalsha": "EVALSHA",
    "script": "SCRIPT",
    # Refused inside of a script, which does not say which one it is.
    "hincrby": "a command",
    "pttl": "a command",
}
SINGLE = {name: kind for name, kind in KINDS.items() if kind.servers == 1}
each_kind = pytest.mark.parametrize("kind", SINGLE.values(), ids=SINGLE)


@pytest.mark.parametrize("command", MISSING)
async def test_a_server_without_a_command_is_not_supported(command: str) -> None:
    async with EmbeddedServer(config={"rename-command": f'{command} ""'}) as server:
        async with Redisson.from_url(server.url) as client:
            lock = client.get_lock("k")
            with pytest.raises(UnsupportedServerError) as refused:
                await lock.acquire(timeout=10)
            script = source.load("lock.acquire")
            assert str(refused.value) == (
                f"Redis does not have {MISSING[command]}, which {script} needs:"
                " rename-command disables it there, or the service does not offer it"
            )
            assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@pytest.mark.parametrize(
    "rules",
    [
        "-evalsha",
        "-script|load",
        "-@scripting",
        "-pttl",
        "-set",
        "-publish",
        "resetkeys",
        "resetchannels",
    ],
)
async def test_who_lacks_a_permission_reads_where_they_stand(
    rules: str, redis: Redis, server_url: str, server_choice: str
) -> None:
    if server_choice == "redis62" and rules in {"-script|load", "-pttl", "-set"}:
        pytest.skip("scripts of Redis 6.2 cannot ask what a user may do, and rules name no |load")
    await redis.execute_command("SCRIPT", "FLUSH")  # type: ignore[no-untyped-call]  # redis-py's
    await redis.execute_command(  # type: ignore[no-untyped-call]  # redis-py's
        "ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", rules
    )
    try:
        async with Redisson(Redis.from_url(server_url, username="poor", password="pw")) as client:
            with pytest.raises(ScriptError) as refused:
                await client.get_lock("k").acquire(timeout=10)
            assert str(refused.value).endswith("; grant the user what `redisson-py acl` prints")
            assert "redisson-py acl" not in refused.value.message
    finally:
        await redis.acl_deluser("poor")


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
@pytest.mark.parametrize("missing", commands())
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
