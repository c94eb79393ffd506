"""Random lifecycles of every kind of thing, many more than the test suite plays.

    python -m tests.soak.lifecycles --examples 5000 --seed 7

Tasks of two clients enter and leave blocks in their own and in other tasks, acquire, re-enter,
extend, release late and twice, while leases end, keys are deleted, tasks are cancelled at any
step, replies are lost and commands come late. After each step invariants are checked from
outside: tests/lifecycle has the machine. A failure is printed with the steps that were played.
Time has a say in what happens, so a seed does not always bring the same failure.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from functools import partial

from redisson_py.testing import EmbeddedServer
from tests.lifecycle.running import run_lifecycles
from tests.lifecycle.subjects import SUBJECTS

#: Examples of one kind before it is another's turn.
BATCH = 100

say = partial(print, flush=True)


def _batch(kind: str, url: str, examples: int, seed: int, options: argparse.Namespace) -> int:
    """Play a batch; return how many failed: 0 or 1."""
    try:
        run_lifecycles(
            kind,
            url,
            examples=examples,
            number=seed,
            shrink=options.shrink,
        )
    except Exception:
        say(f"{kind}, seed {seed}:")
        traceback.print_exc(file=sys.stdout)
        return 1
    return 0


def main() -> int:
    """Play on a server of its own; return how the process should end."""
    parser = argparse.ArgumentParser(description="Random lifecycles.")
    parser.add_argument("--examples", type=int, default=2000, help="how many, of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the first batch")
    parser.add_argument("--kinds", nargs="+", default=list(SUBJECTS), choices=list(SUBJECTS))
    parser.add_argument("--shrink", action="store_true", help="look for a short example: slow")
    options = parser.parse_args()
    server = EmbeddedServer()
    server.start_blocking()
    begun, failed = time.monotonic(), 0
    try:
        for batch, first in enumerate(range(0, options.examples, BATCH)):
            count = min(BATCH, options.examples - first)
            for kind in options.kinds:
                failed += _batch(kind, server.url, count, options.seed + batch, options)
            seconds = time.monotonic() - begun
            say(f"{seconds:6.0f} s {first + count:8,} lifecycles of each kind, {failed} failures")
    finally:
        server.close_blocking()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
