"""Plays the steps of many seeds on a real Valkey and on the simulated one.

`python -m tests.simulation.server --seeds 1000 --from 0 --steps 500`
"""

from __future__ import annotations

import argparse
import time

from redisson_py.testing import EmbeddedServer
from tests.simulation.server.twins import Twins


def main() -> None:
    """Play the seeds that the arguments say; the first difference ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.server")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=500)
    args = parser.parse_args()
    server = EmbeddedServer("valkey")
    server.start_blocking()
    began, compared = time.perf_counter(), 0
    try:
        for seed in range(args.first, args.first + args.seeds):
            twins = Twins(server.url)
            try:
                compared += twins.play_seed(seed, args.steps)
            except BaseException:
                print(f"seed {seed}")  # noqa: T201
                raise
            finally:
                twins.close()
    finally:
        server.close_blocking()
    seconds = time.perf_counter() - began
    print(f"{args.seeds} seeds, {compared} replies the same, {seconds:.0f} s")  # noqa: T201


if __name__ == "__main__":
    main()
