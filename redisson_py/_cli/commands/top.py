"""`redisson-py top`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
import click
from anyio.abc import TaskGroup
from rich.console import Console

from redisson_py import Redisson
from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.keyspace import Names
from redisson_py._cli.looks.screen import Screen, plain, screen, until_quit
from redisson_py._cli.looks.watching import Watch, Watcher
from redisson_py._cli.seconds import FiniteRange
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import UNAVAILABLE, answer, asynchronous, json_option
from redisson_py._time import now

#: Seconds for which a server may be silent before it is shown as away.
_ANSWER_TIMEOUT = 2.0
#: Seconds between two searches of all keys.
_SEARCH_PAUSE = 2.0

#: Seconds for which the end waits for servers.
_CLOSE_TIMEOUT = 0.5

Show = Callable[[Watch], None]


@click.command(short_help="Watch holders and waiters, live.")
@click.argument("pattern", default="*")
@servers_options
@click.option(
    "--interval",
    type=FiniteRange(0.1, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Search all keys, look once, and exit.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=40,
    show_default=True,
    help="Watch at most this many resources: the first ones found.",
)
@click.option(
    "--rate",
    type=FiniteRange(10, 100_000),
    default=400.0,
    show_default=True,
    help="Send at most this many commands a second, to all servers together; half of them search.",
)
@json_option
@asynchronous
async def top(
    *,
    pattern: str,
    servers: Servers,
    interval: float,
    once: bool,
    limit: int,
    rate: float,
    as_json: bool,
) -> int:
    """Watch who holds locks, semaphores and barriers, and who waits. Quit with q or Ctrl-C.

    A rate limiter is shown while it has no units left.

    On a terminal, top redraws a screen at each look; elsewhere it prints a block of plain lines
    for each look, with --json a document on one line.

    \b
    HELD         how long top has seen these holders: they have held it at least that long
    LEFT         time left of the lease; red below 5 s: nobody renews it
    WAIT         clients that wait for a lock, waiters in a fair queue, or writers that go first
    WAITED       how long the first of these clients has waited
    LISTEN       connections that listen on its channel: of a lock, Redisson's clients that wait
                 and up to two of this library; else about one for each client that waits
    HAND-OFFS/s  new holders seen in the last 10 s: at most one at each look
    releases/s   messages that the servers published (PUBLISH, SPUBLISH): one for each release,
                 and whatever other applications publish there

    top searches all keys with SCAN, as `locks` does, over and over with a pause of 2 s. Each
    watched resource costs about eight small commands a look. If --rate is too low for --interval,
    looks take longer. top subscribes to nothing: clients yield to whoever listens, so it would
    slow down what it shows.

    If a server does not answer within 2 s, top names it, marks its rows "no answer", and tries it
    again at each look. Exit status: 0 after q, 130 after Ctrl-C; 69 with --once if a server did
    not answer.
    """  # noqa: D301 - click's mark for lines that stay as they are
    watch = Watch(now(), limit)
    async with _closed_quickly(servers.client(command_timeout=_ANSWER_TIMEOUT)) as connected:
        search, look = Asker(connected, rate / 2), Asker(connected, rate / 2)
        watcher = Watcher(search, look, watch, Names(look.prefix, pattern), now)
        if once:
            await watcher.search()
            await watcher.look()
            _print(watch, as_json)
            return UNAVAILABLE if watch.away else 0
        console = Console()
        if as_json or not sys.stdout.isatty() or console.is_dumb_terminal:
            return await _run(watcher, interval, lambda watch: _print(watch, as_json))
        with Screen(console) as own:

            def show(watch: Watch) -> None:
                width, height = console.size
                own.show(screen(watch, now(), look.where, width, height))

            return await _run(watcher, interval, show, own)


@asynccontextmanager
async def _closed_quickly(client: Redisson) -> AsyncGenerator[Redisson, None]:
    """Close a client that holds nothing, without waiting for a server that is silent."""
    try:
        yield client
    finally:
        with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await client.aclose()


def _print(watch: Watch, as_json: bool) -> None:
    present = datetime.now(UTC)
    if as_json:
        answer({"time": present.isoformat(timespec="milliseconds"), **watch.document(now())})
        return
    click.echo(f"{present:%H:%M:%S} " + "\n".join(plain(watch, now())))


async def _run(watcher: Watcher, interval: float, show: Show, own: Screen | None = None) -> int:
    """Look until the user or a signal ends it; return the exit status."""
    status = 0

    async def until_signal(group: TaskGroup) -> None:
        nonlocal status
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                status = 128 + number
                group.cancel_scope.cancel()

    async def until_key(group: TaskGroup, file: int) -> None:
        await until_quit(file)
        group.cancel_scope.cancel()

    async def stop_and_go_on(own: Screen) -> None:
        with anyio.open_signal_receiver(signal.SIGTSTP) as signals:
            async for _ in signals:
                own.leave()
                os.kill(os.getpid(), signal.SIGSTOP)
                own.enter()

    async def search() -> None:
        while True:
            await watcher.search()
            await anyio.sleep(_SEARCH_PAUSE)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(until_signal, group)
            if own is not None:
                group.start_soon(stop_and_go_on, own)
            if own is not None and own.keys is not None:
                group.start_soon(until_key, group, own.keys)
            group.start_soon(search)
            while True:
                began = now()
                await watcher.look()
                show(watcher.watch)
                await anyio.sleep(max(0.0, began + interval - now()))
    except ExceptionGroup as failures:
        # One is enough to end it, and to say why.
        raise failures.exceptions[0] from None
    return status
