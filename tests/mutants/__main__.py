"""Sabotage the package in one place at a time; who must notice it must do so each time.

make mutants ARGS="--judge jepsen 'no owner check'"

The judges are the tests, the checkers of tests/jepsen, and the worlds of tests/simulation; a
sabotage says which of them must catch it. Each worker has a copy of the tree. First all the tests
that judge run there unchanged: they must pass, or what follows means nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from tests.mutants import by_jepsen, by_simulation, by_tests
from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.trees import Trees
from tests.mutants.verdict import Verdict


class Judge(Protocol):
    """Who must catch sabotages: a module for each."""

    def claimed(self, mutant: Mutant) -> str:
        """Return what must catch it; nothing if this judge need not."""

    async def judge(self, mutant: Mutant, tree: Path, folder: Path) -> Verdict:
        """Judge a sabotage in a tree that has it; what runs write goes to the folder."""


JUDGES: dict[str, Judge] = {"tests": by_tests, "jepsen": by_jepsen, "simulation": by_simulation}

HEADING = (
    "| sabotage | promise it breaks | file | judge | who must catch it | verdict | s | by |\n"
    "|---|---|---|---|---|---|---|---|"
)

#: What Ctrl-C ends with, by the customs of shells.
INTERRUPTED = 130


@dataclass(frozen=True)
class Claim:
    """That one judge catches one sabotage."""

    mutant: Mutant
    judge: str

    @property
    def says(self) -> str:
        """What must catch it; nothing if this judge need not."""
        return JUDGES[self.judge].claimed(self.mutant)

    async def put(self, tree: Path, folder: Path) -> Verdict:
        """Put it to the test: in a tree, with a folder for what the runs write."""
        with self.mutant.made(tree):
            return await JUDGES[self.judge].judge(self.mutant, tree, folder)

    def row(self, verdict: Verdict) -> str:
        """Return its row of the table."""
        said = verdict.said if verdict.caught else f"**NOT CAUGHT**: {verdict.said}"
        mutant = self.mutant
        cells = (mutant.name, mutant.promise, mutant.file, self.judge, self.says, said)
        return f"| {' | '.join(cells)} | {verdict.seconds:.1f} | {verdict.by} |"


def claims(judges: Sequence[str], words: Sequence[str]) -> list[Claim]:
    """Return what these judges claim of the sabotages whose names have one of these words in them.

    All of them, if no word is given.
    """
    wanted = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    every = [Claim(mutant, judge) for judge in judges for mutant in wanted]
    return [claim for claim in every if claim.says]


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def run(wanted: Sequence[Claim], jobs: int) -> list[Verdict] | None:
    """Put claims to the test; print what became of each, and return it.

    None if tests fail without any sabotage.
    """
    with TemporaryDirectory(prefix="mutants-") as folder:
        trees = Trees(Path(folder) / "trees", jobs)

        async def unchanged(tests: Sequence[str]) -> str:
            async with trees.one() as tree:
                return await by_tests.unchanged(tests, tree)

        async def one(claim: Claim, number: int) -> Verdict:
            async with trees.one() as tree:
                verdict = await claim.put(tree, Path(folder) / str(number))
            say(claim.row(verdict))
            return verdict

        files = by_tests.shares([claim.mutant for claim in wanted if claim.judge == "tests"])
        if failed := [text for text in await asyncio.gather(*map(unchanged, files)) if text]:
            say("\n".join([*failed, "without any sabotage the tests must pass"]))
            return None
        say(HEADING)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(claim, n)) for n, claim in enumerate(wanted)]
    return [task.result() for task in tasks]


def arguments() -> argparse.ArgumentParser:
    """Return what the command line may say."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="WORD", help="parts of the names of those to run, if not all")
    add("--judge", choices=JUDGES, help="only what this one must catch")
    add("--jobs", type=int, choices=range(1, 65), default=2, metavar="N", help="at once (2)")
    add("--list", action="store_true", help="list them, and who must catch each")
    return parser


def main() -> int:
    """Do what the command line says; return 0 if every sabotage is caught."""
    parser = arguments()
    chosen = parser.parse_args()
    wanted = claims([chosen.judge] if chosen.judge else [*JUDGES], chosen.words)
    if not wanted:
        parser.error("no sabotage has such a name")
    if chosen.list:
        for claim in wanted:
            say(f"{claim.judge}: {claim.mutant.name}: {claim.mutant.promise} [{claim.says}]")
        return 0
    # What a shell starts with `&` ignores SIGINT; ours is to end in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun = time.monotonic()
    try:
        verdicts = asyncio.run(run(wanted, chosen.jobs))
    except KeyboardInterrupt:
        say("interrupted; everything that was started has ended")
        return INTERRUPTED
    if verdicts is None:
        return 2
    caught = sum(verdict.caught for verdict in verdicts)
    say(f"\n{caught} of {len(wanted)} caught in {time.monotonic() - begun:.0f} s")
    return 0 if caught == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
