"""Sabotage the library in one place at a time and see that the suite notices: `make mutants`.

Each worker has a copy of the tree. First all the tests run there unchanged: they must pass, or
what follows means nothing. Then each mutant is put in, its tests run until one fails, and it is
taken out again. What hangs counts as caught only if pytest-timeout fails the test, and what
does not even run (a slip in the mutant, which any test would find) does not count at all.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
WORKERS = 2

#: Seconds for one test, after which pytest-timeout fails it, and for one run of pytest.
TEST_SECONDS = 20
RUN_SECONDS = 240

PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=line"]
PYTEST += ["-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}"]

#: The first test that failed, in pytest's summary; or that a fixture failed after.
_FAILED = re.compile(r"^(?:FAILED|ERROR) tests/(\S+::.+?)(?: - .*)?$", re.MULTILINE)
_SLIP = re.compile(r"Error compiling script|user_script:\d+:|SyntaxError|NameError")


@dataclass(frozen=True)
class Result:
    """What a run of the tests came to.

    Attributes:
        verdict: "passed", "caught", "caught by timeout", or why it is none of these.
        test: The test that failed first.
    """

    verdict: str
    test: str
    seconds: float
    output: str


def run_tests(tree: Path, tests: Sequence[str]) -> Result:
    """Run tests in a copy of the tree until one fails."""
    # No .pyc: a mutant of the same length, made in the same second, would go unseen.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "500"}
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [*PYTEST, *tests],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result("pytest hung", "", time.monotonic() - begun, "")
    output = done.stdout + done.stderr
    failed = _FAILED.search(output)
    if done.returncode == 0:
        verdict = "passed"
    elif done.returncode != 1 or failed is None:
        verdict = "pytest failed"
    elif _SLIP.search(output):
        verdict = "it does not run"
    elif "from pytest-timeout" in output:
        verdict = "caught by timeout"
    else:
        verdict = "caught"
    return Result(verdict, failed[1] if failed else "", time.monotonic() - begun, output)


@contextmanager
def sabotaged(tree: Path, mutant: Mutant) -> Iterator[None]:
    """Put a mutant into a tree, and take it out again."""
    path = tree / mutant.file
    text = path.read_text("utf-8")
    path.write_text(mutant.applied(text), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")


class Trees:
    """Copies of the tree, one for each worker."""

    def __init__(self, folder: Path, workers: int = WORKERS) -> None:
        self._idle: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            # What is hidden is git's, environments and caches.
            ignored = shutil.ignore_patterns(".*", "__pycache__")
            self._idle.put(shutil.copytree(ROOT, folder / str(number), ignore=ignored))

    @contextmanager
    def one(self) -> Iterator[Path]:
        """Lend a copy that no other worker has."""
        tree = self._idle.get()
        try:
            yield tree
        finally:
            self._idle.put(tree)

    def unchanged(self, tests: Sequence[str]) -> Result:
        """Run tests without a mutant."""
        with self.one() as tree:
            return run_tests(tree, tests)

    def attack(self, mutant: Mutant) -> Result:
        """Run a mutant's tests with it."""
        with self.one() as tree, sabotaged(tree, mutant):
            return run_tests(tree, mutant.tests)


def row(mutant: Mutant, result: Result) -> str:
    """Return a mutant's row of the table."""
    verdict = result.verdict
    if not verdict.startswith("caught"):
        verdict = f"**NOT CAUGHT**: {verdict}"
    ran = ", ".join(test.removeprefix("tests/") for test in mutant.tests)
    cells = (mutant.name, mutant.promise, mutant.file, ran)
    return f"| {' | '.join(cells)} | {verdict} | {result.seconds:.1f} | {result.test} |"


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run all mutants, or those named; return 0 if every one is caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of those to run, if not all")
    names = parser.parse_args().names
    mutants = [m for m in MUTANTS if not names or any(name in m.name for name in names)]
    if not mutants:
        parser.error("no mutant has such a name")
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    begun = time.monotonic()
    with TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(WORKERS) as pool:
        trees = Trees(Path(folder))
        files = groupby(tests, lambda test: test.partition("::")[0])
        shares = [[file] if file in (each := [*of_file]) else each for file, of_file in files]
        for result in pool.map(trees.unchanged, shares):
            if result.verdict != "passed":
                say(result.output)
                say("without any mutant the tests must pass")
                return 2
        say(f"Without mutants these pass: {', '.join(tests)}\n")
        say("| mutant | promise it breaks | file | tests run | verdict | s | caught by |")
        say("|---|---|---|---|---|---|---|")
        caught = 0
        for mutant, result in zip(mutants, pool.map(trees.attack, mutants), strict=True):
            say(row(mutant, result))
            caught += result.verdict.startswith("caught")
    say(f"\n{caught} of {len(mutants)} caught in {time.monotonic() - begun:.0f} s")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
