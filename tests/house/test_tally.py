"""The last line of `make test`: what passed and failed, and what was left out and why."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import repository
from tests.tally import verdict

MISSING = "needs etcd: Debian's etcd-server and etcd-client have it"


def test_a_run_with_everything_says_that_nothing_was_left_out() -> None:
    nothing: dict[str, int] = {}
    tallies = [{"outcomes": {"passed": 40}, "left out": nothing}]
    assert (
        verdict("make test", False, 201, tallies)
        == "make test: OK after 3 min 21 s: 40 tests passed, none left out"
    )


def test_what_was_left_out_is_counted_by_its_reason() -> None:
    tallies = [
        {"outcomes": {"passed": 2, "failed": 1}, "left out": {"no cc": 1, MISSING: 20}},
        {"outcomes": {"passed": 3}, "left out": {MISSING: 5}},
    ]
    assert verdict("make test", True, 59, tallies) == (
        "make test: FAILED after 0 min 59 s: 5 tests passed, 1 failed, 26 left out;"
        f" 25: {MISSING}; 1: no cc"
    )


@pytest.mark.parametrize(
    ("target", "written", "said", "code"),
    [
        ("", {"run": 1, "run--part": 2, "run-other": 40, "others": 4}, "OK after 0 min 0 s: 7 ", 0),
        ("failed\n", {"run": 1, "others": 1}, "FAILED after 0 min 0 s: 2 ", 1),
        ("", {"run": 1}, "none left out; others did not come to its end", 1),
        ("", {"run": 1, "others": None}, "1 tests passed, 1 failed", 1),
    ],
)
def test_a_run_that_failed_or_wrote_nothing_is_a_failure(
    target: str, written: dict[str, int | None], said: str, code: int, tmp_path: Path
) -> None:
    folder = tmp_path / "build" / "tally"
    folder.mkdir(parents=True)
    (folder / "test").write_text(f"{time.time():.0f}\n{target}")
    for run, passed in written.items():
        outcomes = {"failed": 1} if passed is None else {"passed": passed}
        (folder / f"{run}.json").write_text(json.dumps({"outcomes": outcomes, "left out": {}}))
    done = subprocess.run(
        [sys.executable, repository.ROOT / "tests" / "tally.py", "test", "run", "others"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert re.sub(r"after \d min \d+ s", "after 0 min 0 s", done.stdout).count(said) == 1, done
    assert done.returncode == code


def test_each_outcome_of_a_run_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "def test_away(): pytest.skip('no server')\n"
        "@pytest.fixture\n"
        "def broken(): raise OSError\n"
        "@pytest.mark.xfail\n"
        "def test_known(): assert False\n"
        "def test_without(broken): pass\n"
    )
    tally = tmp_path / "made" / "tally.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.fixtures.heart", "--rootdir"),
            *(str(tmp_path), "-c", "/dev/null", f"--tally={tally}", str(tmp_path)),
        ],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(tally.read_text("utf-8")) == {
        "outcomes": {"passed": 1, "failed": 2},
        "left out": {"no server": 1},
    }
