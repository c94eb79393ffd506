"""`make jepsen ARGS="--workload mutex --nemesis kill,pause --seconds 60 --seed 7"`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.jepsen.history import say
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.run import Plan, Result, run
from tests.jepsen.topologies import TOPOLOGIES
from tests.jepsen.workloads import WORKLOADS


def main() -> int:
    """Run what the command line says; return 0 if every checker is content."""
    parser = argparse.ArgumentParser(prog="python -m tests.jepsen", description=__doc__)
    parser.add_argument("--workload", default="mutex", choices=WORKLOADS)
    parser.add_argument("--nemesis", default="kill")
    parser.add_argument("--topology", default="single", choices=TOPOLOGIES)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    names = tuple(name for name in chosen.nemesis.split(",") if name != "none")
    if unknown := set(names) - NEMESES.keys():
        parser.error(f"no such nemesis: {', '.join(sorted(unknown))}")
    plan = Plan(chosen.workload, names, chosen.topology, chosen.seconds, chosen.seed)
    with TemporaryDirectory(prefix="jepsen-") as folder:
        result = asyncio.run(run(plan, Path(folder)))
    _print(result)
    return 0 if result.ok else 1


def _print(result: Result) -> None:
    say(f"{len(result.history)} operations")
    for text in result.trouble:
        say(f"trouble: {text}")
    for name, verdict in result.verdicts.items():
        say(f"{name}: {'ok' if verdict.ok else 'BROKEN'} ({verdict.looked_at}) {verdict.figures}")
        for violation in verdict.violations[:3]:
            say("\n    ".join([f"  {violation.rule}", *map(str, violation.ops)]))
    if not result.ok:
        say(f"repeat it: {result.plan.command}")


if __name__ == "__main__":
    sys.exit(main())
