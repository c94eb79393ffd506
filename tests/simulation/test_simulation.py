"""Simulated worlds: the same for the same seed, and nothing goes wrong in any of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.fixtures.measured import Measured
from tests.simulation.kept_seeds import KEPT
from tests.simulation.seeds import NAMES, Outcome, outcome_of, repeat_command, run_batch
from tests.support.repository import ROOT

#: Seeds of all names together, and some more.
SEEDS = 5000

#: Seeds of names whose worlds take several times as long: five servers each.
FEWER = {"red_lock": 80}


def seeds_of(name: str) -> range:
    """Return the seeds that are run of a name."""
    others = SEEDS - sum(FEWER.values())
    return range(FEWER.get(name, -(-others // (len(NAMES) - len(FEWER)))))


def assert_fine(outcome: Outcome) -> None:
    """Fail if something went wrong, with the command that shows it again."""
    again = repeat_command(outcome.seed, outcome.name)
    assert not outcome.failure, f"{again}\n{outcome.failure}"


@pytest.mark.parametrize(("name", "seed", "showed"), KEPT)
def test_a_seed_that_showed_something_stays_mended(name: str, seed: int, showed: str) -> None:
    assert showed
    assert_fine(outcome_of(seed, name))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_goes_wrong_in_any_world(name: str, measured: Measured) -> None:
    outcomes = run_batch(seeds_of(name), name)
    assert_fine(outcomes[-1])
    grants = sum(outcome.grants for outcome in outcomes)
    measured(f"simulated worlds of {name}", f"{len(outcomes)}, with {grants} grants")
    assert grants > len(outcomes)


def digests(names: list[str], hash_seed: str, seeds: list[int]) -> str:
    """Return the digests of the traces of some seeds, from a process of its own."""
    code = (
        "from tests.simulation.seeds import simulated\n"
        f"for name in {names!r}:\n"
        f"    for seed in {seeds!r}:\n"
        "        made = simulated(seed, name)\n"
        "        made.run()\n"
        "        print(name, seed, made.simulation.trace.digest())\n"
    )
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def test_two_runs_of_a_seed_are_the_same_byte_for_byte() -> None:
    # The second process runs other seeds before: nothing of theirs may stay.
    first = digests(NAMES, "1", [3, 4, 5])
    second = digests(NAMES, "2", [5, 4, 3])
    assert sorted(first.splitlines()) == sorted(second.splitlines())
    assert len(set(first.split())) > len(NAMES) * 3
