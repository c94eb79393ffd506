"""The list of mutants fits the sources and the suite, so that it cannot rot unseen."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.jepsen.mutants.listed import SABOTAGES
from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]

#: These look at the text of the sources, and would notice any change.
_READERS = ("tests/house", "tests/unit/test_m", "tests/unit/test_lua_files", "tests/package")


def test_the_text_of_each_occurs_once_and_is_changed() -> None:
    for mutant in [*MUTANTS, *(each.mutant for each in SABOTAGES)]:
        text = (ROOT / mutant.file).read_text("utf-8")
        changed = mutant.applied(text)
        assert changed != text, mutant.name
        if mutant.file.endswith(".py"):
            ast.parse(changed, mutant.name)


def test_the_tests_of_each_exist_and_run_the_code_instead_of_reading_it() -> None:
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            assert not test.startswith(_READERS), mutant.name
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text("utf-8")
            assert re.search(rf"def {name or 'test_'}", text), (mutant.name, test)


def test_every_mutant_is_another_one() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("text", ["nothing of it", "old old"])
def test_a_text_that_is_missing_or_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="times in f"):
        Mutant("name", "promise", "f", "old", "new", ()).applied(text)
