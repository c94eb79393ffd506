"""An outage under load: Redis stopped, killed and black-holed, and back again.

    python -m tests.soak.outage --seconds 600

A thousand requests a second, with timeouts, of every kind, and ten thousand held leases. Half of
the leases are shorter than the outage: their holders must learn of the loss. The other half are
longer: they must survive, unless Redis comes back without its data. What must hold, whatever the
machine does:

- each request gets exactly one of three answers: granted, busy, no answer;
- no answer is "busy" while Redis says nothing;
- afterwards each lease is held in Redis under its owner, or its holder knows of the loss;
- nothing is left: in the clients, nor in Redis of requests that were given up.

What is measured, and judged by this command only: memory, the processor, how late answers are,
and what comes down on Redis in the first second of its return.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.soak.away import OUTAGES
from tests.soak.one_outage import Plan, Result, Say, outage


def plan(seconds: float, rate: float, leases: int) -> Plan:
    """Return the plan of an outage of that length."""
    # Two thirds of the long lease are guaranteed: three times the outage, and some room.
    return Plan(seconds, 10.0, rate, leases, min(30.0, seconds / 3), 3 * seconds + 10)


def tell(results: dict[str, Result], say: Say) -> None:
    """Print figures, findings and what is too much."""
    for name, result in results.items():
        say(f"\n{name}")
        for what, figure in result.figures.items():
            say(f"  {what:34} {figure}")
        for finding in result.findings:
            say(f"  WRONG {finding}")
        for what in result.slow:
            say(f"  TOO MUCH {what}")


def main() -> int:
    """Run the outages, each in a process of its own; return how the process should end."""
    parser = argparse.ArgumentParser(description="Outages under load.")
    parser.add_argument("--seconds", type=float, default=600, help="how long Redis is away")
    parser.add_argument("--rate", type=float, default=1000, help="requests a second")
    parser.add_argument("--leases", type=int, default=10_000, help="held all the time")
    parser.add_argument("--outages", nargs="+", default=list(OUTAGES), choices=OUTAGES)
    parser.add_argument("--server", default=None, help="valkey, redis7, redis62 or a path")
    parser.add_argument("--json", type=Path, default=None, help="write the figures there")
    options = parser.parse_args()
    say = partial(print, flush=True)
    if len(options.outages) == 1:
        name = options.outages[0]
        say(f"{name}: {options.seconds:g} s, {options.rate:g} requests a second")
        what = plan(options.seconds, options.rate, options.leases)
        results = {name: asyncio.run(outage(what, name, options.server, say))}
        tell(results, say)
    else:
        results = {name: _in_a_process(options, name) for name in options.outages}
    if options.json:
        options.json.write_text(
            json.dumps({name: asdict(result) for name, result in results.items()}, indent=1)
        )
    return 1 if any(each.findings or each.slow for each in results.values()) else 0


def _in_a_process(options: argparse.Namespace, name: str) -> Result:
    """Run one outage in a process of its own, whose memory no other outage has used."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "tests.soak.outage", "--outages", name]
        for option in ("seconds", "rate", "leases", "server"):
            if (value := getattr(options, option)) is not None:
                command += [f"--{option}", str(value)]
        ended = subprocess.run([*command, "--json", str(path)], check=False)
        if not path.exists():
            return Result(findings=[f"ended with {ended.returncode}"])
        return Result(**json.loads(path.read_text())[name])


if __name__ == "__main__":
    sys.exit(main())
