"""What goes wrong with requests, with the server and with the network, one test each."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import subprocess
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, BackendError, ConnectionLostError
from redisson_py._dialect import Dialect
from redisson_py._options import LONGEST_COMMAND_TIMEOUT
from redisson_py._scripts import source
from redisson_py._scripts.source import Script
from redisson_py._stream.retry import pause_before
from redisson_py.errors import LeaseLostError
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory, ServerFactory
from tests.support.certificates import Certificates, make_certificates
from tests.support.leases import assert_ends_in_time, renew_now
from tests.support.sick_server import unable_to_save
from tests.support.stragglers import Stragglers
from tests.support.streams import stream_of
from tests.support.waiting import set_safety_poll, until, until_async, until_listening

OUT_OF_TIME = (AcquireTimeoutError, ConnectionLostError)


async def do(redis: Redis, *command: str | int) -> Any:
    """Send a command that redis-py has no typed method for."""
    untyped: Any = redis
    return await untyped.execute_command(*command)


# Requests.


async def test_question_that_never_arrived_is_asked_again_within_its_time(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    client = clients(link.url)
    await client.ping()
    link.black_hole("up")
    arrived = link.up.bytes_in
    asking = asyncio.create_task(client.get_lock("k").acquire(lease_time=60))
    with pytest.raises(OUT_OF_TIME):
        await client.get_lock("late").acquire(timeout=0.1)
    await link.wait_until(lambda link: link.up.bytes_in > arrived)
    assert await redis.exists("k", "late") == 0
    link.pass_through()
    link.cut()
    async with await asking as lease:
        assert await redis.hgetall("k") == {lease.owner.encode(): b"1"}
    assert not await redis.exists("late")


async def test_duplicate_later_than_anything_is_repeated_ends_with_its_lease(
    clients: ClientFactory, link: FaultProxy, redis: Redis, server_url: str
) -> None:
    client = clients(link.url)
    await client.ping()
    sent: list[bytes] = []

    def note(command: bytes) -> bool:
        sent.extend([command] if b"EVALSHA" in command else [])
        return False

    link.swallow_reply(note)
    asking = asyncio.create_task(client.get_lock("k").acquire(lease_time=60))
    await link.wait_until(lambda link: bool(sent))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await client.ping()
    (tombstone,) = await redis.keys("*tombstone*")
    assert (
        await redis.pttl(tombstone) / 1000
        > LONGEST_COMMAND_TIMEOUT + client._context.options.reply_timeout
    )
    await redis.delete(tombstone)  # as if its time were over
    async with Stragglers(server_url) as late:
        await late.deliver(sent[:1])
    assert 0 < await redis.pttl("k") <= 60_000
    await redis.delete("k")


def test_pauses_before_another_attempt_grow_are_bounded_and_differ() -> None:
    pauses = [pause_before(attempt) for attempt in range(1000)]
    assert all(0 < pause <= 1 for pause in pauses)
    assert len(set(pauses)) > 900
    assert max(pause_before(0) for _ in range(1000)) <= 0.02
    assert max(pauses[10:]) > 2 * min(pauses[10:])
    # Twice as long each time, on average, until the longest.
    means = [fmean(pause_before(attempt) for _ in range(1000)) for attempt in range(10)]
    assert all(1.7 < later / sooner < 2.3 for sooner, later in pairwise(means[:6]))
    assert min(means[7:]) > 10 * means[0]


FUNCTION = re.compile(r"^local function (\w+)\(([\w, ]+)\)\n(.*?)^end$", re.MULTILINE | re.DOTALL)
#: The only keys that are built, and what from: those of a reader's leases, and their index.
BUILT = re.compile(
    r"(\w+) = (?:reader_key|readers_index)\(|for _, (\w+) in ipairs\(reader_holds\)|(reader_key)\("
)
#: The short ways build them without a function.
TAG = re.compile(
    r"tag = '\{' .. lock .. '\}'\n *if string.find\(lock, '\{', 1, true\) then\n *tag = lock\n"
)
SHORT = re.compile(r"tag \.\. (?:':' \.\. owner \.\. ':rwlock_timeout:1'|':redisson_py:readers')")

NAMED = re.compile(r"^ +local ([\w, ]+) = (?:KEYS\[[^\]]+\](?:, )?)+$", re.MULTILINE)


def scopes(script: Script) -> list[tuple[str, set[str]]]:
    """Return the text of a script, and of each function in it, with its names of keys."""
    text = script.wordings[Dialect.PLAIN].text
    functions = FUNCTION.findall(text)
    main = FUNCTION.sub("", text)
    main = SHORT.sub("reader_key(lock)", main) if TAG.search(main) else main
    bodies = {"": main} | {name: body for name, _, body in functions}
    keys = {"": {name.removesuffix("...") for name in script.keys}}
    # In a batch each key is called by its name in the loop, and so are those that go with it.
    keys[""] |= set(re.findall(r"for \w+, (\w+) in ipairs\(KEYS\)", bodies[""]))
    keys[""] |= {name for names in NAMED.findall(bodies[""]) for name in names.split(", ")}
    # Functions call each other, so one look at each is not enough.
    for name, parameters, _ in functions * len(functions):
        calls = [
            (found.split(", "), keys.get(caller, set()) | {"nil"})
            for caller, body in bodies.items()
            for found in re.findall(rf"\b{name}\(([\w., ]*)", body)
        ]
        keys[name] = {
            parameter
            for place, parameter in enumerate(parameters.split(", "))
            if all(known.issuperset(values[place : place + 1]) for values, known in calls)
        }
    return [(body, keys[name]) for name, body in bodies.items()]


def test_scripts_touch_no_key_but_those_declared() -> None:
    for script in source.load_all():
        for body, keys in scopes(script):
            if script.name.startswith(("read_", "write_")):
                assert keys.issuperset(re.findall(r"\b(?:reader_keys?|readers_index)\((\w+)", body))
                keys |= {name for names in BUILT.findall(body) for name in names}
            calls = re.findall(r"redis\.p?call\(\s*'([A-Z]+)'(?:, ([\w, ]+))?", body)
            for command, rest in calls:
                if command not in ("PUBLISH", "TIME"):
                    words = rest.split(", ")
                    touched = words if command in ("EXISTS", "DEL") else words[:1]
                    assert keys.issuperset(touched), (script.name, command, touched)


# The server.


async def test_killed_server_that_syncs_its_log_keeps_the_lease(
    clients: ClientFactory, server_factory: ServerFactory
) -> None:
    server = await server_factory(appendonly=True, config={"appendfsync": "always"})
    lock = clients(server.url).get_lock("k")
    async with lock.hold(lease_time=40):
        before = await lock.remaining()
        await server.kill()
        await server.start()
        after = await lock.remaining()
        assert before is not None
        assert after is not None
        assert 0 < after <= before <= 40
        assert await lock.hold_count() == 1
    assert not await lock.locked()


async def test_writes_that_are_paused_are_waited_for(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    client = clients(own_server.url)
    await client.ping()
    await do(admin, "CLIENT", "PAUSE", 60_000, "WRITE")
    asking = asyncio.create_task(client.get_lock("k").acquire(timeout=30))
    with pytest.raises(OUT_OF_TIME):
        await clients(own_server.url).get_lock("late").acquire(timeout=0.2)
    assert await admin.exists("k", "late") == 0
    assert not asking.done()
    await do(admin, "CLIENT", "UNPAUSE")
    await (await asking).release()
    assert client.statistics().connections == 1
    await until_async(lambda: gone(admin, "late"))


async def gone(redis: Redis, name: str) -> bool:
    return not await redis.exists(name)


async def test_server_that_cannot_save_grants_nothing_and_the_holder_is_told(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    client = clients(own_server.url, lease_time=6)
    lease = await client.get_lock("k").acquire()
    async with unable_to_save(own_server):
        with pytest.raises(ConnectionLostError, match="MISCONF"):
            await client.get_lock("other").acquire(timeout=1)
        with pytest.raises(LeaseLostError):
            async with lease:
                await assert_ends_in_time(lease, admin, "k")
                await asyncio.sleep(30)
        assert not await admin.exists("other")
    async with client.get_lock("k").hold(timeout=10):
        pass


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_evicted_lock_is_a_loss(
    policy: str, clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    client = clients(own_server.url)
    await admin.config_set("maxmemory-policy", policy)
    with pytest.raises(LeaseLostError):
        async with client.get_lock("k"):
            await admin.config_set("maxmemory", 1)
            await until_async(lambda: gone(admin, "k"))
            await admin.config_set("maxmemory", 0)
            renew_now(client)
            await asyncio.sleep(30)
    assert client.statistics().losses == 1


async def test_release_in_another_database_calls_nobody_and_grants_nothing(
    clients: ClientFactory, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 60)
    holder, waiter, elsewhere = (clients(own_server.url + path) for path in ("", "", "/1"))
    async with holder.get_lock("k") as lease:
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=30))
        # It watches the channel of all releases too, and channels know no databases: it looks.
        await until(lambda: waiter._table.seats == 2)
        await until_listening(waiter)
        asked = waiter.statistics().commands_sent
        async with elsewhere.get_lock("k"):
            assert not lease.lost
        await until(lambda: waiter.statistics().commands_sent > asked)
        await until_listening(waiter)
        assert waiter.statistics().wake_ups == 0
        assert not waiting.done()
        assert await holder.get_lock("k").owned()
    await (await waiting).release()


@pytest.mark.parametrize("command", ["RENAME k other", "MOVE k 1", "SWAPDB 0 1", "PEXPIRE k 1"])
async def test_what_third_parties_do_to_the_key_is_a_loss(
    command: str, clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    client = clients(own_server.url)
    with pytest.raises(LeaseLostError):
        async with client.get_lock("k"):
            await do(admin, *command.split())
            await until_async(lambda: gone(admin, "k"))
            renew_now(client)
            await asyncio.sleep(30)
    assert client.statistics().losses == 1


async def test_server_without_its_replicas_is_waited_for(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    if int((await admin.info("server"))["redis_version"].partition(".")[0]) < 7:
        pytest.skip("scripts of Redis 6.2 write all the same")
    client = clients(own_server.url)
    lease = await client.get_lock("k").acquire(lease_time=60)
    clock = asyncio.get_running_loop().time
    begun = clock()
    await admin.config_set("min-replicas-to-write", 1)
    with pytest.raises(OUT_OF_TIME):
        await client.get_lock("late").acquire(timeout=0.2)
    asking = asyncio.create_task(client.get_lock("other").acquire(timeout=30))
    releasing = asyncio.create_task(lease.release())
    await asyncio.wait({asking, releasing}, timeout=0.2)
    assert not asking.done()
    assert not releasing.done()
    # Each asks again after pauses that grow to a second.
    assert client.statistics().commands_sent < 60 + 6 * (clock() - begun)
    await admin.config_set("min-replicas-to-write", 0)
    await releasing
    await (await asking).release()
    await until_async(lambda: gone(admin, "late"))
    assert not await admin.exists("k")
    assert client.statistics().connections == 1


# The network.


async def test_waiter_on_a_dead_connection_is_soon_on_another(
    clients: ClientFactory, link: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 60)  # which would find it too, later
    holder, waiter = clients(), clients(link.url, lease_time=6)
    async with holder.get_lock("k"):
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=30))
        await until_listening(waiter)
        link.black_hole()
    # The message is lost, and nobody says that the connection is dead.
    await until(lambda: not stream_of(waiter).ready)
    link.pass_through()
    link.cut()
    await (await waiting).release()
    assert waiter.statistics().connections == 2


async def test_name_of_the_server_is_looked_up_at_every_connection(
    clients: ClientFactory, proxy: ProxyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [await proxy(), await proxy()]
    answers: list[FaultProxy | None] = [links[0], None, links[1]]
    connect = asyncio.open_connection

    async def looked_up(host: str, port: int, **more: Any) -> Any:
        if host != "redis.example":
            return await connect(host, port, **more)
        found = answers.pop(0)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return await connect(found.host, found.port, **more)

    monkeypatch.setattr(asyncio, "open_connection", looked_up)
    client = clients(links[0].url.replace(f"{links[0].host}:{links[0].port}", "redis.example:6379"))
    async with client.get_lock("k") as lease:
        links[0].cut()
        assert await client.get_lock("k").owned()
        assert not lease.lost
    assert [link.accepted for link in links] == [1, 1]


def make_expired(made: Certificates) -> None:
    """Sign the server's certificate again, for no time at all."""
    sign = "openssl x509 -req -in server.csr -days 0 -extfile ext -CA ca.pem -CAkey ca.key"
    command = [*sign.split(), "-set_serial", "2", "-out", str(made.certificate)]
    subprocess.run(command, cwd=made.key.parent, check=True, capture_output=True, timeout=30)


async def test_certificate_that_has_expired_is_an_error_at_once(
    clients: ClientFactory, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path / "old", "IP:127.0.0.1")
    make_expired(made)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    async with await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context
    ) as server:
        port = server.sockets[0].getsockname()[1]
        client = clients(f"rediss://127.0.0.1:{port}?ssl_ca_certs={made.authority}")
        for _ in range(2):
            with pytest.raises(BackendError, match=r"TLS .*expired") as caught:
                await client.ping()
            assert not isinstance(caught.value, ConnectionLostError)
    assert client.statistics().connections == 0


async def test_idle_connection_that_the_server_closes_costs_no_lease(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    client, waiter = clients(own_server.url), clients(own_server.url)
    async with client.get_lock("k") as lease:
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=30))
        await until_listening(waiter)
        await admin.config_set("timeout", 1)
        await until(lambda: not stream_of(client).ready)
        assert await client.get_lock("k").owned()
        assert not lease.lost
    await (await waiting).release()
    # Who listens is spared.
    assert waiter.statistics().connections == 1
