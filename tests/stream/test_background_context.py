"""What a client does for all its callers has no context variables of the one that came first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from redisson_py import Listener, Redisson
from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import SYNC_TIMEOUT, ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.streams import answered

#: Has no default, as many have that a filter of log records reads.
who: ContextVar[str] = ContextVar("who")


class Sees(Listener, logging.Filter):
    """Notes whose context it is called in."""

    def __init__(self) -> None:
        logging.Filter.__init__(self)
        self.seen: set[str] = set()

    def connection_lost(self, event: object, /) -> None:
        self.seen.add(who.get())

    def connection_restored(self, event: object, /) -> None:
        self.seen.add(who.get())

    def filter(self, record: logging.LogRecord) -> bool:
        self.seen.add(who.get())
        return True


async def use_as(name: str, work: Coroutine[Any, Any, object]) -> None:
    """Use it in a task whose context says who that is."""

    async def named() -> None:
        who.set(name)
        await work

    await asyncio.create_task(named())


async def test_an_outage_is_reported_in_the_context_of_where_the_client_was_made(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    sees, log = Sees(), logging.getLogger("redisson_py")
    who.set("maker")
    link = await proxy()
    client = clients(link.url, listener=sees)
    log.addFilter(sees)
    try:
        await use_as("caller", answered(client))
        link.cut()
        await use_as("caller", client.ping(timeout=20))
    finally:
        log.removeFilter(sees)
    assert sees.seen == {"maker"}


async def test_nodes_of_a_cluster_are_reached_in_that_context(cluster: EmbeddedCluster) -> None:
    seen: set[str] = set()
    tasks: dict[asyncio.Task[Any], str] = {}

    def mapped(host: str, port: int) -> tuple[str, int]:
        seen.add(who.get())
        return host, port

    def made(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        # It has a copy of this context.
        tasks[task] = who.get()
        return task

    who.set("maker")
    loop = asyncio.get_running_loop()
    async with Redisson.from_url(
        cluster.url, address_map=mapped, sync_timeout=SYNC_TIMEOUT
    ) as client:
        loop.set_task_factory(made)
        try:
            for name in ("a", "b", "c"):
                await use_as("caller", client.get_lock(name).locked())
        finally:
            loop.set_task_factory(None)
    background = [who for task, who in tasks.items() if task.get_name().startswith("redisson_py")]
    assert len(background) >= 4, "one for each master, and the one that keeps them"
    assert {*background} == seen == {"maker"}


def test_a_task_factory_with_two_parameters_will_do(user_url: str) -> None:
    async def hold() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coroutine: asyncio.Task(coroutine, loop=loop))
        async with Redisson.from_url(user_url) as client, client.get_lock("k") as lease:
            lease.check()

    # In no loop of uvloop: those pass a third one.
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(hold())
