"""`tests/PARITY.md` says for each of Redisson's tests, and for each weakness, what shows it here.

In the section `PARITY` a heading for each class and rows `| names | ours |`, in `WEAKNESSES` rows
`| A1 what | ours |`, in any number of tables. A row may have several names. Ours are tests, as
`tests/folder/test_file.py::test_name`, and remarks; or why there are none, after one of `NONE`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tests.house.redisson_tests import NAMES, WEAKNESSES
from tests.house.test_faults import defined_in
from tests.support import repository

TABLE = repository.ROOT / "tests" / "PARITY.md"
PARITY = "Parity with Redisson's tests"
WEAKNESS = "Weaknesses of Redisson"
NONE = ("not offered: ", "not claimed: ", "n/a: ")

HEADING = re.compile(r"(?P<level>#+) (?P<title>.+)")
ROW = re.compile(r"\| *(?P<what>[^|]+?) *\| *(?P<ours>[^|]*?) *\|")
OURS = re.compile(r"(?P<path>[\w/]+\.py)::(?P<test>[\w:]+)")

Row = tuple[str, str]


def section(text: str, title: str) -> list[str]:
    """Return the lines of a section, those of its sub-sections included."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        heading = HEADING.fullmatch(line)
        if heading and depth and len(heading["level"]) <= depth:
            depth = 0
        if depth:
            lines.append(line)
        if heading and heading["title"] == title:
            depth = len(heading["level"])
    return lines


def rows(lines: list[str]) -> Iterator[Row]:
    """Yield the rows of every table, but neither headings nor the lines under them."""
    in_table = False
    for line in lines:
        if re.fullmatch(r"[|: -]+", line) and "-" in line:
            in_table = True
        elif not (row := ROW.fullmatch(line)):
            in_table = False
        elif in_table:
            yield row["what"], row["ours"]


def by_class(text: str) -> dict[str, list[Row]]:
    """Return the names in the table of each class, one a row, with what stands for them here."""
    found: dict[str, list[Row]] = {}
    lines: dict[str, list[str]] = {}
    name = ""
    for line in section(text, PARITY):
        if heading := HEADING.fullmatch(line):
            name = heading["title"].split()[0].strip("`")
        lines.setdefault(name, []).append(line)
    for name, its_lines in lines.items():
        found[name] = [
            (test, ours) for what, ours in rows(its_lines) for test in re.findall(r"\w+", what)
        ]
    return {name: its_rows for name, its_rows in found.items() if its_rows}


def weaknesses(text: str) -> list[Row]:
    return [(what.split()[0], ours) for what, ours in rows(section(text, WEAKNESS))]


def missing(ours: str) -> list[str]:
    """Return the tests named in a row that do not exist."""
    return [
        f"{path}::{test}"
        for path, test in OURS.findall(ours)
        if not path.startswith("tests/")
        or not (repository.ROOT / path).is_file()
        or test not in defined_in(path)
    ]


def well_said(ours: str) -> bool:
    """Whether a row names tests, none of them misspelt, or says why there is none."""
    if ours.startswith(NONE):
        return ours not in NONE
    return ours.count("::test_") == ours.count(".py") == len(OURS.findall(ours)) > 0


def table() -> str:
    return TABLE.read_text("utf-8")


def all_rows(text: str) -> list[Row]:
    found = [row for its_rows in by_class(text).values() for row in its_rows]
    return found + weaknesses(text)


def test_each_of_redissons_tests_is_there_once() -> None:
    found = {name: [test for test, _ in its] for name, its in by_class(table()).items()}
    assert found.keys() == NAMES.keys()
    for name, tests in found.items():
        assert Counter(tests) == Counter(NAMES[name]), name


def test_each_weakness_is_there() -> None:
    assert {what for what, _ in weaknesses(table())} == {*WEAKNESSES}


def test_every_test_that_is_named_exists() -> None:
    assert [name for _, ours in all_rows(table()) for name in missing(ours)] == []


def test_a_row_names_tests_or_says_why_there_is_none() -> None:
    assert [what for what, ours in all_rows(table()) if not well_said(ours)] == []


HERE = "`tests/house/test_parity.py::test_what_is_wrong_is_found`"
SAMPLE = f"""
# Tests

| not | this |
|---|---|
| testNowhere | {HERE} |

## {PARITY}

Some words.

### RedissonLockTest (26)

| Redisson's test | ours |
|---|---|
| `testExpire`, `testReentrancy` | {HERE} {HERE}; with tasks |
| testInCluster | not offered: cluster |

### RedissonSpinLockTest

| Redisson's test | ours |
| --- | :-- |
| testRedisFailed | not offered: spin lock |

## {WEAKNESS}

| weakness | ours |
|---|---|
| A1 a loss is silent | {HERE} |

## After it

| A2 | not this |
|---|---|
| A3 | nor this |
"""


def test_tables_are_read_wherever_they_stand() -> None:
    assert by_class(SAMPLE) == {
        "RedissonLockTest": [
            ("testExpire", f"{HERE} {HERE}; with tasks"),
            ("testReentrancy", f"{HERE} {HERE}; with tasks"),
            ("testInCluster", "not offered: cluster"),
        ],
        "RedissonSpinLockTest": [("testRedisFailed", "not offered: spin lock")],
    }
    assert weaknesses(SAMPLE) == [("A1", HERE)]
    assert len(all_rows(SAMPLE)) == 5


def test_what_is_wrong_is_found() -> None:
    assert all(missing(ours) == [] and well_said(ours) for _, ours in all_rows(SAMPLE))
    assert missing(HERE.replace("found`", "lost`")) == [HERE.strip("`").replace("found", "lost")]
    assert missing("`tests/none.py::test_x`") == ["tests/none.py::test_x"]
    assert missing("`house/test_parity.py::test_each_weakness_is_there`") != []
    assert missing("`tests/house/test_parity.py::missing`") != []
    wrong = ("", "todo", "not offered: ", HERE.replace("::", ":"), HERE.replace(".py", ""))
    assert not any(map(well_said, wrong))


def test_the_list_is_complete() -> None:
    # 269 in 25 classes and 7 of RedLock, without 10 internal ones and one that is disabled.
    assert sum(map(len, NAMES.values())) == 269 + 7 - 10 - 1
    assert len(WEAKNESSES) == 42
