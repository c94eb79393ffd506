"""A few sabotages, each caught by its checker; `make mutants` runs all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jepsen.checkers import CHECKERS
from tests.jepsen.choose import bears
from tests.jepsen.workloads import WORKLOADS
from tests.mutants.__main__ import Claim, claims
from tests.mutants.mutant import Attack
from tests.mutants.trees import Trees

#: Caught within seconds, by seven checkers.
FEW = [
    "no owner check in acquire",
    "one owner for all acquisitions of a client",
    "a semaphore grants what it does not have",
    "a reader's short way minds no other reader",
    "the barrier trips one party early",
    "whoever asks a free fair lock gets it",
    "the last waiter is told, not the first",
]

CLAIMS = claims(["jepsen"], [])


def attack_of(claim: Claim) -> Attack:
    assert claim.mutant.jepsen is not None
    return claim.mutant.jepsen


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda each: each.mutant.name)
def test_the_plan_of_each_can_be_run(claim: Claim) -> None:
    attack = attack_of(claim)
    assert bears(attack.workload, attack.topology, attack.nemeses)
    assert attack.checker in WORKLOADS[attack.workload].checkers


def test_each_checker_catches_one() -> None:
    assert {attack_of(claim).checker for claim in CLAIMS} == CHECKERS.keys()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FEW)
async def test_it_is_caught(name: str, tmp_path: Path) -> None:
    (claim,) = (each for each in CLAIMS if each.mutant.name == name)
    async with Trees(tmp_path / "trees", 1).one() as tree:
        verdict = await claim.put(tree, tmp_path / "runs")
    assert verdict.caught, claim.row(verdict)
