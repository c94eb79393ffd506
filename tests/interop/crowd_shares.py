"""Counts which share of a lock each language gets, on a server of its own.

`python -m tests.interop.crowd_shares --java 8 --python 8 --hold 5 --redisson 3.27.2`
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack
from itertools import pairwise
from time import monotonic
from typing import NamedTuple

from benchmarks.crew import Worker, start_worker
from benchmarks.rivals import OURS
from benchmarks.rivals.kinds import LOCK, ONE_EXPIRABLE, ONE_PERMIT, READ, WRITE
from redisson_py.testing import running_server
from tests.interop.driver_build import RELEASE
from tests.interop.java import Java, JavaObject

#: Seconds until all have their orders, and until they have found their pace.
_LEAD, _PACE = 0.5, 1.0

#: What the command and the Java driver call them, and what they are.
_KINDS = {
    "lock": LOCK,
    "read": READ,
    "write": WRITE,
    "semaphore": ONE_PERMIT,
    "permits": ONE_EXPIRABLE,
}


class Grants(NamedTuple):
    """How often each client got the lock, and the longest time between two grants of a language.

    Attributes:
        java: Of each Redisson instance.
        python: Of each client.
        gaps: Milliseconds; of Java, of Python.
        crossed: The part of the grants of Java that one of Python follows, and the other way round.
    """

    java: list[int]
    python: list[int]
    gaps: tuple[float, float]
    crossed: tuple[float, float]

    def row(self, threads: int) -> str:
        """Return the figures in words; a share of 1 is what fairness among all waiters gives."""
        java, python = sum(self.java), sum(self.python)
        words = [f"Java {java} {self.java}, Python {python} {self.python}"]
        if self.java and self.python:
            whole = java + python
            for unit, parties in (("client", 1), ("thread", threads)):
                number = len(self.java) * parties
                part = number / (number + len(self.python))
                shares = java / whole / part, python / whole / (1 - part)
                words.append("by {}: {:.2f} {:.2f}".format(unit, *shares))
            words.append("gaps {:.0f} {:.0f} ms".format(*self.gaps))
            words.append("to the other {:.2f} {:.2f}".format(*self.crossed))
        return "; ".join(words)


async def count(
    machines: list[tuple[Java, JavaObject]],
    threads: int,
    workers: list[Worker],
    seconds: float,
    hold_ms: float,
    kind: str = "lock",
) -> Grants:
    """Have all of them want one name for so many seconds."""
    start_at = monotonic() + _LEAD
    begin, end = start_at + _PACE, start_at + _PACE + seconds
    name = f"crowd:{start_at}"
    java_order = {
        "kind": kind,
        "name": name,
        "stay": hold_ms / 1000,
        "rest": 0,
        "start_at": start_at,
        "seconds": _PACE + seconds,
        "tasks": threads,
    }
    order = {
        "clients": 1,
        "first": 0,
        "kind": _KINDS[kind],
        "name": name,
        "hold": hold_ms / 1000,
        "pause": 0,
        "start_at": start_at,
        "end_at": end,
    }
    found = await asyncio.gather(
        *[
            java.driver.call("sections", client, java_order, thread=java.new_name())
            for java, client in machines
        ],
        *[one.do("in_crowd", **order) for one in workers],
    )
    moments = [[each[0] for each in some] for some in found[: len(machines)]]
    moments += [[begin for _, begin, _ in some["visits"]] for some in found[len(machines) :]]
    inside = [[at for at in some if begin * 1e9 <= at <= end * 1e9] for some in moments]
    counts = [*map(len, inside)]

    def gap(some: list[list[int]]) -> float:
        ends = [int(begin * 1e9), int(end * 1e9)]
        grants = sorted([*ends, *(at for each in some for at in each)])
        return max(after - before for before, after in pairwise(grants)) / 1e6

    java, python = inside[: len(machines)], inside[len(machines) :]
    sequence = sorted((at, some is java) for some in (java, python) for each in some for at in each)
    pairs = Counter((one, other) for (_, one), (_, other) in pairwise(sequence))

    def crossed(one: bool) -> float:
        return pairs[one, not one] / max(1, pairs[one, one] + pairs[one, not one])

    return Grants(
        counts[: len(java)],
        counts[len(java) :],
        (gap(java), gap(python)),
        (crossed(True), crossed(False)),
    )


async def run(arguments: argparse.Namespace) -> None:
    """Count, print."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(arguments.server))
        machines = []
        java = None
        for number in range(max(own for own, _ in arguments.crowds)):
            if java is None or number % arguments.instances == 0:
                java = stack.enter_context(Java(arguments.redisson))
            machines.append((java, await java.connect(server.url)))
        workers = []
        for _ in range(max(own for _, own in arguments.crowds)):
            one = await start_worker(OURS, server.url)
            stack.push_async_callback(one.kill)
            await one.do("gather_crowd", url=server.url, clients=1)
            workers.append(one)
        for hold in arguments.hold:
            for java_number, python_number in arguments.crowds:
                found = await count(
                    machines[:java_number],
                    arguments.threads,
                    workers[:python_number],
                    arguments.seconds,
                    hold,
                    arguments.kind,
                )
                setting = f"{java_number} x {arguments.threads} + {python_number}, hold {hold:g} ms"
                sys.stdout.write(f"{setting}: {found.row(arguments.threads)}\n")
                sys.stdout.flush()


def parse() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.crowd_shares")

    def crowds(text: str) -> list[tuple[int, int]]:
        pairs = [each.split("+") for each in text.split(",")]
        return [(int(java), int(python)) for java, python in pairs]

    def numbers(text: str) -> list[float]:
        return [float(each) for each in text.split(",")]

    parser.add_argument(
        "--crowds", type=crowds, default=crowds("2+8,8+8,8+2"), help="Java clients + Python clients"
    )
    parser.add_argument("--hold", type=numbers, default=[0.0, 5.0], metavar="MS,MS")
    parser.add_argument("--kind", choices=_KINDS, default="lock")
    parser.add_argument("--threads", type=int, default=1, help="of each Redisson instance")
    parser.add_argument("--instances", type=int, default=8, help="Redisson instances a JVM")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--redisson", default=RELEASE)
    parser.add_argument("--server", help="which server, as for the tests: valkey, redis7, redis62")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(run(parse()))
