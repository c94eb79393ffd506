"""A few sabotages, each caught by its checker; `make jepsen-mutants` runs all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jepsen.checkers import CHECKERS
from tests.jepsen.choose import bears, strike
from tests.jepsen.mutants.attack import against, sabotaged_by
from tests.jepsen.mutants.listed import SABOTAGES
from tests.jepsen.mutants.sabotage import Sabotage
from tests.jepsen.workloads import WORKLOADS
from tests.mutants.__main__ import Trees
from tests.support import repository

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


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda each: each.name)
def test_each_sabotage_can_be_made_and_its_plan_be_run(sabotage: Sabotage) -> None:
    plan = sabotage.plan
    for mutant in sabotage.mutants:
        changed = mutant.applied((repository.ROOT / mutant.file).read_text("utf-8"))
        assert mutant.new in changed
    assert bears(plan.workload, plan.topology)
    assert strike(plan.nemeses, plan.topology)
    assert sabotage.checker in CHECKERS
    assert sabotage.checker in WORKLOADS[plan.workload].checkers


def test_names_are_unique_and_there_are_enough() -> None:
    assert len({each.name for each in SABOTAGES}) == len(SABOTAGES) >= 20


def test_each_checker_catches_one() -> None:
    assert {each.checker for each in SABOTAGES} == CHECKERS.keys()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FEW)
async def test_it_is_caught(name: str, tmp_path: Path) -> None:
    (sabotage,) = (each for each in SABOTAGES if each.name == name)
    with Trees(tmp_path / "tree", 1).one() as tree, sabotaged_by(sabotage, tree):
        attack = await against(sabotage, tree, tmp_path / "runs")
    assert attack.caught, attack.row
