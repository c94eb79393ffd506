"""Run the demo: `python -m examples.demo`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from redis.exceptions import RedisError

from examples.demo.crew import DemoError
from examples.demo.phase import Outcome, Plan, Stage
from examples.demo.report import problems, report
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

_INTERRUPTED = 130


def main() -> int:
    """Run the demo; return 0 if it went as it should."""
    arguments = _arguments()
    began_at = time.monotonic()
    try:
        found = _attempt(arguments)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; all workers are ended")
        return _INTERRUPTED
    for problem in found:
        print(f"WRONG: {problem}")
    print(f"{'FAILED' if found else 'OK'} after {time.monotonic() - began_at:.0f} s")
    return 1 if found else 0


def _attempt(arguments: argparse.Namespace) -> list[str]:
    """Return what went wrong: errors, or else what is wrong with the numbers."""
    found: list[str] = []
    try:
        found = asyncio.run(_run(arguments))
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


async def _run(arguments: argparse.Namespace) -> list[str]:
    me = asyncio.current_task()
    assert me is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, me.cancel)
    async with AsyncExitStack() as stack:
        cluster = None
        if arguments.cluster:
            cluster = await stack.enter_async_context(running_cluster())
            url = cluster.url
        else:
            url = arguments.url or await stack.enter_async_context(embedded_server())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redisson-py-")))
        screen = Screen()
        count = f"{arguments.workers} processes with {arguments.tasks} tasks each"
        where = "the given server" if arguments.url else "a server of our own"
        if cluster is not None:
            where = "a cluster of our own, three masters with a replica each"
        screen.say(f"{count}, on a ledger file and a key of {where}")
        stage = Stage(
            *(url, directory, screen, arguments.workers, arguments.tasks, arguments.seconds),
            cluster=cluster,
        )
        unlocked = await _without_lock(stage, screen)
        locked = await stage.play(
            Plan("with the lock", locked=arguments.sabotage != "no-lock", faults=True)
        )
    print("\n" + report(unlocked, locked) + "\n")
    return problems(unlocked, locked)


async def _without_lock(stage: Stage, screen: Screen) -> Outcome:
    outcome = await stage.play(Plan("without the lock", locked=False, faults=False))
    if all(account.lost > 0 for account in outcome.accounts):
        return outcome
    screen.say("-- nothing was lost; once more, with more time between reading and writing")
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
    return arguments


def _flat(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    found: list[Exception] = []
    for error in group.exceptions:
        found += _flat(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


if __name__ == "__main__":
    sys.exit(main())
