"""Run the demo: `python -m examples.demo`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from redis.exceptions import RedisError

from examples.console import Console, Text, range_of, say_verdict, standard_output
from examples.demo.crew import DemoError
from examples.demo.phase import Outcome, Plan, Stage, length
from examples.demo.report import conclusion, problems, report
from examples.demo.table import Screen
from redisson_py import Redisson, RedissonError
from redisson_py.testing import (
    ServerNotFoundError,
    ServerStartError,
    TopologyError,
    embedded_server,
    running_cluster,
)

#: One is killed, one is stopped, and somebody must be left to take over.
_FEWEST_WORKERS = 3

#: Seconds besides the phases: until servers and workers have started, and at the end.
_STARTS, _CLUSTER_STARTS = 2.0, 4.0
#: Seconds that a busy machine may need besides.
_BUSY = 15.0

_INTERRUPTED = 130


def main() -> int:
    """Run the demo; return 0 if it went as it should."""
    arguments = _arguments()
    # What happens to connections is told by us.
    logging.getLogger("redisson_py").addHandler(logging.NullHandler())
    console = standard_output()
    console.print(_about(arguments))
    began_at = time.monotonic()
    try:
        found = _attempt(arguments, console)
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; all workers are ended")
        return _INTERRUPTED
    for problem in found:
        console.print(Text("WRONG", "bold red").append(f": {problem}", "not bold default"))
    say_verdict(console, time.monotonic() - began_at, "" if found else None)
    return 1 if found else 0


def _about(arguments: argparse.Namespace) -> str:
    """Return in a line what will be shown, where, and how long that takes."""
    faults = "one of them is killed and one is stopped"
    where = "the given server" if arguments.url else "a server of our own"
    if arguments.cluster:
        faults = "masters are killed and slots are moved"
        where = "a cluster of our own, three masters with a replica each"
    least = sum(
        length(arguments.seconds, struck=struck, cluster=arguments.cluster)
        for struck in (False, True)
    ) + (_CLUSTER_STARTS if arguments.cluster else _STARTS)
    return (
        f"{arguments.workers} processes post sales to two shared books, first without a lock and "
        f"then with it, while {faults}, on {where}: {range_of(least, least + _BUSY)}."
    )


def _attempt(arguments: argparse.Namespace, console: Console) -> list[str]:
    """Return what went wrong: errors, or else what is wrong with the numbers."""
    found: list[str] = []
    try:
        found = asyncio.run(_run(arguments, console))
    except* (
        DemoError,
        RedisError,
        RedissonError,
        ServerNotFoundError,
        ServerStartError,
        TopologyError,
    ) as group:
        found = [f"{type(error).__name__}: {error}" for error in _flat(group)]
    return found


async def _run(arguments: argparse.Namespace, console: Console) -> list[str]:
    me = asyncio.current_task()
    assert me is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, me.cancel)
    async with AsyncExitStack() as stack:
        screen = stack.enter_context(Screen(console))
        cluster = None
        if arguments.cluster:
            screen.prepare("starting a cluster")
            cluster = await stack.enter_async_context(running_cluster())
            url = cluster.url
        else:
            url = arguments.url or await stack.enter_async_context(embedded_server())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redisson-py-")))
        stage = Stage(
            *(url, directory, screen, arguments.workers, arguments.tasks, arguments.seconds),
            patience=arguments.patience,
            cluster=cluster,
        )
        unlocked = await _without_lock(stage, screen)
        screen.say(conclusion("without the lock", unlocked).plain)
        locked = await stage.play(
            Plan("with the lock", locked=arguments.sabotage != "no-lock", faults=True)
        )
        screen.prepare("ending the servers")
    console.print(report(unlocked, locked))
    return problems(unlocked, locked)


async def _without_lock(stage: Stage, screen: Screen) -> Outcome:
    outcome = await stage.play(Plan("without the lock", locked=False, faults=False))
    if all(account.lost > 0 for account in outcome.accounts):
        return outcome
    screen.say("nothing was lost; once more, with more time between reading and writing")
    return await stage.play(Plan("without the lock", locked=False, faults=False, pause=0.02))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo",
        description="Bookings by many processes, without a lock and with one.",
    )
    parser.add_argument(
        "--url",
        default=os.environ.get("REDISSON_URL"),
        help="the server to use (default: REDISSON_URL, or else a server of our own)",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="use a cluster of our own, whose masters are killed and whose slots are moved",
    )
    parser.add_argument("--workers", type=int, default=4, help="processes (default: 4)")
    parser.add_argument("--tasks", type=int, default=5, help="tasks of each (default: 5)")
    parser.add_argument(
        "--seconds", type=float, default=12.0, help="length of each of the two phases (default: 12)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=60.0,
        help="seconds after which what must happen counts as missing (default: 60)",
    )
    # For the test that the verdict can be bad.
    parser.add_argument("--sabotage", choices=("no-lock",), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.workers < _FEWEST_WORKERS:
        parser.error(f"--workers must be at least {_FEWEST_WORKERS}")
    if arguments.tasks < 1:
        parser.error("--tasks must be at least 1")
    if arguments.cluster:
        arguments.url = None
    if arguments.url:
        try:
            Redisson.from_url(arguments.url)
        except ValueError as error:
            parser.error(f"--url: {error}")
    if not 1 <= arguments.seconds <= 3600:
        parser.error("--seconds must be between 1 and 3600")
    if not 1 <= arguments.patience <= 3600:
        parser.error("--patience must be between 1 and 3600")
    return arguments


def _flat(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    found: list[Exception] = []
    for error in group.exceptions:
        found += _flat(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


if __name__ == "__main__":
    sys.exit(main())
