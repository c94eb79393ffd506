"""The demo and the tour: they run, say what they must, can fail, and leave nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from examples.tour.scenes import SCENES
from redisson_py.testing import EmbeddedServer
from tests.support import repository

DEMO = ("examples.demo", "--workers=3", "--tasks=3", "--seconds=3")
TOUR = ("examples.tour",)
ROW = re.compile(
    r"  (?P<book>ledger file|Redis key) +(?P<expected>[\d,]+) +(?P<actual>[\d,]+)"
    r" +(?P<lost>[-\d,]+) +(?P<missing>[-\d,.]+)"
)

#: Seconds for a whole demo or tour, however busy the machine is.
PATIENCE = 400
#: How often a scene of the tour may go well by luck.
LUCK = 4

pytestmark = pytest.mark.timeout(LUCK * PATIENCE)


@contextmanager
def example(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run an example, its output a pipe, on a server of its own; end it if the test did not."""
    environment = {name: value for name, value in os.environ.items() if name != "REDISSON_URL"}
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=repository.ROOT,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()  # it ends its workers; a SIGKILL would leave a stopped one


def output_of(*arguments: str) -> tuple[int, str]:
    with example(*arguments) as process:
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, output


def processes_in(output: str) -> set[int]:
    return {int(found) for found in re.findall(r"\(pid (\d+)", output)}


def assert_gone(pids: set[int]) -> None:
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("command", [DEMO, (*TOUR, "--only", "lost_lease")], ids=["demo", "tour"])
def test_interrupt_ends_all_processes_even_a_stopped_one(command: tuple[str, ...]) -> None:
    with example(*command) as process:
        assert process.stdout is not None
        pids: set[int] = set()
        for row in process.stdout:
            pids |= processes_in(row)
            if "(SIGSTOP)" in row:
                break
        assert pids
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert_gone(pids)


# The demo.


def rows(output: str) -> dict[tuple[str, str], dict[str, float]]:
    """Return the numbers of the final tables, by phase and book."""
    _, _, report = output.rpartition("\nWithout the lock ")
    unlocked, found, locked = report.partition("\nWith the lock ")
    assert found, output
    return {
        (phase, row["book"]): {
            name: float(value.replace(",", ""))
            for name, value in row.groupdict().items()
            if name != "book"
        }
        for phase, text in (("unlocked", unlocked), ("locked", locked))
        for row in ROW.finditer(text)
    }


def number(pattern: str, output: str) -> int:
    found = re.search(pattern, output)
    assert found is not None, output
    return int(found[1].replace(",", ""))


def test_locked_totals_are_exact_although_holders_are_killed_and_stopped() -> None:
    code, output = output_of(*DEMO)
    assert code == 0, output
    assert "\x1b" not in output
    numbers = rows(output)
    assert len(numbers) == 4, output
    for book in ("ledger file", "Redis key"):
        unlocked, locked = numbers["unlocked", book], numbers["locked", book]
        assert unlocked["lost"] == unlocked["expected"] - unlocked["actual"] > 0
        assert locked["expected"] == locked["actual"] > 0
        assert unlocked["missing"] > 0
        assert locked["missing"] == 0
    # The worker that was killed had written the file only.
    file, key = numbers["locked", "ledger file"], numbers["locked", "Redis key"]
    assert file["expected"] == key["expected"] + 1
    assert number(r"losses noticed +(\d+)", output) >= 1
    assert number(r"workers killed +(\d+)", output) == 1
    assert number(r"workers stopped +(\d+)", output) == 1
    assert number(r"hand-offs +([\d,]+)", output) >= file["expected"]
    assert re.search(r"wait +p50 [\d.]+ ms, p99 [\d.]+ ms", output)
    assert re.search(r"with the lock +[\d.]+ of \d+ s \| held by worker-\d .* hand-offs/s", output)
    assert re.search(r"^Without the lock: [\d,]+ of [\d,]+ bookings lost$", output, re.MULTILINE)
    assert "With the lock: nothing lost, though one worker was killed and one was stopped" in output


def test_cluster_totals_are_exact_when_masters_are_killed_and_slots_move() -> None:
    code, output = output_of(*DEMO, "--cluster", "--seconds=2")
    assert code == 0, output
    numbers = rows(output)
    for book in ("ledger file", "Redis key"):
        assert numbers["unlocked", book]["lost"] > 0
        locked = numbers["locked", book]
        assert locked["expected"] == locked["actual"] > 0
        assert locked["missing"] == 0
    assert number(r"masters killed +(\d+)", output) == 2
    assert number(r"slots moved +(\d+)", output) >= 2
    assert number(r"losses missed +(\d+)", output) == 0
    assert "With the lock: nothing lost, though 2 masters were killed and slots moved" in output
    events = [row for row in output.splitlines() if " | " not in row]
    for whose in ("lock", "book"):
        for what in (f"with the {whose} is killed", f"with the {whose} is moved"):
            [at, *_] = [number for number, row in enumerate(events) if what in row]
            assert "a worker had the lock after" in events[at + 1], output


def test_verdict_is_bad_when_the_lock_is_left_out() -> None:
    code, output = output_of(*DEMO, "--sabotage=no-lock", "--patience=2")
    assert code == 1, output
    assert "WRONG: with the lock the ledger file is not what it should be" in output
    assert "WRONG: with the lock the Redis key is not what it should be" in output
    assert "did not learn of the loss" in output
    assert rows(output)["locked", "ledger file"]["lost"] > 0


# The tour.


@pytest.fixture(scope="module")
def whole() -> tuple[int, str]:
    """The exit code and the output of the whole tour, which leaves nothing on a server."""
    server = EmbeddedServer()
    server.start_blocking()
    try:
        found = output_of(*TOUR, "--url", server.url)
        with Redis.from_url(server.url) as redis:
            assert redis.keys("*") == []
    finally:
        server.close_blocking()
    return found


def test_the_whole_tour_goes_well_and_ends_its_processes(whole: tuple[int, str]) -> None:
    code, output = whole
    assert code == 0, output
    assert re.search(r"\nOK after \d+ s\n\Z", output), output
    about, _, _ = output.partition("\n")
    assert f"{len(SCENES)} short scenes" in about
    _, _, summary = output.rpartition("\nSCENE ")
    assert re.findall(r"^(\w+) +\d+ +[\d.]+ +ok$", summary, re.MULTILINE) == list(SCENES)
    assert "\x1b" not in output
    assert_gone(processes_in(output))


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_shows_what_it_promises(whole: tuple[int, str], name: str) -> None:
    _, output = whole
    _, found, following = output.partition(f"\n  examples/tour/scenes/{name}.py\n")
    assert found, output
    shown, _, _ = following.partition("\n\n")
    assert len(re.findall(r"^     ok  .+: .+$", shown, re.MULTILINE)) >= 1, shown
    assert "WRONG" not in shown


def test_every_scene_goes_wrong_among_processes_that_do_not_meet() -> None:
    """By luck one may do as it should: if a busy machine runs its processes in turn."""
    lucky = list(SCENES)
    for _ in range(LUCK):
        played = [f"--only={name}" for name in lucky]
        code, output = output_of(*TOUR, "--sabotage=apart", "--patience=5", *played)
        wrong = re.findall(r"\n  WRONG  (\w+): (?:WrongError: expected: |TourError: )", output)
        if wrong:
            assert code == 1, output
            assert re.search(rf"\nFAILED after \d+ s: {', '.join(wrong)}\n\Z", output), output
        assert_gone(processes_in(output))
        lucky = [name for name in lucky if name not in wrong]
        if not lucky:
            return
    pytest.fail(f"these never went wrong: {lucky}")
