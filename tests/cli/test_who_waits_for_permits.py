"""Who waits for a semaphore: snapshots and the commands that look say it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.cli.holding import documents, inspected
from tests.cli.terminals import run
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_async

KINDS = {"semaphore": "semaphore", "permits": "permit-expirable-semaphore"}
NAME = "semaphore"


def of(client: Redisson, kind: str) -> Any:
    if kind == "semaphore":
        return client.get_semaphore(NAME, 1)
    return client.get_permit_expirable_semaphore(NAME, 1)


@pytest_asyncio.fixture
async def crowd(clients: ClientFactory, client: Redisson, kind: str) -> AsyncIterator[list[str]]:
    """Have three clients wait for a permit, of which the first is called and does not answer."""
    permit = await of(client, kind).acquire()
    waiters = [clients(client_name=f"billing-{number}") for number in range(3)]
    tasks = []
    for place, each in enumerate(waiters, 1):
        tasks.append(asyncio.create_task(of(each, kind).acquire()))

        async def there(count: int = place) -> bool:
            return len((await of(client, kind).inspect()).waiting) == count

        await until_async(there)
    yield [each.id for each in waiters]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await permit.release()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_snapshot_says_who_waits(client: Redisson, crowd: list[str], kind: str) -> None:
    snapshot = await of(client, kind).inspect()
    assert [each.owner for each in snapshot.waiting] == crowd
    for number, each in enumerate(snapshot.waiting):
        assert each.client_name == f"billing-{number}"
        assert (each.host, each.pid) == (socket.gethostname(), os.getpid())
        assert each.waited is not None
        assert each.called is None
    assert len(snapshot.holders) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_the_commands_that_look_say_it_too(
    server_url: str, crowd: list[str], kind: str
) -> None:
    (found,) = await inspected(server_url, NAME)
    listed = (await documents("locks", "--url", server_url))["found"]
    rows = (await documents("top", "--once", "--url", server_url))["rows"]
    assert len(listed) == len(rows) == 1
    for each in (found, *listed, *rows):
        assert each["kind"] == KINDS[kind]
        assert [waiter["owner"] for waiter in each["waiters"]] == crowd
        assert (each["waiters_total"], each["holders_total"]) == (3, 1)
    text = (await run("inspect", NAME, "--url", server_url)).stdout
    assert f"waits     1. {crowd[0]} (billing-0 on " in text


@pytest.mark.parametrize("kind", KINDS)
async def test_waiters_are_seen_where_nobody_of_ours_holds(
    server_url: str, redis: Redis, clients: ClientFactory, kind: str
) -> None:
    """As where Redisson's clients have all of a plain semaphore."""
    await redis.set(NAME, 0)
    waiter = clients()
    task = asyncio.create_task(of(waiter, kind).acquire())

    async def seen() -> bool:
        return bool(await redis.exists(f"{{{NAME}}}:redisson_py:clients"))

    await until_async(seen)
    (found,) = await inspected(server_url, NAME)
    listed = (await documents("locks", "--url", server_url))["found"]
    task.cancel()
    await asyncio.wait([task])
    for each in (found, *listed):
        assert (each["kind"], each["available"]) == (KINDS[kind], 0)
        assert [waiter["owner"] for waiter in each["waiters"]] == [waiter.id]
