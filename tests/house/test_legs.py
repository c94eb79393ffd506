"""The runs of `make test` and `make test-more`: what each takes, and what their last line says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import legs
from tests.fixtures.legs import FOLDERS
from tests.legs import Leg, Outcome, verdict
from tests.support import repository

MISSING = "needs etcd: Debian's etcd-server and etcd-client have it"
TESTS = repository.ROOT / "tests"
SLOW, OTHER = "tests/a/test_a.py::test_slow", "tests/a/test_a.py::test_turn"


def outcome(
    *failed: str, passed: int = 0, ended: bool = True, left_out: Mapping[str, int] | None = None
) -> Outcome:
    counts = Counter(passed=passed, failed=len(failed))
    return Outcome("some", int(bool(failed)), 0, counts, Counter(left_out), list(failed), ended)


@pytest.mark.parametrize(
    ("found", "again", "said", "good"),
    [
        ([outcome(passed=40)], [], "OK after 3 min 21 s: 40 tests passed, none left out", True),
        (
            [
                outcome(SLOW, passed=2, left_out={"no cc": 1, MISSING: 20}),
                outcome(passed=3, left_out={MISSING: 5}),
            ],
            [],
            "FAILED after 3 min 21 s: 5 tests passed, 1 failed, 26 left out;"
            f" 25: {MISSING}; 1: no cc",
            False,
        ),
        (
            [outcome(SLOW, passed=2), outcome(OTHER, passed=3)],
            [SLOW, OTHER],
            "OK after 3 min 21 s: 7 tests passed, none left out;"
            f" 2 of the passed failed beside others and passed alone: {SLOW}, {OTHER}",
            True,
        ),
        (
            [outcome(SLOW, OTHER)],
            [OTHER],
            "FAILED after 3 min 21 s: 1 tests passed, 1 failed, none left out;"
            f" 1 of the passed failed beside others and passed alone: {OTHER}",
            False,
        ),
        (
            [outcome(passed=2), outcome(ended=False)],
            [],
            "FAILED after 3 min 21 s: 2 tests passed, none left out; some did not come to its end",
            False,
        ),
    ],
)
def test_the_last_row_says_what_failed_and_what_was_left_out(
    found: list[Outcome], again: list[str], said: str, good: bool
) -> None:
    assert verdict("make test", 201, found, again) == (f"make test: {said}", good)


def test_too_many_that_pass_alone_are_a_failure() -> None:
    many = [f"tests/a/test_a.py::test_{number}" for number in range(legs.MOST_AGAIN + 1)]
    assert verdict("make test", 0, [outcome(*many[1:])], many[1:])[1]
    assert not verdict("make test", 0, [outcome(*many)], many)[1]


SMALL = """
from pathlib import Path
def test_good(): pass
def test_beside():
    first = Path("first")
    assert first.exists() or first.touch()
def test_bad(): assert {always}
"""
SEVERAL = "1 of the passed failed beside others and passed alone: tests/test_small.py::test_beside"
NOTHING = "0 tests passed, none left out; small did not come to its end"


@pytest.mark.parametrize(
    ("leg", "always", "code", "said"),
    [
        ("folders='tests'", True, 0, f"3 tests passed, none left out; {SEVERAL}"),
        ("folders='tests'", False, 1, "1 tests passed, 2 failed, none left out"),
        # What judges a record is not run again.
        ("folders='tests', final=True", True, 1, "2 tests passed, 1 failed, none left out"),
        ("folders='tests/none'", True, 1, NOTHING),
        ("folders='tests -k none'", True, 1, NOTHING),
    ],
)
def test_what_fails_beside_others_is_run_again_alone(
    tmp_path: Path, leg: str, always: bool, code: int, said: str
) -> None:
    """The leg is of a project of one file, one test of which fails in the first run only."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_small.py").write_text(SMALL.format(always=always))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['tests_legs_plugin']\n")
    plugin = (TESTS / "fixtures" / "legs.py").read_text("utf-8")
    (tmp_path / "tests_legs_plugin.py").write_text(plugin)
    (tmp_path / "run.py").write_text(
        f"import sys\nsys.path.insert(1, {str(repository.ROOT)!r})\n"
        "from tests import legs\n"
        f"legs.LEGS['small'] = legs.Leg(about='', {leg})\n"
        "legs.HEART = {'small': legs.LEGS['small']}\n"
        "sys.argv[1:] = ['heart', '-p', 'no:cacheprovider']\n"
        "sys.exit(legs.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "run.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(repository.ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(said)


def test_every_test_is_run_by_one_of_the_two() -> None:
    files = set(TESTS.rglob("test_*.py"))
    of_the_heart = {
        path
        for path in files
        if path.relative_to(TESTS).parts[0] in FOLDERS or "mark.heart" in path.read_text("utf-8")
    }
    # These are run by `make test` only.
    whole = {path for path in files if path.relative_to(TESTS).parts[0] in ("unit", "house")}
    assert [path for path in whole if re.search(r"mark\.more\b", path.read_text("utf-8"))] == []
    assert of_the_heart - taken(legs.HEART) == set()
    assert files - whole - taken(legs.MORE) == set()


def taken(of: Mapping[str, Leg]) -> set[Path]:
    """Return the files that legs take on the usual loop and server."""
    found: set[Path] = set()
    for leg in of.values():
        if not re.search("--(loop|server)=", leg.options):
            ignored = [
                repository.ROOT / each for each in re.findall(r"--ignore=(\S+)", leg.options)
            ]
            found |= {
                path
                for name in leg.folders.split()
                for path in [repository.ROOT / name, *(repository.ROOT / name).rglob("test_*.py")]
                if not any(path.is_relative_to(each) for each in ignored)
            }
    return found


@pytest.mark.parametrize("name", legs.LEGS)
def test_what_a_leg_names_is_there(name: str) -> None:
    leg = legs.LEGS[name]
    for path in [*leg.folders.split(), *leg.marked.split()]:
        assert (repository.ROOT / path).exists()
    for folder in leg.marked.split():
        files = (repository.ROOT / folder).rglob("*.py")
        marks = [re.findall(r"mark\.also\(([^)]*)\)", path.read_text("utf-8")) for path in files]
        assert any(f'"{name}"' in mark for found in marks for mark in found), folder


@pytest.mark.parametrize("part", legs.PARTS)
def test_what_judges_a_part_is_there(part: str) -> None:
    paths = re.findall(r"tests/[\w/.]+", legs.PARTS[part])
    assert paths
    assert all((repository.ROOT / path).exists() for path in paths)
