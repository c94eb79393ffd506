"""Takes the pictures of the documentation: `python -m tests.docs.screenshots demo docs/demo.svg`.

The demo, and `top` on a server with some clients, run for real: the pictures have the numbers of
this run.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable
from contextlib import AsyncExitStack, suppress
from io import StringIO
from pathlib import Path

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from redisson_py import Redisson
from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.keyspace import Names
from redisson_py._cli.looks.screen import screen
from redisson_py._cli.looks.watching import Watch, Watcher
from redisson_py._time import now
from redisson_py.testing import running_server
from tests.support import repository
from tests.support.waiting import until_async

#: Columns and lines of each picture.
SIZES = {"demo": (96, 50), "top": (118, 17)}
#: Dark, as terminals are, and readable on light and dark pages.
THEME = TerminalTheme(
    *((16, 20, 31), (214, 220, 235)),
    [
        *((59, 66, 97), (247, 118, 142), (158, 206, 106), (224, 175, 104)),
        *((122, 162, 247), (187, 154, 247), (86, 199, 220), (192, 202, 245)),
    ],
)
_CONTROL = re.compile(r"(\x1b\[[?0-9;]*[A-Za-ln-z]|\r?\n|\r)")

#: What `top` shows as the clients of the server, their hosts, and the ages of what they hold.
CLIENTS = {"web-1": "checkout", "web-2": "checkout", "jobs-1": "billing", "jobs-2": "import"}
JAVA = "3f0c9a57-21d4-4c1e-9b60-7a5d3e8f1c42:47"
AGES = {"migrations": 4123, "prices": 187, "invoice:2041": 62, "report:daily": 41, "s3-uploads": 9}


def demo() -> Text:
    """Return what the demo shows at the end; it runs on a terminal.

    Raises:
        RuntimeError: It did not end well.
    """
    own, its = pty.openpty()
    width, height = SIZES["demo"]
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo"],
        cwd=repository.ROOT,
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": "", "NO_COLOR": ""},
    )
    os.close(its)
    written = b""
    # The other end is closed.
    with suppress(OSError):
        while some := os.read(own, 65536):
            written += some
    os.close(own)
    if process.wait():
        raise RuntimeError(written.decode())
    texts, row = [""], 0
    for part in _CONTROL.split(written.decode()):
        match part:
            case "\x1b[1A":
                row -= 1
            case "\x1b[2K":
                texts[row] = ""
            case "\n" | "\r\n":
                row += 1
                texts += [""] * (row == len(texts))
            case _ if not _CONTROL.match(part):
                texts[row] += part
    return Text.from_ansi("\n".join(texts).rstrip(), no_wrap=True)


async def top() -> RenderableType:
    """Return what `top` shows of a server where some clients hold, and some wait."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server())
        web, other_web, jobs, other_jobs = clients = [
            await stack.enter_async_context(Redisson.from_url(server.url, client_name=name))
            for name in CLIENTS.values()
        ]
        await other_jobs.get_fenced_lock("migrations").acquire()
        for client in (web, other_web):
            await client.get_read_write_lock("prices").read_lock().acquire()
            await client.get_semaphore("s3-uploads", 5).acquire(2)
        await server.execute("HSET", "report:daily", JAVA, 1)
        await server.execute("PEXPIRE", "report:daily", 24_000)
        waits: list[Awaitable[object]] = [
            *(client.get_fair_lock("invoice:2041").acquire() for client in clients),
            jobs.get_lock("report:daily").acquire(),
            *(client.get_barrier("load", 3).wait() for client in (web, jobs)),
        ]
        waiting = asyncio.gather(*waits, return_exceptions=True)
        for number, (client, host) in enumerate(zip(clients, CLIENTS, strict=True)):
            said = {"host": host, "pid": 811 + 97 * number, "client_name": CLIENTS[host]}
            await server.execute("SET", f"redisson_py:client:{client.id}", json.dumps(said))
        asker, watch = Asker(jobs), Watch(now() - 60, 40)
        watcher = Watcher(asker, asker, watch, Names("", "*"), now)

        async def all_there() -> bool:
            await watcher.search()
            await watcher.look()
            rows = {row.found.name: row.found for row in watch.rows.values()}
            return (
                {*AGES, "load"} <= rows.keys()
                and rows["invoice:2041"].waiters_total == 3
                and rows["load"].holders_total == 2
                and rows["report:daily"].listeners == 1
            )

        await until_async(all_there)
        # One that is passed on again and again, and held in the end.
        for number in range(42):
            async with (web if number % 2 else other_web).get_lock("cart:7731"):
                await (watcher.look() if number % 6 else all_there())
                await asyncio.sleep(0.02)
        await web.get_lock("cart:7731").acquire()
        await watcher.look()
        present = now()
        for row in watch.rows.values():
            row.since = present - AGES.get(row.found.name, 1)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        return screen(watch, present, "redis://redis.internal:6379", *SIZES["top"])


def draw(name: str) -> str:
    """Return the picture of a name, as SVG."""
    width, height = SIZES[name]
    sink = StringIO()
    console = Console(record=True, width=width, height=height, file=sink, force_terminal=True)
    title = "make demo" if name == "demo" else "redisson-py top"
    console.print(demo() if name == "demo" else asyncio.run(top()))
    svg = console.export_svg(title=title, theme=THEME, unique_id=name)
    # Rich names a font that a browser would fetch from another host.
    return re.sub(r"@font-face\s*\{[^}]*\}", "", svg)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(sys.argv[1]), "utf-8")
