"""A process that is one side of the comparison and does as it is told, over stdin and stdout.

Every side has a process of its own, so that no side's memory, garbage or threads are another's.
Run by `crew.py`, never by hand.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from benchmarks.rivals.side import CannotError, Side
from benchmarks.scenarios import (
    calls,
    contended,
    crowd_workers,
    growth,
    handoff,
    loss,
    rates,
    recovery,
    red_locks,
    renewals,
    telemetry,
    uncontended,
    visits,
    waiting,
    wakes,
)

JOBS: dict[str, Callable[..., Awaitable[Any]]] = {
    "warm_up": uncontended.warm_up,
    "pairs": uncontended.pairs,
    "sections": handoff.sections,
    "hand_offs": handoff.hand_offs,
    "round_trip": handoff.round_trip,
    "hold": waiting.hold,
    "start_waiting": waiting.start_waiting,
    "bare_tasks": waiting.bare_tasks,
    "renews": renewals.renews,
    "renew": renewals.renew,
    "hold_by_tasks": renewals.hold_by_tasks,
    "lose": loss.lose,
    "visits": visits.visits,
    "generations": contended.generations,
    "let_go": wakes.let_go,
    "timed_pairs": red_locks.timed_pairs,
    "begin_outage": recovery.begin_outage,
    "look_at_outage": recovery.look_at_outage,
    "end_outage": recovery.end_outage,
    "count_calls": calls.count_calls,
    "listened": telemetry.listened,
    "changing_names": growth.changing_names,
    "hand_down": growth.hand_down,
    "gather_crowd": crowd_workers.gather_crowd,
    "in_crowd": crowd_workers.in_crowd,
    "grants": rates.grants,
    "limited": rates.limited,
}


async def work(source: str, url: str) -> None:
    """Open the side, then do one job a line until there are no more lines."""
    try:
        side = _side(source)
        await side.open(url)
    except CannotError as reason:
        _say(cannot=str(reason))
        return
    _say(result="ready")
    # Of the losses and of what is left held, it would warn thousands of times.
    logging.getLogger("redisson_py").setLevel(logging.ERROR)
    gc.freeze()
    while row := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(row)
        job = JOBS[order.pop("job")]
        # Nobody's clock runs while garbage is collected; everybody starts without any.
        gc.collect()
        gc.disable()
        try:
            _say(result=await job(side, **order))
        except CannotError as reason:
            _say(cannot=str(reason))
        gc.enable()
    await side.close()


def _side(source: str) -> Side:
    module, _, name = source.partition(":")
    try:
        side: Side = getattr(import_module(f"benchmarks.rivals.{module}"), name)()
    except ImportError as error:
        raise CannotError(f"not installed ({error})") from error
    return side


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    """Run: side, loop, URL."""
    source, loop, url = sys.argv[1:]
    factory = None
    if loop == "uvloop":
        try:
            factory = import_module("uvloop").new_event_loop
        except ImportError:
            _say(cannot="uvloop is not installed")
            return
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work(source, url))
    # Threads that wait for a lock would wait on.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
