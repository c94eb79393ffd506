"""The tests as judge: those of a sabotage run until one fails.

What hangs counts as caught only if pytest-timeout fails the test, and what does not even run (a
slip in the sabotage, which any test would find) does not count at all.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.trees import output_of
from tests.mutants.verdict import SLIP, Verdict

#: Seconds for one test, after which pytest-timeout fails it, and for one run of pytest.
TEST_SECONDS = 20
RUN_SECONDS = 240

PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=line"]
PYTEST += ["-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}"]

#: The first test that failed, in pytest's summary; or that a fixture failed after.
_FAILED = re.compile(r"^(?:FAILED|ERROR) tests/(\S+::.+?)(?: - .*)?$", re.MULTILINE)


def claimed(mutant: Mutant) -> str:
    """Return which tests must catch it; nothing if none must."""
    return ", ".join(test.removeprefix("tests/") for test in mutant.tests)


def said_of(code: int, output: str) -> tuple[str, str]:
    """Return what a run of pytest says, and the test that failed first."""
    failed = _FAILED.search(output)
    test = failed[1] if failed else ""
    if code == 0:
        return "passed", test
    if code != 1 or failed is None:
        return "pytest failed", test
    if SLIP.search(output):
        return "it does not run", test
    return "caught by timeout" if "from pytest-timeout" in output else "caught", test


def shares(mutants: Sequence[Mutant]) -> list[list[str]]:
    """Return all tests of some sabotages, those of a file together."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    files = groupby(tests, lambda test: test.partition("::")[0])
    return [[file] if file in (each := [*of_file]) else each for file, of_file in files]


async def unchanged(tests: Sequence[str], tree: Path) -> str:
    """Return what fails without a sabotage; nothing if all is well."""
    code, output = await output_of([*PYTEST, *tests], tree, RUN_SECONDS)
    return output if code else ""


async def judge(mutant: Mutant, tree: Path, folder: Path) -> Verdict:
    """Run its tests in a tree that has it."""
    del folder
    begun = time.monotonic()
    try:
        said, test = said_of(*await output_of([*PYTEST, *mutant.tests], tree, RUN_SECONDS))
    except TimeoutError:
        said, test = "pytest hung", ""
    return Verdict(said, test, time.monotonic() - begun)
