"""Hand-off to somebody who waits already, in strict alternation, of ours and of Redisson.

Two parties want one lock. Each stays in for a while, so that the other has asked, was refused
and waits for the message; and it rests before it asks again, so that the other is in by then.
Who takes a lock that it had just left is no hand-off, as everywhere; here that hardly happens.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import NamedTuple

from benchmarks.crew import Bench, Worker, alternately
from benchmarks.harness import Table
from benchmarks.rivals import BARE, BARE_UVLOOP, OURS, OURS_UVLOOP, REDISSON
from benchmarks.scenarios.handoff import HandOffTable, Section, summary

NAME = "hand-off in turns"

#: Seconds in the lock, longer than anybody needs to ask and to wait; and outside of it, longer
#: than the other needs to be in.
_STAY = 0.003
_PAUSE_SECONDS = 0.001

#: Seconds until all workers have their orders.
_LEAD = 0.02


class _Case(NamedTuple):
    """Who alternates: two tasks or threads of one process, or one in each of two."""

    sides: tuple[str, ...]
    processes: int


def row(side: str, processes: int) -> str:
    """Return the heading of the figures of two parties of one side."""
    return f"{side}, one process" if processes == 1 else f"{side}, two processes"


def mixed_row(giver: str, taker: str) -> str:
    """Return the heading of the hand-offs from one side to another."""
    return f"{giver} to {taker}"


async def measure(bench: Bench) -> Table:
    """Both parties in one process, in two, and one of each side."""
    found = HandOffTable(
        bench,
        NAME,
        "Hand-off to the one other that waits: from the end of a section to the beginning of its",
    )
    ours = bench.sides(found.table, OURS, OURS_UVLOOP)
    theirs = bench.sides(found.table, REDISSON)
    cases = [_Case((side,), 1) for side in ours + theirs]
    cases += [
        _Case((side,), 2) for side in ours + bench.sides(found.table, BARE, BARE_UVLOOP) + theirs
    ]
    cases += [_Case((mine, its), 2) for mine in ours for its in theirs]
    for _, case in alternately(cases, bench.size.rounds):
        await found.ping(case.sides[0], rested=True)
        sections = await _together(bench, case)
        if len(case.sides) == 1:
            side = case.sides[0]
            seconds = bench.size.seconds
            found.note(row(side, case.processes), side, summary(sections, 2), seconds)
            continue
        for taker, side in enumerate(case.sides):
            heading = mixed_row(case.sides[1 - taker], side)
            found.note(heading, case.sides[0], summary(sections, 2, taker), bench.size.seconds)
    return found.finish()


async def _together(bench: Bench, case: _Case) -> list[Section]:
    """Return the sections of two parties, 0 and 1."""
    workers: list[Worker] = [bench.workers[side][0] for side in case.sides]
    if len(case.sides) == 1:
        workers = bench.workers[case.sides[0]][: case.processes]
    start_at = monotonic() + _LEAD
    order = {
        "tasks": 2 if case.processes == 1 else 1,
        "seconds": bench.size.seconds,
        "name": f"in turns:{start_at}",
        "start_at": start_at,
        "stay": _STAY,
        "pause": _PAUSE_SECONDS,
    }
    lists = await asyncio.gather(*[one.do("sections", **order) for one in workers])
    if case.processes == 1:
        return [(begin, end, party) for begin, end, party in lists[0]]
    return [(begin, end, who) for who, found in enumerate(lists) for begin, end, _ in found]
