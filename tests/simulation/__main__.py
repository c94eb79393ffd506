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


def run(seeds: range, name: str | None, jobs: int) -> Outcome | None:
    """Run all seeds, or up to the first that fails; return that."""
    begun, done, grants = time.monotonic(), 0, 0
    failed: Outcome | None = None
    reported = begun

    def report() -> None:
        seconds = time.monotonic() - begun
        say(f"{seconds:7.0f} s {done:10,} seeds, {done / seconds:.0f}/s, {grants:,} grants")

    for outcomes in _batches(seeds, name, jobs):
        done += len(outcomes)
        grants += sum(outcome.grants for outcome in outcomes)
        if outcomes[-1].failure:
            failed = outcomes[-1]
            say(f"seed {failed.seed} ({failed.name}): {failed.failure}")
            say(f"again: {repeat_command(failed.seed, failed.name)}")
            break
        if time.monotonic() - reported > 10:
            reported = time.monotonic()
            report()
    report()
    return failed


def _batches(seeds: range, name: str | None, jobs: int) -> Iterator[list[Outcome]]:
    """Yield what comes of batches of seeds, in any order."""
    batches = (seeds[i : i + BATCH] for i in range(0, len(seeds), BATCH))
    if jobs == 1:
        for batch in batches:
            yield run_batch(batch, name)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        under_way: set[Future[list[Outcome]]] = set()
        while True:
            more = islice(batches, 2 * jobs - len(under_way))
            under_way |= {pool.submit(run_batch, batch, name) for batch in more}
            if not under_way:
                break
            ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()


def show(seed: int, name: str | None) -> int:
    """Run one seed and print its trace; return how many failed."""
    made = simulated(seed, name)
    failed = 0
    try:
        made.run()
    except Exception:
        failed = 1
        traceback.print_exc(file=sys.stdout)
    say("\n".join(made.simulation.trace.rows()))
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
    parser.add_argument("--verbose", type=int, metavar="SEED", help="print the trace of one seed")
    options = parser.parse_args()
    if options.verbose is not None:
        return show(options.verbose, options.kind)
    seeds = range(options.first, options.first + options.seeds)
    failed = run(seeds, options.kind, options.jobs)
    if failed is None:
        say("0 failures")
        return 0
    show(failed.seed, failed.name)
    return 1


if __name__ == "__main__":
    sys.exit(main())
