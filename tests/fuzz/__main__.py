"""Fuzzes for as long as wanted: `python -m tests.fuzz --seconds 600 --seed 7`.

Each round has a number, and starts with it: `--seed N --rounds 1` repeats a round. The hostile
server and the hostile publisher depend on time as well, so there a number does not always bring
the same failure.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

from redisson_py.testing import EmbeddedServer
from tests.fuzz import decoders, hostile_server, inputs, test_hostile_publisher

PARTS = ("server", "publisher", "readers", "inputs")
say = partial(print, flush=True)

_SCHEMES = ("redis", "redis+cluster", "redis+sentinel")


def play(part: str, number: int, server: EmbeddedServer, folder: Path) -> None:
    """Play one round of a part."""
    random = Random(number)
    match part:
        case "server":
            asyncio.run(hostile_server.play(number, _SCHEMES[number % 3]))
        case "publisher":
            asyncio.run(test_hostile_publisher.play(number, server.url))
        case "readers":
            for _ in range(50):
                decoders.read_all(random)
                decoders.decode_all(random)
        case _:
            for _ in range(50):
                inputs.read_url(random)
                inputs.read_file(random, folder)
            for _ in range(5):
                inputs.run_command(random)


def main() -> int:
    """Play; return how the process should end."""
    parser = argparse.ArgumentParser(description="Hostile servers, publishers and inputs.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="the number of the first round")
    parser.add_argument("--rounds", type=int, default=10**9)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    done: Counter[str] = Counter()
    failed = 0
    until = time.monotonic() + options.seconds
    server = EmbeddedServer()
    server.start_blocking()
    holder = tempfile.TemporaryDirectory()
    folder = holder.name
    try:
        number = options.seed
        while time.monotonic() < until and number < options.seed + options.rounds:
            for part in options.parts:
                try:
                    play(part, number, server, Path(folder))
                except Exception:
                    failed += 1
                    again = f"--seed {number} --rounds 1 --parts {part}"
                    say(f"round {number} of {part} failed: python -m tests.fuzz {again}")
                    traceback.print_exc(file=sys.stdout)
                done[part] += 1
            number += 1
    finally:
        server.close_blocking()
        holder.cleanup()
    rounds = ", ".join(f"{count} of {part}" for part, count in done.items())
    say(f"rounds: {rounds}; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
