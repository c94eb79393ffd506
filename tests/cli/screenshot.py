"""Draws `top` as it shows a real server: `python -m tests.cli.screenshot docs/images/top.svg`."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import AsyncExitStack
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from redisson_py import Redisson
from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.keyspace import Names
from redisson_py._cli.looks.screen import screen
from redisson_py._cli.looks.watching import Watch, Watcher
from redisson_py._time import now
from redisson_py.testing import EmbeddedServer, running_server
from tests.support.waiting import until_async

WIDTH, HEIGHT = 118, 17
#: What the address and the pids of a real server would change with each run.
ADDRESS = "redis://redis.internal:6379"
CLIENTS = (
    ("checkout", "web-1"),
    ("checkout", "web-2"),
    ("billing", "jobs-1"),
    ("import", "jobs-2"),
)
JAVA = "3f0c9a57-21d4-4c1e-9b60-7a5d3e8f1c42:47"
#: Seconds by which the rows differ in age.
AGES = {"migrations": 4123, "prices": 187, "invoice:2041": 62, "report:daily": 41, "s3-uploads": 9}
COLORS = TerminalTheme(
    (16, 20, 31),
    (214, 220, 235),
    [
        (59, 66, 97),
        (247, 118, 142),
        (158, 206, 106),
        (224, 175, 104),
        (122, 162, 247),
        (187, 154, 247),
        (86, 199, 220),
        (192, 202, 245),
    ],
)


async def draw() -> str:
    """Return the picture, as SVG."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server())
        clients = [
            await stack.enter_async_context(Redisson.from_url(server.url, client_name=name))
            for name, _ in CLIENTS
        ]
        watch = await _watched(server, clients)
        console = Console(
            record=True, width=WIDTH, height=HEIGHT, file=StringIO(), force_terminal=True
        )
        console.print(screen(watch, now(), ADDRESS, WIDTH, HEIGHT))
        picture = console.export_svg(title="redisson-py top", theme=COLORS, unique_id="top")
        # The documentation is read offline: no font comes from elsewhere.
        return re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)


async def _watched(server: EmbeddedServer, clients: list[Redisson]) -> Watch:
    web, other_web, jobs, other_jobs = clients
    waiting: list[asyncio.Task[Any]] = [
        asyncio.create_task(client.get_fair_lock("invoice:2041").acquire())
        for client in (jobs, web, other_web, other_jobs)
    ]
    await other_jobs.get_fenced_lock("migrations").acquire()
    for client in (web, other_web):
        await client.get_read_write_lock("prices").read_lock().acquire()
        await client.get_semaphore("s3-uploads", 5).acquire(2)
    await server.execute("HSET", "report:daily", JAVA, 1, timeout=5)
    await server.execute("PEXPIRE", "report:daily", 24_000)
    waiting.append(asyncio.create_task(jobs.get_lock("report:daily").acquire()))
    waiting += [
        asyncio.create_task(client.get_barrier("import:load", 3).wait()) for client in (web, jobs)
    ]
    for number, (client, (name, host)) in enumerate(zip(clients, CLIENTS, strict=True)):
        said = json.dumps({"host": host, "pid": 811 + 97 * number, "client_name": name})
        await server.execute("SET", f"redisson_py:client:{client.id}", said)
    asker = Asker(jobs)
    watch = Watch(now() - 60, 40)
    watcher = Watcher(asker, asker, watch, Names("", "*"), now)

    async def all_there() -> bool:
        await watcher.search()
        await watcher.look()
        rows = {row.found.name: row.found for row in watch.rows.values()}
        return (
            {*AGES, "import:load"} <= rows.keys()
            and rows["invoice:2041"].waiters_total == 3
            and rows["import:load"].holders_total == 2
            and rows["report:daily"].listeners == 1
        )

    await until_async(all_there)
    for number in range(42):
        client = web if number % 2 else other_web
        async with client.get_lock("cart:7731"):
            if number % 6 == 0:
                await watcher.search()
            await watcher.look()
            await asyncio.sleep(0.02)
    await web.get_lock("cart:7731").acquire()
    await watcher.look()
    present = now()
    for row in watch.rows.values():
        row.since = present - AGES.get(row.found.name, 1)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return watch


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(asyncio.run(draw()))
