"""The list of sabotages fits the sources and the suite, and the runner reads its judges rightly."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.mutants import by_simulation, by_tests
from tests.mutants.__main__ import JUDGES, Claim, claims
from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Change, Mutant, Seeds
from tests.mutants.trees import output_of
from tests.mutants.verdict import Verdict
from tests.support.repository import ROOT

#: These look at the text of the sources, and would notice any change.
_READERS = ("tests/house", "tests/unit/test_m", "tests/unit/test_lua_files", "tests/package")

TWO = Mutant("two", "p", "a", "old", "new", ("t",), also=Change("b", "first", "second"))


def test_the_text_of_each_occurs_once_and_is_changed() -> None:
    for mutant in MUTANTS:
        for change in mutant.changes:
            text = (ROOT / change.file).read_text("utf-8")
            changed = change.applied(text)
            assert changed != text, mutant.name
            if change.file.endswith(".py"):
                ast.parse(changed, mutant.name)


def test_the_tests_of_each_exist_and_run_the_code_instead_of_reading_it() -> None:
    for mutant in MUTANTS:
        for test in mutant.tests:
            assert not test.startswith(_READERS), mutant.name
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text("utf-8")
            assert re.search(rf"def {name or 'test_'}", text), (mutant.name, test)


def test_every_sabotage_is_another_one_and_has_a_judge() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({tuple(mutant.changes) for mutant in MUTANTS}) == len(MUTANTS)
    assert {claim.mutant for claim in claims([*JUDGES], [])} == {*MUTANTS}


@pytest.mark.parametrize("text", ["nothing of it", "old old"])
def test_a_text_that_is_missing_or_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="times in f"):
        Change("f", "old", "new").applied(text)


def test_all_that_it_changes_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("an old text")
    (tmp_path / "b").write_text("the first")
    with pytest.raises(ZeroDivisionError), TWO.made(tmp_path):
        assert (tmp_path / "a").read_text() == "an new text"
        assert (tmp_path / "b").read_text() == "the second"
        raise ZeroDivisionError
    assert (tmp_path / "a").read_text() == "an old text"
    assert (tmp_path / "b").read_text() == "the first"


def test_claims_are_those_of_the_judge_whose_names_have_a_word_in_them() -> None:
    found = claims(["tests", "jepsen"], ["no owner check in acquire", "losses ignored"])
    assert [(claim.judge, claim.mutant.name) for claim in found] == [
        ("tests", "no owner check in acquire"),
        ("jepsen", "no owner check in acquire"),
    ]
    assert [claim.says for claim in found] == [
        "lua/test_acquire_scripts.py",
        "mutual exclusion: mutex+none+single+1",
    ]


@pytest.mark.parametrize(
    ("code", "output", "said"),
    [
        (0, "3 passed", ("passed", "")),
        (1, "x\nFAILED tests/a/test_b.py::test_c - assert 1\n", ("caught", "a/test_b.py::test_c")),
        (1, "ERROR tests/a.py::test_c\nFAILED tests/a.py::test_d", ("caught", "a.py::test_c")),
        (1, "FAILED tests/a.py::b - from pytest-timeout", ("caught by timeout", "a.py::b")),
        (1, "FAILED tests/a.py::b - NameError: x", ("it does not run", "a.py::b")),
        (1, "nothing of pytest", ("pytest failed", "")),
        (2, "ERROR tests/a.py::b - SyntaxError", ("pytest failed", "a.py::b")),
    ],
)
def test_what_pytest_says(code: int, output: str, said: tuple[str, str]) -> None:
    assert by_tests.said_of(code, output) == said


@pytest.mark.parametrize(
    ("code", "output", "said"),
    [
        (0, "400 seeds\n0 failures", ("nothing was noticed", "")),
        (1, "seed 12 (lock): AssertionError\nseed 13 (lock): no", ("caught", "seed 12")),
        (1, "seed 0 (lock): NameError: no such name", ("it does not run", "")),
        (1, "ImportError: no such module", ("the simulation failed", "")),
    ],
)
def test_what_seeds_say(code: int, output: str, said: tuple[str, str]) -> None:
    assert by_simulation.said_of(code, output) == said


def test_tests_of_one_file_run_together_and_none_twice() -> None:
    mutants = [
        Mutant("n", "p", "f", "o", "n", tests) for tests in (("a::x",), ("a::y", "b", "b::z"))
    ]
    assert by_tests.shares(mutants) == [["a::x", "a::y"], ["b"]]


def test_what_is_not_caught_stands_out() -> None:
    claim = Claim(Mutant("n", "p", "f", "o", "n", simulation=Seeds("lock", 5)), "simulation")
    cells = "| n | p | f | simulation | lock, a seed of 5 to 404 | "
    assert claim.row(Verdict("caught", "seed 7", 1.5)) == f"{cells}caught | 1.5 | seed 7 |"
    assert claim.row(Verdict("hung", "", 2)) == f"{cells}**NOT CAUGHT**: hung | 2.0 |  |"


async def test_how_a_command_ended_and_what_it_wrote(tmp_path: Path) -> None:
    assert await output_of([sys.executable, "-c", "print(1); exit(3)"], tmp_path, 60) == (3, "1\n")


async def test_what_a_command_started_ends_with_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    child = "import signal; file = open('fifo', 'w'); signal.pause()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    task = asyncio.create_task(output_of([sys.executable, "-c", program], tmp_path, 600))
    with await asyncio.to_thread((tmp_path / "fifo").open) as file:
        task.cancel()
        assert await asyncio.to_thread(file.read) == ""
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_command_has_a_limited_time(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        await output_of([sys.executable, "-c", "import signal; signal.pause()"], tmp_path, 0.1)
