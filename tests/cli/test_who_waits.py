"""The commands that look show the queue of clients: who waits, on which host, since when."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.cli.holding import documents, inspected, one_of_each
from tests.cli.terminals import run
from tests.fixtures.client import ClientFactory
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
            printed
            for printed in table.splitlines()
            if " KIND " in printed or printed.startswith(name)
        )
        assert re.match(r"\d", row[head.index("WAITED") :])
        assert row[head.index("WAIT ") :].startswith("1 ")


async def test_of_a_long_queue_some_are_listed_and_all_are_counted(
    server_url: str, redis: Redis
) -> None:
    seconds, _ = await redis.time()
    # They joined an hour ago, one a second; the first was called a minute ago.
    ids = [f"{GHOST[:-4]}{number:04}" for number in range(700)]
    joined = {each: (seconds - 3600 + position) * 1e6 for position, each in enumerate(ids)}
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


@pytest.mark.parametrize("kind", ["semaphore", "permit-expirable-semaphore"])
async def test_who_waits_for_permits(
    kind: str, client: Redisson, clients: ClientFactory, server_url: str
) -> None:
    def semaphore(of: Redisson) -> Any:
        if kind == "semaphore":
            return of.get_semaphore("semaphore", 1)
        return of.get_permit_expirable_semaphore("semaphore", 1)

    waiters = [clients(client_name=f"billing-{number}") for number in range(3)]
    async with await semaphore(client).acquire():
        tasks = []
        for position, waiter in enumerate(waiters, 1):
            tasks.append(asyncio.create_task(semaphore(waiter).acquire()))

            async def waits(count: int = position) -> bool:
                return len((await semaphore(client).inspect()).waiting) == count

            await until_async(waits)
        snapshot = await semaphore(client).inspect()
        (found,) = await inspected(server_url, "semaphore")
        listed = (await rows(server_url))["semaphore"]
        text = (await run("inspect", "semaphore", "--url", server_url)).stdout
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    here = (socket.gethostname(), os.getpid())
    assert [(each.owner, each.client_name, each.host, each.pid) for each in snapshot.waiting] == [
        (waiter.id, f"billing-{number}", *here) for number, waiter in enumerate(waiters)
    ]
    assert all(each.waited is not None and each.called is None for each in snapshot.waiting)
    for each in (found, *listed):
        assert each["kind"] == kind
        assert [waiter["owner"] for waiter in each["waiters"]] == [one.id for one in waiters]
        assert (each["waiters_total"], each["holders_total"]) == (3, 1)
    assert f"waits     1. {waiters[0].id} (billing-0 on " in text
