"""`tests/FAULTS.md` names every row of the fault catalogue once, and tests that exist."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter

from tests.support import repository

TABLE = repository.ROOT / "tests" / "FAULTS.md"
#: How many rows each section of the catalogue has.
SECTIONS = dict(zip("ABCDEFGHIJL", (15, 17, 15, 9, 10, 17, 18, 11, 22, 7, 41), strict=True))
STATES = ("covered", "in part", "open", "not applicable")

ROW = re.compile(r"\| (?P<row>[A-Z]\d+) \| (?P<what>[^|]+) \| (?P<test>[^|]+) \|")
COUNTS = re.compile(r"\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|")
TEST = re.compile(r"`(?P<path>tests/[\w/]+\.py)::(?P<name>[\w:]+)`")


def rows() -> dict[str, str]:
    """Return what each row says of its tests, in order; fail for one that is there twice."""
    lines = TABLE.read_text("utf-8").splitlines()
    found = [(match["row"], match["test"]) for line in lines if (match := ROW.fullmatch(line))]
    assert len(dict(found)) == len(found), Counter(row for row, _ in found).most_common(1)
    return dict(found)


def state(test: str) -> str:
    if test.startswith("open: "):
        return "open"
    if test.startswith("n/a: "):
        return "not applicable"
    return "in part" if "; not yet: " in test else "covered"


@functools.cache
def defined_in(path: str) -> set[str]:
    """Return the tests of a file as pytest names them, without parameters."""
    tree = ast.parse((repository.ROOT / path).read_text("utf-8"))
    names = set()
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        before = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        names |= {
            before + each.name
            for each in inside
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return {name for name in names if name.split("::")[-1].startswith("test_")}


def missing(test: str) -> list[str]:
    """Return the tests named in a row that do not exist."""
    return [
        f"{match['path']}::{match['name']}"
        for match in TEST.finditer(test)
        if not (repository.ROOT / match["path"]).is_file()
        or match["name"] not in defined_in(match["path"])
    ]


def test_every_row_of_the_catalogue_is_there_once_and_in_order() -> None:
    expected = [f"{section}{n + 1}" for section, count in SECTIONS.items() for n in range(count)]
    assert list(rows()) == expected


def test_every_test_that_is_named_exists() -> None:
    assert [name for test in rows().values() for name in missing(test)] == []


def well_said(test: str) -> bool:
    """Whether a row names tests, or says that there is none yet; and no id is misspelt."""
    named = TEST.findall(test)
    if not test.count("tests/") == test.count("::test_") == len(named):
        return False
    return {"open": not named, "not applicable": True}.get(state(test), test.startswith("`tests/"))


def test_a_row_names_tests_or_says_why_there_is_none() -> None:
    assert [row for row, test in rows().items() if not well_said(test)] == []


def test_the_counts_at_the_top_are_right() -> None:
    states = Counter(state(test) for test in rows().values())
    expected = [*(states[each] for each in STATES), sum(SECTIONS.values())]
    (counts,) = COUNTS.findall(TABLE.read_text("utf-8"))
    assert [int(count) for count in counts] == expected


def test_what_is_missing_is_found() -> None:
    """The rules above see what they are meant to see."""
    here = "`tests/house/test_faults.py::test_what_is_missing_is_found`"
    assert missing(here) == []
    assert missing(here.replace("found`", "lost`")) == [here.strip("`").replace("found", "lost")]
    assert missing("`tests/none.py::test_x`") == ["tests/none.py::test_x"]
    assert missing("`tests/house/test_faults.py::missing`") != []
    assert "TestRelease::test_a_stranger_releases_nothing" in defined_in(
        "tests/lua/test_lock_scripts.py"
    )
    assert not any(map(well_said, ("", "x", f"open: {here}", here.replace("`", ""))))
    states = [state(test) for test in (here, f"{here}; not yet: x", "open: x", "n/a: x")]
    assert states == list(STATES)
