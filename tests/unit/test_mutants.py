"""The list of sabotages fits the sources and the suite, and the runner reads its judges rightly."""

from __future__ import annotations

import ast
import re

import pytest

from tests.mutants import by_tests
from tests.mutants.__main__ import JUDGES, claims
from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Change
from tests.support.repository import ROOT

#: These look at the text of the sources, and would notice any change.
_READERS = ("tests/house", "tests/unit/test_m", "tests/unit/test_lua_files", "tests/package")


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
            file, _, name = test.partition("[")[0].partition("::")
            name = name.rpartition("::")[2]
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
