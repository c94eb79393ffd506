"""`TRACK_RECORD.md` names tests that exist for every defect, and counts its rows rightly."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from tests.house.test_faults import TEST, missing
from tests.support import repository

PAGE = repository.ROOT / "TRACK_RECORD.md"

TOTAL = re.compile(r"\b(\d+) defects\b")
MEANS = re.compile(r"\| (?P<means>[^|]+) \| (?P<count>\d+) \| [^|]+ \|")
HEADING = re.compile(r"## (?P<title>.+) \((?P<count>\d+)\)")
ROW = re.compile(
    r"\| (?:(?P<several>\d+) defects of )?(?P<what>[\w`\"].+[.]) \| (?P<issue>\d+)"
    r" \| (?P<means>[^|]+) \| (?P<tests>[^|]+) \|"
)


@dataclass(frozen=True)
class Group:
    """The defects of one kind.

    Attributes:
        count: How many its heading says.
        rows: One for each row: how many defects, found by what means, and the tests.
    """

    count: int
    rows: list[tuple[int, str, str]]


def groups(text: str) -> dict[str, Group]:
    """Return the groups of the page; fail for a row of a table that is none."""
    found: dict[str, Group] = {}
    group: Group | None = None
    for line in text.splitlines():
        if heading := HEADING.fullmatch(line):
            found[heading["title"]] = group = Group(int(heading["count"]), [])
        elif group and line.startswith("| ") and not line.startswith("| what went wrong "):
            row = ROW.fullmatch(line)
            assert row, line
            group.rows.append((int(row["several"] or 1), row["means"], row["tests"]))
    return found


def means(text: str) -> dict[str, int]:
    """Return how many defects each means has found, as the table at the top says."""
    top = text.partition("\n## ")[0]
    return {row["means"]: int(row["count"]) for row in MEANS.finditer(top)}


def unclear(tests: str) -> bool:
    """Whether the last field of a row is anything but names of tests."""
    return " ".join(f"`{path}::{name}`" for path, name in TEST.findall(tests)) != tests


def wrong(text: str) -> list[str]:
    """Return what is wrong with the page."""
    found = groups(text)
    rows = [row for group in found.values() for row in group.rows]
    found_by = Counter[str]()
    for several, by, _ in rows:
        found_by[by] += several
    said = TOTAL.search(text)
    return [
        *(f"{name} does not exist" for _, _, tests in rows for name in missing(tests)),
        *(f"no test: {tests}" for _, _, tests in rows if unclear(tests) or not tests),
        *(
            f"{title}: {group.count} are {sum(several for several, _, _ in group.rows)}"
            for title, group in found.items()
            if group.count != sum(several for several, _, _ in group.rows)
        ),
        *(["found by"] if found_by != means(text) else []),
        *(["total"] if not said or int(said[1]) != found_by.total() else []),
    ]


def test_every_test_exists_and_every_count_is_right() -> None:
    text = PAGE.read_text("utf-8")
    assert wrong(text) == []
    assert len(groups(text)) > 5


def test_no_defect_is_there_twice() -> None:
    rows = Counter(ROW.findall(PAGE.read_text("utf-8")))
    assert [row for row, count in rows.items() if count > 1] == []


HERE = "`tests/house/test_track_record.py::test_what_is_wrong_is_found`"
SAMPLE = f"""Found: 3 defects.

| found by | defects | what that is |
|---|---|---|
| CI | 1 | the suite |
| soak | 2 | again and again |

## Hangs (1)

| what went wrong | issue | found by | test |
|---|---|---|---|
| It hung. | 3 | CI | {HERE} {HERE} |

## Noise (2)

| what went wrong | issue | found by | test |
|---|---|---|---|
| 2 defects of `it`: too loud. | 4 | soak | {HERE} |
"""


def test_what_is_wrong_is_found() -> None:
    """The rules above see what they are meant to see."""
    assert wrong(SAMPLE) == []
    for good, bad in {
        "3 defects": "4 defects",
        "| CI | 1 |": "| CI | 2 |",
        "| 3 | CI |": "| 3 | soak |",
        "Hangs (1)": "Hangs (2)",
        "2 defects of ": "",
        f"{HERE} {HERE}": f"{HERE} and more",
        f"| {HERE} |": f"| {HERE.replace('found`', 'lost`')} |",
    }.items():
        assert good in SAMPLE
        assert wrong(SAMPLE.replace(good, bad)) != [], good
