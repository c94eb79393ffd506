"""Runs the benchmarks, prints the tables and the ratios, and writes JSON where asked.

Run as `python -m benchmarks.run`; README.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.crew import Bench
from benchmarks.facts import machine, versions
from benchmarks.goals import goals
from benchmarks.harness import Table, goal_rows
from benchmarks.plots import CannotDrawError, draw, draw_clients
from benchmarks.rivals import (
    AIOLIMITER,
    AIOREDLOCK,
    BARE,
    BARE_UVLOOP,
    LIMITS,
    NO_PLAIN_LOCK,
    OURS,
    OURS_UVLOOP,
    POTTERY,
    PY_REDIS_SEMAPHORE,
    PY_REDIS_SEMAPHORE_POLLING,
    PYRATE_LIMITER,
    PYTHON_REDIS_LOCK,
    REDIS_PY,
    REDISSON,
    SIDES,
)
from benchmarks.scenarios import (
    alternating,
    calls,
    contended,
    crowd,
    fairness,
    growth,
    handoff,
    imports,
    loss,
    primitives,
    processes,
    rates,
    recovery,
    red_locks,
    renewals,
    semaphores,
    stores,
    telemetry,
    topologies,
    uncontended,
    waiting,
    wakes,
)
from benchmarks.sizes import SIZES, Size
from redisson_py.testing import running_server

Scenario = Callable[[Bench], Awaitable[Table | list[Table]]]

#: What `--only` chooses from.
SCENARIOS: dict[str, tuple[Scenario, ...]] = {
    "pairs": (uncontended.measure, uncontended.measure_two),
    "handoff": (handoff.measure,),
    "processes": (processes.measure,),
    "turns": (alternating.measure,),
    "primitives": (primitives.measure,),
    "contended": (contended.measure,),
    "wakes": (wakes.measure,),
    "order": (fairness.measure,),
    "crowd": (crowd.measure,),
    "semaphores": (semaphores.measure,),
    "rates": (rates.measure,),
    "red": (red_locks.measure,),
    "topologies": (topologies.measure,),
    "stores": (stores.measure,),
    "recovery": (recovery.measure,),
    "waiting": (waiting.measure,),
    "renewals": (renewals.measure,),
    "loss": (loss.measure,),
    "growth": (growth.measure,),
    "calls": (calls.measure,),
    "telemetry": (telemetry.measure,),
    "imports": (imports.measure,),
}


def workers_needed(chosen: list[str], sides: list[str], size: Size) -> dict[str, int]:
    """Return how many processes of each side the chosen scenarios need."""
    needed: dict[str, int] = {}

    def need(count: int, *some: str) -> None:
        needed.update({side: max(count, needed.get(side, 0)) for side in some if side in sides})

    need(1, OURS, OURS_UVLOOP)
    if "pairs" in chosen:
        need(1, *[side for side in SIDES if side not in NO_PLAIN_LOCK])
        need(2, OURS, OURS_UVLOOP, REDIS_PY, BARE)
    if "growth" in chosen:
        need(1, BARE)
    if {"handoff", "waiting", "renewals"} & set(chosen):
        need(1, REDIS_PY, PYTHON_REDIS_LOCK, POTTERY, AIOREDLOCK)
    if "handoff" in chosen:
        need(1, REDISSON)
    if {"processes", "turns"} & set(chosen):
        need(2, OURS, OURS_UVLOOP, BARE, BARE_UVLOOP, REDISSON)
    if "processes" in chosen:
        need(2, REDIS_PY, PYTHON_REDIS_LOCK)
        need(max(processes for processes, _ in size.crews), OURS, OURS_UVLOOP)
    if {"contended", "semaphores"} & set(chosen):
        need(2, OURS, OURS_UVLOOP)
    if {"waiting", "semaphores"} & set(chosen):
        need(2, PY_REDIS_SEMAPHORE, PY_REDIS_SEMAPHORE_POLLING)
    if "rates" in chosen:
        need(1, LIMITS, PYRATE_LIMITER, AIOLIMITER)
    if "order" in chosen:
        need(size.fair_crew[0], OURS, OURS_UVLOOP, REDIS_PY)
    return needed


async def run(arguments: argparse.Namespace) -> None:
    """Measure, print, write."""
    started = time.monotonic()
    size = SIZES[arguments.size]
    facts = machine()
    tables: list[Table] = []
    lasted: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(arguments.server))
        known = versions(server.binary, server.version)
        print(*(f"{name}: {value}" for name, value in {**facts, **known}.items()), sep="\n")
        bench = Bench(server.url, arguments.server, size, arguments.sides)
        needed = workers_needed(arguments.only, arguments.sides, size)
        await stack.enter_async_context(bench.crew(needed))
        for name in arguments.only:
            begun = time.monotonic()
            for scenario in SCENARIOS[name]:
                found = await scenario(bench)
                for table in found if isinstance(found, list) else [found]:
                    tables.append(table)
                    print(*table.texts(), sep="\n", flush=True)
            lasted[name] = time.monotonic() - begun
    by_name = {table.name: table for table in tables}
    judged = goals(by_name)
    print(*goal_rows(judged), sep="\n")
    seconds = time.monotonic() - started
    print(f"\n{seconds:.0f} s")
    if arguments.json:
        report = {
            "size": arguments.size,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": seconds,
            "seconds of scenarios": lasted,
            "machine": facts,
            "versions": known,
            "tables": {name: table.as_json() for name, table in by_name.items()},
            "goals": {goal.name: goal.as_json() for goal in judged},
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        for drawn, ending in ((draw, "growth"), (draw_clients, "clients")):
            try:
                drawn(by_name, arguments.json.with_name(f"{arguments.json.stem}-{ending}.png"))
            except CannotDrawError as reason:
                print(f"no plot of {ending}: {reason}")


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", fromfile_prefix_chars="@")
    parser.add_argument("--quick", action="store_const", dest="size", const="quick")
    parser.add_argument("--size", choices=SIZES)
    parser.set_defaults(size="full")
    parser.add_argument("--only", type=_names(SCENARIOS), default=[*SCENARIOS], metavar="A,B")
    parser.add_argument(
        "--loop", choices=("asyncio", "uvloop", "both"), default="both", help="for ours and bare"
    )
    parser.add_argument(
        "--sides",
        type=_names(SIDES),
        default=[*SIDES],
        metavar="A,B",
        help=f"beside ours: {', '.join(side for side in SIDES if side != OURS)}",
    )
    parser.add_argument("--server", help="which server, as for the tests: valkey, redis7, redis62")
    parser.add_argument("--json", type=Path, help="write everything here, and plots beside it")
    arguments = parser.parse_args(words)
    arguments.sides = _on_loop(arguments.sides, arguments.loop)
    return arguments


def _names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a reader of lists of names, or of patterns of names, in the order of `known`."""
    every = list(known)

    def names(text: str) -> list[str]:
        patterns = text.split(",")
        for pattern in patterns:
            if not fnmatch.filter(every, pattern):
                raise argparse.ArgumentTypeError(f"no {pattern!r} among {'; '.join(every)}")
        return [one for one in every if any(fnmatch.fnmatch(one, some) for some in patterns)]

    return names


def _on_loop(sides: list[str], loop: str) -> list[str]:
    """Return the sides that run with such a choice, ours always among them, in order."""
    both = {OURS: OURS_UVLOOP, BARE: BARE_UVLOOP}
    left_out = {"both": set(), "asyncio": {*both.values()}, "uvloop": {*both}}[loop]
    wanted = {*sides, OURS, OURS_UVLOOP} - left_out
    return [side for side in SIDES if side in wanted]


if __name__ == "__main__":
    asyncio.run(run(parse()))
