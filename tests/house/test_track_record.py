"""`docs/track-record.md` names tests that exist for every defect."""

from __future__ import annotations

import re
from collections import Counter

from tests.house.test_faults import TEST, missing
from tests.support import repository

PAGE = repository.ROOT / "docs" / "track-record.md"

MEANS = re.compile(r"^\| (?P<means>[^|]+) \| [^|]+ \|$", re.MULTILINE)
ROW = re.compile(r"\| [\w`\"].+[.] \| \d+ \| (?P<means>[^|]+) \| (?P<tests>[^|]+) \|")


def rows(text: str) -> list[tuple[str, str]]:
    """Return by what means each defect was found, and its tests; fail for a row that is none."""
    _, *groups = text.split("\n## ")
    lines = [line for group in groups for line in group.splitlines() if line.startswith("| ")]
    found = [(line, ROW.fullmatch(line)) for line in lines if not line.startswith("| what went ")]
    assert [line for line, row in found if row is None] == []
    return [(row["means"], row["tests"]) for _, row in found if row]


def unclear(tests: str) -> bool:
    """Whether the last field of a row is anything but names of tests."""
    return " ".join(f"`{path}::{name}`" for path, name in TEST.findall(tests)) != tests


def wrong(text: str) -> list[str]:
    """Return what is wrong with the page."""
    found = rows(text)
    means = set(MEANS.findall(text.partition("\n## ")[0]))
    return [
        *(f"{name} does not exist" for _, tests in found for name in missing(tests)),
        *(f"no test: {tests}" for _, tests in found if unclear(tests) or not tests),
        *(f"found by what: {by}" for by, _ in found if by not in means),
    ]


def test_every_test_exists() -> None:
    assert wrong(PAGE.read_text("utf-8")) == []


def test_no_defect_is_there_twice() -> None:
    lines = Counter(line for line in PAGE.read_text("utf-8").splitlines() if ROW.fullmatch(line))
    assert lines
    assert [line for line, count in lines.items() if count > 1] == []


HERE = "`tests/house/test_track_record.py::test_what_is_wrong_is_found`"
SAMPLE = f"""
| found by | what that is |
|---|---|
| CI | the suite |

## Hangs

| what went wrong | issue | found by | test |
|---|---|---|---|
| It hung. | 3 | CI | {HERE} {HERE} |
| 2 defects of `it`: too loud. | 4 | CI | {HERE} |
"""


def test_what_is_wrong_is_found() -> None:
    """The rules above see what they are meant to see."""
    assert wrong(SAMPLE) == []
    for good, bad in {
        "| 3 | CI |": "| 3 | soak |",
        f"{HERE} {HERE}": f"{HERE} and more",
        f"| {HERE} |": f"| {HERE.replace('found`', 'lost`')} |",
    }.items():
        assert good in SAMPLE
        assert wrong(SAMPLE.replace(good, bad)) != [], good
