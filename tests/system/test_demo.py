"""The demo: it runs, says what it must, and can fail."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.demo.phase import Outcome

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "examples.demo", "--workers=3", "--tasks=3", "--seconds=3"]
ROW = re.compile(
    r"  (?P<book>ledger file|Redis key) +(?P<expected>[\d,]+) +(?P<actual>[\d,]+)"
    r" +(?P<lost>[-\d,]+) +(?P<missing>[-\d,.]+)"
)

#: Seconds for a whole demo, however busy the machine is.
PATIENCE = 300

pytestmark = pytest.mark.timeout(PATIENCE + 20)


@contextmanager
def demo(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the demo, its output a pipe, on a server of its own; end it if the test did not."""
    environment = {name: value for name, value in os.environ.items() if name != "REDISSON_URL"}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
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
    with demo(*arguments) as process:
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, output


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


def test_locked_totals_are_exact_although_holders_are_killed_and_stopped() -> None:
    code, output = output_of()
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
    code, output = output_of("--cluster", "--seconds=2")
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
    events = [line for line in output.splitlines() if " | " not in line]
    for whose in ("lock", "book"):
        for what in (f"with the {whose} is killed", f"with the {whose} is moved"):
            [at, *_] = [number for number, line in enumerate(events) if what in line]
            assert "a worker had the lock after" in events[at + 1], output


def test_an_overlapped_section_counts_as_untold_unless_its_holder_was_told() -> None:
    outcome = Outcome(sections=[(1.0, 2.0, False), (2.0, 3.0, False), (3.5, 4.0, True)])
    assert outcome.untold == 0
    outcome.sections += [(3.8, 9.0, False), (5.0, 6.0, True), (7.0, 8.0, False)]
    assert outcome.untold == 2


def test_verdict_is_bad_when_the_lock_is_left_out() -> None:
    code, output = output_of("--sabotage=no-lock", "--patience=2")
    assert code == 1, output
    assert "WRONG: with the lock the ledger file is not what it should be" in output
    assert "WRONG: with the lock the Redis key is not what it should be" in output
    assert "did not learn of the loss" in output
    assert rows(output)["locked", "ledger file"]["lost"] > 0


def test_server_that_is_not_there_is_told_in_one_line() -> None:
    code, output = output_of("--url=redis://127.0.0.1:1/0?socket_timeout=1")
    assert code == 1
    assert "WRONG: ConnectionLostError" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_all_workers_even_a_stopped_one(number: signal.Signals) -> None:
    with demo() as process:
        assert process.stdout is not None
        pids: set[int] = set()
        for line in process.stdout:
            pids |= {int(found) for found in re.findall(r"\(pid (\d+)", line)}
            if "stopped (SIGSTOP)" in line:
                break
        assert len(pids) >= 2
        process.send_signal(number)
        rest, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def number(pattern: str, output: str) -> int:
    found = re.search(pattern, output)
    assert found is not None, output
    return int(found[1].replace(",", ""))
