"""The simulation can fail: with one thing taken from the package, some seed shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.measured import Measured
from tests.mutants.__main__ import Claim, claims
from tests.mutants.by_simulation import RUN_SECONDS
from tests.mutants.trees import Trees

CLAIMS = claims(["simulation"], [])


def test_there_are_enough() -> None:
    assert len(CLAIMS) >= 16


@pytest.mark.timeout(RUN_SECONDS + 60)
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda each: each.mutant.name)
async def test_a_sabotage_is_noticed(claim: Claim, tmp_path: Path, measured: Measured) -> None:
    async with Trees(tmp_path / "trees", 1).one() as tree:
        verdict = await claim.put(tree, tmp_path)
    assert verdict.caught, claim.row(verdict)
    measured(f"{claim.mutant.name} is noticed at", verdict.by)
