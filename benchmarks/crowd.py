"""Counts what a hand-off of ours costs among many clients, on a server of its own.

`python -m benchmarks.crowd --kinds lock,fenced --clients 2,8,32,128 --seconds 2`
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from benchmarks.crew import start_worker
from benchmarks.harness import Table
from benchmarks.rivals import OURS, OURS_UVLOOP
from benchmarks.scenarios.crowd import KINDS, SENT, crowd, gather
from redisson_py.testing import running_server

_Any = TypeVar("_Any")


async def run(arguments: argparse.Namespace) -> None:
    """Count, print."""
    table = Table(
        "crowd", f"Hand-offs among clients of one task each, {arguments.seconds:g} s each"
    )
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(arguments.server))
        workers = [
            await start_worker(arguments.side, server.url) for _ in range(arguments.processes)
        ]
        for one in workers:
            stack.push_async_callback(one.kill)
        await gather(workers, server.url, max(arguments.clients))
        # What was counted is printed even if the next count fails.
        stack.callback(lambda: print(*table.texts(), sep="\n"))
        for kind in arguments.kinds:
            for clients in arguments.clients:
                found = await crowd(
                    workers,
                    server.url,
                    clients=clients,
                    kind=KINDS[kind],
                    seconds=arguments.seconds,
                    hold=arguments.hold / 1000,
                    pause=arguments.pause / 1000,
                    sent=SENT[arguments.side],
                )
                table.add(f"{kind}, {clients}", found)


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd")
    parser.add_argument("--kinds", type=_list(_kind), default=["lock"], help=", ".join(KINDS))
    parser.add_argument("--clients", type=_list(int), default=[2, 8, 32, 128], metavar="N,N")
    parser.add_argument("--seconds", type=float, default=2.0, help="each kind and number")
    parser.add_argument("--hold", type=float, default=0.0, metavar="MS", help="how long each is in")
    parser.add_argument(
        "--pause", type=float, default=0.0, metavar="MS", help="after which it asks again"
    )
    parser.add_argument("--processes", type=int, default=1, help="over which clients are spread")
    parser.add_argument("--side", choices=SENT, default=OURS, help="rivals have locks only")
    parser.add_argument("--uvloop", dest="side", action="store_const", const=OURS_UVLOOP)
    parser.add_argument("--server", help="which server, as for the tests: valkey, redis7, redis62")
    return parser.parse_args(words)


def _list(one: Callable[[str], _Any]) -> Callable[[str], list[_Any]]:
    return lambda text: [one(word) for word in text.split(",")]


def _kind(word: str) -> str:
    if word not in KINDS:
        raise argparse.ArgumentTypeError(f"no {word!r} among {', '.join(KINDS)}")
    return word


if __name__ == "__main__":
    asyncio.run(run(parse()))
