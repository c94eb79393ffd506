"""Simulate many seeds: `python -m tests.simulation --seeds 1000000 --jobs 2`.

Each seed is a world of its own: an event loop, a network, servers and faults that the seed decides,
the same each time. The first failure ends the run, with the command that repeats it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from itertools import islice

from tests.simulation.seeds import NAMES, Outcome, name_of, repeat_command, run_batch, simulated

#: Seeds that a process runs before it reports.
BATCH = 100

say = partial(print, flush=True)


def run(seeds: range, name: str | None, jobs: int, *, go_on: bool) -> list[Outcome]:
    """Run all seeds; return those that failed."""
    begun, done, grants = time.monotonic(), 0, 0
    failed: list[Outcome] = []
    reported = begun

    def report() -> None:
        seconds = time.monotonic() - begun
        say(f"{seconds:7.0f} s {done:10,} seeds, {done / seconds:.0f}/s, {grants:,} grants")

    for outcomes in _here(seeds, name, go_on) if jobs == 1 else _pooled(seeds, name, jobs, go_on):
        for outcome in outcomes:
            done, grants = done + 1, grants + outcome.grants
            if outcome.failure:
                failed.append(outcome)
                say(f"seed {outcome.seed} ({outcome.name}): {outcome.failure}")
                say(f"again: {repeat_command(outcome.seed, outcome.name)}")
        if time.monotonic() - reported > 10:
            reported = time.monotonic()
            report()
    report()
    return failed


def _batches(seeds: range) -> Iterator[range]:
    return (seeds[i : i + BATCH] for i in range(0, len(seeds), BATCH))


def _here(seeds: range, name: str | None, go_on: bool) -> Iterator[list[Outcome]]:
    for batch in _batches(seeds):
        outcomes = run_batch(batch, name, go_on=go_on)
        yield outcomes
        if outcomes[-1].failure and not go_on:
            break


def _pooled(seeds: range, name: str | None, jobs: int, go_on: bool) -> Iterator[list[Outcome]]:
    batches, stopping = _batches(seeds), False
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        under_way: set[Future[list[Outcome]]] = set()
        while True:
            more = () if stopping else islice(batches, 2 * jobs - len(under_way))
            under_way |= {pool.submit(run_batch, batch, name, go_on=go_on) for batch in more}
            if not under_way:
                break
            ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for outcomes in [future.result() for future in ended]:
                yield outcomes
                stopping |= not go_on and bool(outcomes[-1].failure)


def show(seed: int, name: str | None) -> int:
    """Run one seed and print its trace; return how many failed."""
    made = simulated(seed, name)
    failed = 0
    try:
        made.run()
    except Exception:
        failed = 1
        traceback.print_exc(file=sys.stdout)
    say("\n".join(made.simulation.trace.lines()))
    say(f"{name or name_of(seed)}, seed {seed}: {'failed' if failed else 'nothing wrong'},")
    say(f"trace {made.simulation.trace.digest()}")
    return failed


def main() -> int:
    """Run what the arguments say; return how the process should end."""
    parser = argparse.ArgumentParser(description="Deterministic simulation.")
    parser.add_argument("--seeds", type=int, default=5000, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--kind", choices=NAMES, help="of all seeds; else each in turn")
    parser.add_argument("--go-on", action="store_true", help="also after a failure")
    parser.add_argument("--verbose", type=int, metavar="SEED", help="print the trace of one seed")
    options = parser.parse_args()
    if options.verbose is not None:
        return show(options.verbose, options.kind)
    seeds = range(options.first, options.first + options.seeds)
    failed = run(seeds, options.kind, options.jobs, go_on=options.go_on)
    say(f"{len(failed)} failures")
    if failed and not options.go_on:
        show(failed[0].seed, failed[0].name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
