"""Puts each sabotage into a copy of the tree, and runs its plan there until its checker objects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.jepsen import rounds
from tests.jepsen.choose import NoSuchName
from tests.jepsen.history import say
from tests.jepsen.mutants.listed import SABOTAGES
from tests.jepsen.mutants.sabotage import Sabotage
from tests.jepsen.result import Result
from tests.mutants.__main__ import Trees, sabotaged

HEADING = f"{'mutant':52} {'must be caught by':22} {'after':>7}  verdict"


@dataclass(frozen=True)
class Attack:
    """What became of a sabotage.

    Attributes:
        sabotage: What was done.
        seconds: For how long plans ran until it was caught.
        results: What the runs came to; the last one caught it, if it was.
    """

    sabotage: Sabotage
    seconds: float
    results: Sequence[Result]

    @property
    def caught(self) -> bool:
        """Whether the checker that must catch it did."""
        return bool(self.results) and self.sabotage.checker in self.results[-1].broken

    @property
    def row(self) -> str:
        """Its row of the table."""
        verdict = "caught"
        if not self.caught:
            others = {name for result in self.results for name in result.broken}
            trouble = [text for result in self.results for text in result.trouble]
            verdict = f"**SURVIVED** {sorted(others)} {trouble[:1]}"
        elif rule := self._rule:
            verdict = f"caught: {rule}"
        name, checker = self.sabotage.name, self.sabotage.checker
        return f"{name[:52]:52} {checker:22} {self.seconds:5.1f} s  {verdict}"

    @property
    def _rule(self) -> str:
        shown = self.results[-1].rulings[self.sabotage.checker].shown
        return shown[0].rule if shown else ""


@contextmanager
def sabotaged_by(sabotage: Sabotage, tree: Path) -> Iterator[None]:
    """Have all that a sabotage does in a tree, for the time of a block."""
    with ExitStack() as stack:
        for mutant in sabotage.mutants:
            stack.enter_context(sabotaged(tree, mutant))
        yield


def seconds_until(result: Result, checker: str) -> float:
    """Return after how many seconds of a run the first violation shown had happened."""
    ends = [
        max((op.t1 or op.t0 for op in each.ops), default=result.began)
        for each in result.rulings[checker].shown
    ]
    return (min(ends) - result.began) / 1e9 if ends else result.plan.seconds


async def against(sabotage: Sabotage, tree: Path, folder: Path) -> Attack:
    """Run the plan of a sabotage in a tree that has it, until it is caught or its time is over."""
    results: list[Result] = []
    seconds, plan = 0.0, sabotage.plan
    while seconds < sabotage.limit:
        result = await rounds.one(plan, folder / plan.title, tree)
        results.append(result)
        if sabotage.checker in result.broken:
            return Attack(sabotage, seconds + seconds_until(result, sabotage.checker), results)
        seconds += plan.seconds
        plan = replace(plan, seed=plan.seed + 1)
    return Attack(sabotage, seconds, results)


def chosen(names: Sequence[str]) -> list[Sabotage]:
    """Return the sabotages whose names contain one of these; all, if none is given.

    Raises:
        NoSuchName: None does.
    """
    found = [each for each in SABOTAGES if not names or any(name in each.name for name in names)]
    if not found:
        raise NoSuchName(f"no mutant is named {' or '.join(names)}")
    return found


async def attack(names: Sequence[str], jobs: int) -> list[Attack]:
    """Attack with the sabotages of these names; print what became of each, and return it."""
    wanted, begun = chosen(names), time.monotonic()
    say(HEADING)
    with TemporaryDirectory(prefix="jepsen-mutants-") as folder:
        trees = Trees(Path(folder) / "trees", jobs)
        idle = asyncio.Semaphore(jobs)

        async def one(sabotage: Sabotage, number: int) -> Attack:
            async with idle:
                with trees.one() as tree, sabotaged_by(sabotage, tree):
                    done = await against(sabotage, tree, Path(folder) / str(number))
            say(done.row)
            return done

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(each, number)) for number, each in enumerate(wanted)]
    attacks = [task.result() for task in tasks]
    caught = sum(each.caught for each in attacks)
    say(f"{caught} of {len(wanted)} caught in {time.monotonic() - begun:.0f} s")
    return attacks
