"""The commands that look show the queue of clients: who waits, on which host, since when."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.testing import EmbeddedServer
from tests.cli.holding import documents, inspected, one_of_each
from tests.cli.terminals import run
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import PASSWORD, documented_rules, url_of_user
from tests.support.waiting import until_async

#: A client that nobody has.
GHOST = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9"
QUEUE = "{k}:redisson_py:clients"


async def rows(url: str) -> dict[str, list[dict[str, Any]]]:
    """Return what `locks` and `top` show of each name."""
    listed = await documents("locks", "--url", url)
    look = await documents("top", "--once", "--url", url)
    found: dict[str, list[dict[str, Any]]] = {}
    for each in (*listed["found"], *look["rows"]):
        found.setdefault(each["name"], []).append(each)
    return found


@pytest.mark.parametrize("name", ["lock", "fenced"])
async def test_who_waits_where_and_since_when(
    name: str, server_url: str, clients: ClientFactory
) -> None:
    waiter = clients(client_name="billing")
    async with one_of_each(clients(), waiter):
        (found,) = await inspected(server_url, name)
        listed = (await rows(server_url))[name]
        text = (await run("inspect", name, "--url", server_url)).stdout
        tables = [
            (await run(*look, "--url", server_url)).stdout
            for look in (("locks", name), ("top", name, "--once"))
        ]
    for each in (found, *listed):
        (shown,) = each["waiters"]
        assert (shown["owner"], shown["client_name"]) == (waiter.id, "billing")
        assert (shown["host"], shown["pid"]) == (socket.gethostname(), os.getpid())
        assert (shown["seconds_waited"] > 0, shown["seconds_called"]) == (True, None)
        assert each["waiters_total"] == 1
    where = re.escape(f"billing on {socket.gethostname()}, pid {os.getpid()}")
    assert re.search(rf"\n  waits     1\. {waiter.id} \({where}\), for \d+\.\d s\n", text)
    assert f"{{{name}}}:redisson_py:clients" in text
    for table in tables:
        head, row = (
            line for line in table.splitlines() if " KIND " in line or line.startswith(name)
        )
        assert re.match(r"\d", row[head.index("WAITED") :])
        assert row[head.index("WAIT ") :].startswith("1 ")


async def test_of_a_long_queue_some_are_listed_and_all_are_counted(
    server_url: str, redis: Redis
) -> None:
    seconds, _ = await redis.time()
    # They joined an hour ago, one a second; the first was called a minute ago.
    ids = [f"{GHOST[:-4]}{number:04}" for number in range(700)]
    joined = {each: (seconds - 3600 + place) * 1e6 for place, each in enumerate(ids)}
    await redis.zadd(QUEUE, {f">{ids[0]}": (60 - seconds) * 1e6, **joined})
    await redis.pexpire(QUEUE, 60_000)
    (found,) = await inspected(server_url, "k", "--limit", "5")
    text = (await run("inspect", "k", "--limit", "5", "--url", server_url)).stdout
    listed = (await rows(server_url))["k"]
    await redis.delete(QUEUE)
    assert [each["owner"] for each in found["waiters"]] == ids[:5]
    assert {each["waiters_total"] for each in (found, *listed)} == {700}
    assert found["waiters"][0]["seconds_called"] >= 60
    assert found["waiters"][1]["seconds_called"] is None
    assert found["waiters"][4]["seconds_waited"] >= 3596
    assert re.search(rf"1\. {ids[0]}, for 36\d\d\.\d s, called \d+\.\d s ago\n", text)
    assert "and 695 more" in text
    assert "k: lock, free\n" in text


async def test_a_queue_at_a_key_of_another_type_is_no_lock(server_url: str, redis: Redis) -> None:
    await redis.set("k", "user's text", px=60_000)
    await redis.zadd(QUEUE, {GHOST: 1})
    await redis.pexpire(QUEUE, 60_000)
    result = await run("inspect", "k", "--url", server_url)
    listed = await rows(server_url)
    await redis.delete(QUEUE)
    assert result.stdout == "k: a key of type string, not something this library uses\n"
    assert listed == {}


@pytest.mark.parametrize("kind", ["lock", "fenced_lock"])
async def test_the_documented_permissions_are_enough_to_wait_and_to_look(
    kind: str, own_server: EmbeddedServer
) -> None:
    """Each client has a key of a queue, and a channel of its own on which it is called."""
    for user, options in (("app", []), ("op", ["--operator"])):
        rules = documented_rules("svc:", *options)
        await own_server.execute("ACL", "SETUSER", user, "on", f">{PASSWORD}", *rules)
    app, op = (url_of_user(own_server.url, user) for user in ("app", "op"))
    holder, *waiters = (Redisson.from_url(app, prefix="svc:") for _ in range(4))
    locks = [getattr(client, f"get_{kind}")("k") for client in (holder, *waiters)]
    async with AsyncExitStack() as stack:
        for client in (holder, *waiters):
            await stack.enter_async_context(client)
        lease = await locks[0].acquire()
        tasks = [asyncio.create_task(lock.acquire()) for lock in locks[1:]]

        async def all_wait() -> bool:
            return len((await locks[0].inspect()).waiters) == len(waiters)

        await until_async(all_wait)
        (found,) = await inspected(op, "k", "--prefix", "svc:")
        await lease.release()
        leases = []
        for task in asyncio.as_completed(tasks):
            leases.append(await task)
            await leases[-1].release()
        assert all(client.statistics().wake_ups for client in waiters)
    assert {each["owner"] for each in found["waiters"]} == {client.id for client in waiters}
    assert {each["pid"] for each in found["waiters"]} == {os.getpid()}
    refused: list[Any] = await own_server.execute("ACL", "LOG")
    # redis-py, with which the test asks, says who it is.
    assert {each[each.index("object") + 1] for each in refused} <= {"client|setinfo"}
