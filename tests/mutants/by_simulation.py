"""tests/simulation as judge: seeds run one after the other until one shows what must not happen."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from tests.mutants.mutant import Mutant, Seeds
from tests.mutants.trees import output_of
from tests.mutants.verdict import SLIP, Verdict

#: All seeds of a sabotage take a minute; a machine may be much slower.
RUN_SECONDS = 900

_FAILED = re.compile(r"^seed (\d+) \(", re.MULTILINE)


def claimed(mutant: Mutant) -> str:
    """Return which seeds must catch it; nothing if none must."""
    seeds = mutant.simulation
    if seeds is None:
        return ""
    return f"{seeds.kind}, a seed of {seeds.first} to {seeds.first + seeds.most - 1}"


def command(seeds: Seeds) -> list[str]:
    """Return the command that looks at some seeds."""
    words = ["--kind", seeds.kind, "--from", str(seeds.first), "--seeds", str(seeds.most)]
    return [sys.executable, "-m", "tests.simulation", "--jobs", "1", *words]


def said_of(code: int, output: str) -> tuple[str, str]:
    """Return what a run of seeds says, and the seed that failed first."""
    failed = _FAILED.search(output)
    if code == 0:
        return "nothing was noticed", ""
    if SLIP.search(output):
        return "it does not run", ""
    return ("caught", f"seed {failed[1]}") if failed else ("the simulation failed", "")


async def judge(mutant: Mutant, tree: Path, folder: Path) -> Verdict:
    """Run its seeds in a tree that has it."""
    del folder
    assert mutant.simulation is not None
    begun = time.monotonic()
    try:
        run = await output_of(command(mutant.simulation), tree, RUN_SECONDS)
        said, seed = said_of(*run)
    except TimeoutError:
        said, seed = "the simulation hung", ""
    return Verdict(said, seed, time.monotonic() - begun)
