"""tests/jepsen as judge: a plan runs again and again until the checker that is named objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.jepsen import rounds
from tests.jepsen.result import Result
from tests.mutants.mutant import Mutant
from tests.mutants.verdict import Verdict


def claimed(mutant: Mutant) -> str:
    """Return which checker must catch it, and when; nothing if none must."""
    attack = mutant.jepsen
    return "" if attack is None else f"{attack.checker}: {attack.plan.title}"


async def judge(mutant: Mutant, tree: Path, folder: Path) -> Verdict:
    """Run its plan in a tree that has it, until it is caught or its time is over."""
    attack = mutant.jepsen
    assert attack is not None
    results: list[Result] = []
    seconds, plan = 0.0, attack.plan
    while seconds < attack.limit:
        result = await rounds.one(plan, folder / plan.title, tree)
        results.append(result)
        seconds += plan.seconds
        if attack.checker in result.broken:
            rule = next((each.rule for each in result.rulings[attack.checker].shown), "")
            return Verdict("caught", rule, seconds)
        plan = replace(plan, seed=plan.seed + 1)
    others = sorted({name for result in results for name in result.broken})
    failures = [text for result in results for text in result.failures]
    return Verdict("survived", f"{others} {failures[:1]}", seconds)
